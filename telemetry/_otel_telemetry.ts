import {
  type Attributes,
  context,
  metrics,
  type ObservableResult,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { BoundedLabel } from "./_bounded_label.ts";
import { createInstruments } from "./_instruments.ts";
import { OtelAttempt } from "./_otel_attempt.ts";
import type { OtelParts } from "./_otel_parts.ts";
import { formatTraceparent } from "./traceparent.ts";
import type {
  Attempt,
  AttemptedEvent,
  CountedDelivery,
  StoredDelivery,
  Telemetry,
} from "./telemetry.ts";

/** The name of the instrumentation, and of the queue that events go through. */
const SCOPE = "@org/edge-base";
const SYSTEM = "edge_base";

/** GitHub has some 70 types of events, Telegram some 25. */
const MAX_TYPES = 100;

/** This module has some 25 codes. */
const MAX_CODES = 50;

/** Classes of errors that handlers throw. */
const MAX_ERRORS = 20;

/** A KV that does not answer must not hold the other metrics up. */
const READ_TIMEOUT_MS = 1_000;

/** The methods that a span is named by: the others are whatever a sender writes. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]);

/** Reports to the providers that are registered with `@opentelemetry/api`. */
export class OtelTelemetry implements Telemetry {
  readonly #parts: OtelParts = {
    tracer: trace.getTracer(SCOPE),
    instruments: createInstruments(metrics.getMeter(SCOPE)),
    types: new BoundedLabel(MAX_TYPES),
    errors: new BoundedLabel(MAX_ERRORS),
  };
  readonly #codes = new BoundedLabel(MAX_CODES);

  nameRequest(method: string, route: string | undefined): void {
    const span = trace.getActiveSpan();
    const name = METHODS.has(method) ? method : "HTTP";
    span?.updateName(route === undefined ? name : `${name} ${route}`);
    if (route !== undefined) span?.setAttribute("http.route", route);
  }

  async storing<T>(
    { platform, bytes }: StoredDelivery,
    store: (traceparent: string | undefined) => Promise<T>,
  ): Promise<T> {
    const { tracer, instruments } = this.#parts;
    const labels = messagingLabels("send", platform);
    const attributes = { ...labels, "messaging.message.body.size": bytes };
    const options = { kind: SpanKind.PRODUCER, attributes };
    const span = tracer.startSpan(`send ${platform}`, options);
    const start = performance.now();
    let failed = true;
    try {
      const traceparent = formatTraceparent(span.spanContext());
      const within = trace.setSpan(context.active(), span);
      const result = await context.with(within, () => store(traceparent));
      failed = false;
      return result;
    } finally {
      const error = failed ? { "error.type": "QUEUE_UNAVAILABLE" } : {};
      instruments.storing.record((performance.now() - start) / 1000, { ...labels, ...error });
      span.setAttributes(error);
      if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    }
  }

  countDelivery({ platform, outcome, type, code }: CountedDelivery): void {
    const { instruments, types } = this.#parts;
    instruments.deliveries.add(1, {
      "messaging.destination.name": platform,
      "edge_base.delivery.outcome": outcome,
      ...(type !== undefined && { "edge_base.event.type": types.of(type) }),
      ...(code !== undefined && { "error.type": this.#codes.of(code) }),
    });
  }

  attempt(event: AttemptedEvent): Attempt {
    return new OtelAttempt(this.#parts, event, messagingLabels("process", event.platform));
  }

  watchOldestDue(read: () => Promise<number | null>): () => void {
    const { oldestDue } = this.#parts.instruments;
    const observe = async (result: ObservableResult) => {
      const dueAt = await inTime(read);
      if (dueAt === undefined) return;
      result.observe(dueAt === null ? 0 : Math.max(0, Date.now() - dueAt) / 1000);
    };
    oldestDue.addCallback(observe);
    return () => oldestDue.removeCallback(observe);
  }
}

/** Labels that the semantic conventions ask for. */
function messagingLabels(operation: "send" | "process", platform: string): Attributes {
  return {
    "messaging.system": SYSTEM,
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    "messaging.destination.name": platform,
  };
}

/** What is thrown while Deno collects metrics ends the process. */
async function inTime<T>(read: () => Promise<T>): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), READ_TIMEOUT_MS);
    });
    return await Promise.race([read(), late]);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
