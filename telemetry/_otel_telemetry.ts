import {
  type Attributes,
  type Context,
  context,
  type Meter,
  metrics,
  type ObservableResult,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import { withDeadline } from "../core/timeouts.ts";
import {
  type Attempt,
  type AttemptedEvent,
  type AttemptOutcome,
  type CountedDelivery,
  type CountedStep,
  type StoredDelivery,
  takenMs,
  type Telemetry,
} from "./telemetry.ts";
import { formatTraceparent, parseTraceparent } from "./traceparent.ts";

/** Name of the instrumentation. */
const SCOPE = "@org/edge-base";
const SYSTEM = "edge_base";

/** Most types of events: GitHub has some 70, Telegram some 25. */
const MAX_TYPES = 100;

/** Most error codes: this package has some 25. */
const MAX_CODES = 50;

/** Most sources of events that handlers emit, most schedules, and most limits of services. */
const MAX_NAMES = 50;

/** Platform of emitted events, as in their attempts. */
const OWN = "events";

/** Most classes of errors that handlers throw. */
const MAX_ERRORS = 20;

/** Longest wait for a store that does not answer: it must not delay the other metrics. */
const READ_TIMEOUT_MS = 1_000;

/** Buckets in seconds, from the semantic conventions of OpenTelemetry for messaging. */
const OPERATION_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Buckets in seconds, from milliseconds to the day for which events are retried. */
const EVENT_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 1_800, 7_200, 86_400];

/** Replacement for a value that is one too many, or does not look like a label. */
const OTHER = "_OTHER";

/** Methods that may name a span. Others could be any text of a sender. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]);

/**
 * Creates the instruments of the metrics. Names that begin with `messaging.` come from OpenTelemetry's
 * semantic conventions; the others are the package's.
 */
function createInstruments(meter: Meter) {
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { description, unit: `{${unit}}` });
  const seconds = (name: string, buckets: number[], description: string) =>
    meter.createHistogram(name, {
      description,
      unit: "s",
      advice: { explicitBucketBoundaries: buckets },
    });
  return {
    deliveries: counter(
      "edge_base.deliveries",
      "delivery",
      "Deliveries to the webhook, by outcome.",
    ),
    storing: seconds(
      "messaging.client.operation.duration",
      OPERATION_S,
      "Duration of storing a delivery.",
    ),
    consumed: counter(
      "messaging.client.consumed.messages",
      "message",
      "Attempts to handle an event, by outcome.",
    ),
    processing: seconds("messaging.process.duration", OPERATION_S, "Duration of handlers."),
    untilHandled: seconds(
      "edge_base.event.duration",
      EVENT_S,
      "Time from the receipt of an event until it was handled, without planned waits.",
    ),
    oldestDue: meter.createObservableGauge("edge_base.events.oldest_due.age", {
      description: "Time for which the oldest waiting event has been due.",
      unit: "s",
    }),
    emitted: counter(
      "edge_base.events.emitted",
      "event",
      "Events of the app's own that were stored.",
    ),
    cancelled: counter(
      "edge_base.events.cancelled",
      "event",
      "Events that were cancelled while they waited, or after their process had died.",
    ),
    waits: counter("edge_base.waits", "wait", "Waits of events for a name, by their end."),
    limited: counter(
      "edge_base.limit.waits",
      "wait",
      "Waits for room under limits of services, by their end.",
    ),
    slots: counter("edge_base.schedule.slots", "slot", "Slots of schedules, by outcome."),
    droppedPayloads: counter(
      "edge_base.kept_payloads.dropped",
      "payload",
      "Payloads of done events that were dropped, by reason.",
    ),
    caughtUp: counter(
      "edge_base.catch_up.deliveries",
      "delivery",
      "Deliveries that runs of catchUp() have found, by outcome.",
    ),
    unreadable: meter.createGauge("edge_base.store.unreadable", {
      description: "Stored values that the last check of the store could not decode.",
      unit: "{value}",
    }),
    putBack: counter(
      "edge_base.events.put_back",
      "event",
      "Events that nothing led to, and that a check of the store has put back.",
    ),
  };
}

/** Values of a label, up to a largest number: each value makes another time series. */
export class BoundedLabel {
  readonly #max: number;
  readonly #known = new Set<string>();

  /**
   * Creates a label without values.
   *
   * @param max The largest number of values beside `_OTHER`.
   */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes the value, or `_OTHER` in its place. */
  of(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#max || !/^[\w.:[\]-]{1,100}$/.test(value)) return OTHER;
    this.#known.add(value);
    return value;
  }
}

/** Parts that a telemetry shares with its attempts. */
interface OtelParts {
  /** Maker of spans. */
  readonly tracer: Tracer;
  /** Instruments of the metrics. */
  readonly instruments: ReturnType<typeof createInstruments>;
  /** Label for types of events. */
  readonly types: BoundedLabel;
  /** Label for names of errors. */
  readonly errors: BoundedLabel;
}

/** Telemetry that reports to the providers registered with `@opentelemetry/api`. */
export class OtelTelemetry implements Telemetry {
  readonly #parts: OtelParts = {
    tracer: trace.getTracer(SCOPE),
    instruments: createInstruments(metrics.getMeter(SCOPE)),
    types: new BoundedLabel(MAX_TYPES),
    errors: new BoundedLabel(MAX_ERRORS),
  };
  readonly #codes = new BoundedLabel(MAX_CODES);
  readonly #sources = new BoundedLabel(MAX_NAMES);
  readonly #schedules = new BoundedLabel(MAX_NAMES);
  readonly #limits = new BoundedLabel(MAX_NAMES);

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

  countStep(step: CountedStep): void {
    const { instruments, types } = this.#parts;
    if (step.is === "emitted") {
      return instruments.emitted.add(1, {
        "messaging.destination.name": OWN,
        "edge_base.event.source": this.#sources.of(step.source),
        "edge_base.event.type": types.of(step.type),
      });
    }
    if (step.is === "cancelled") {
      return instruments.cancelled.add(step.count, {
        "messaging.destination.name": step.platform,
        "edge_base.event.type": types.of(step.type),
      });
    }
    if (step.is === "wait_ended") {
      return instruments.waits.add(1, {
        "messaging.destination.name": step.platform,
        "edge_base.wait.outcome": step.outcome,
      });
    }
    if (step.is === "limited") {
      return instruments.limited.add(1, {
        "edge_base.limit.name": this.#limits.of(step.limit),
        "edge_base.limit.outcome": step.outcome,
      });
    }
    if (step.is === "slots") {
      return instruments.slots.add(step.count, {
        "edge_base.schedule.name": this.#schedules.of(step.schedule),
        "edge_base.slot.outcome": step.outcome,
      });
    }
    if (step.is === "payloads_dropped") {
      const labels = { "edge_base.drop.reason": step.reason };
      return instruments.droppedPayloads.add(step.count, labels);
    }
    if (step.is === "checked") return instruments.unreadable.record(step.unreadable);
    if (step.is === "put_back") return instruments.putBack.add(1);
    instruments.caughtUp.add(step.count, { "edge_base.catch_up.outcome": step.outcome });
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

/** Makes the labels that the semantic conventions require. */
function messagingLabels(operation: "send" | "process", platform: string): Attributes {
  return {
    "messaging.system": SYSTEM,
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    "messaging.destination.name": platform,
  };
}

/** Reads within a time limit, and never throws: an error while Deno collects metrics ends the process. */
async function inTime<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await withDeadline(read(), READ_TIMEOUT_MS);
  } catch {
    return undefined;
  }
}

/** Attempt with a span in the trace of the event's delivery. */
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
    // Not the active context: another delivery of the same group commit may have started this handler.
    const parent = from
      ? trace.setSpanContext(ROOT_CONTEXT, { ...from, isRemote: true })
      : ROOT_CONTEXT;
    const attributes = {
      ...labels,
      "messaging.message.id": event.id,
      "edge_base.event.type": event.type,
      "edge_base.event.attempt": event.attempt,
      ...(event.batch && { "messaging.batch.message_count": event.batch.events }),
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

  settled(outcome: AttemptOutcome, failure?: { readonly error: unknown }, joined = 0): void {
    const { instruments, types } = this.#parts;
    const errorType = this.#errorType(outcome, failure);
    const failed = errorType === undefined ? {} : { "error.type": errorType };
    const outcomes = { "edge_base.event.outcome": outcome, ...failed };
    const type = types.of(this.#event.type);
    const { events = 1 } = this.#event.batch ?? {};
    instruments.consumed.add(events + joined, {
      ...this.#labels,
      "edge_base.event.type": type,
      ...outcomes,
    });
    if (this.#durationMs !== undefined) {
      instruments.processing.record(this.#durationMs / 1000, { ...this.#labels, ...failed });
    }
    if (outcome === "handled") {
      instruments.untilHandled.record(takenMs(this.#event) / 1000, {
        "messaging.destination.name": this.#event.platform,
      });
    }
    this.#span.setAttributes(outcomes);
    if (errorType !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    // By its own start and duration: the clock may have been set meanwhile.
    this.#span.end(this.#startedAt + (this.#durationMs ?? 0));
  }

  /** Finds the name of the error. Its message or stack could hold a sender's text, or a secret. */
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
