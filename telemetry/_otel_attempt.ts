import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { OtelParts } from "./_otel_parts.ts";
import type { Attempt, AttemptedEvent, AttemptOutcome } from "./telemetry.ts";
import { parseTraceparent } from "./traceparent.ts";

/** An attempt, with its span in the trace of the event's delivery. */
export class OtelAttempt implements Attempt {
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
