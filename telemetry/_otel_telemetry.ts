import { withDeadline } from "../core/deadline.ts";
import {
  type Attributes,
  type Context,
  context,
  metrics,
  type ObservableResult,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import { BoundedLabel, createInstruments, type Instruments } from "./_instruments.ts";
import type {
  Attempt,
  AttemptedEvent,
  AttemptOutcome,
  CountedDelivery,
  StoredDelivery,
  Telemetry,
} from "./telemetry.ts";
import { formatTraceparent, parseTraceparent } from "./traceparent.ts";

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

/** What a telemetry and its attempts share. */
interface OtelParts {
  /** Makes the spans. */
  readonly tracer: Tracer;
  /** What is measured. */
  readonly instruments: Instruments;
  /** The types of events. */
  readonly types: BoundedLabel;
  /** The names of errors. */
  readonly errors: BoundedLabel;
}

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
  try {
    return await withDeadline(read(), READ_TIMEOUT_MS);
  } catch {
    return undefined;
  }
}

/** An attempt, with its span in the trace of the event's delivery. */
class OtelAttempt implements Attempt {
  readonly #parts: OtelParts;
  readonly #event: AttemptedEvent;
  readonly #labels: Attributes;
  readonly #span: Span;
  readonly #context: Context;
  readonly #startedAt = Date.now();
  readonly #start = performance.now();
  #durationMs: number | undefined;

  constructor(parts: OtelParts, event: AttemptedEvent, labels: Attributes) {
    this.#parts = parts;
    this.#event = event;
    this.#labels = labels;
    const from = parseTraceparent(event.traceparent);
    // Never the context that is active: whoever shares a commit with a delivery may start its handler.
    const parent = from
      ? trace.setSpanContext(ROOT_CONTEXT, { ...from, isRemote: true })
      : ROOT_CONTEXT;
    const attributes = {
      ...labels,
      "messaging.message.id": event.id,
      "edge_base.event.type": event.type,
      "edge_base.event.attempt": event.attempt,
    };
    const options = { kind: SpanKind.CONSUMER, attributes, startTime: this.#startedAt };
    this.#span = parts.tracer.startSpan(`process ${event.platform}`, options, parent);
    this.#context = trace.setSpan(parent, this.#span);
  }

  run<T>(part: () => T): T {
    return context.with(this.#context, part);
  }

  handlerEnded(): void {
    this.#durationMs = performance.now() - this.#start;
  }

  settled(outcome: AttemptOutcome, failure?: { readonly error: unknown }): void {
    const { instruments, types } = this.#parts;
    const errorType = this.#errorType(outcome, failure);
    const failed = errorType === undefined ? {} : { "error.type": errorType };
    const outcomes = { "edge_base.event.outcome": outcome, ...failed };
    const type = types.of(this.#event.type);
    instruments.consumed.add(1, { ...this.#labels, "edge_base.event.type": type, ...outcomes });
    if (this.#durationMs !== undefined) {
      instruments.processing.record(this.#durationMs / 1000, { ...this.#labels, ...failed });
    }
    if (outcome === "handled") {
      const durationMs = Math.max(0, Date.now() - this.#event.receivedAt);
      instruments.untilHandled.record(durationMs / 1000, {
        "messaging.destination.name": this.#event.platform,
      });
    }
    this.#span.setAttributes(outcomes);
    if (errorType !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    // With its own start and length, for the clock may be set meanwhile.
    this.#span.end(this.#startedAt + (this.#durationMs ?? 0));
  }

  /** The error's name: a message or a stack may hold what a sender wrote, or a secret. */
  #errorType(outcome: AttemptOutcome, failure?: { readonly error: unknown }): string | undefined {
    if (failure) return this.#parts.errors.of(nameOf(failure.error));
    return outcome === "dead" || outcome === "lost" ? "lease_expired" : undefined;
  }
}

function nameOf(error: unknown): string {
  try {
    return error instanceof Error ? String(error.name) : typeof error;
  } catch {
    return "";
  }
}
