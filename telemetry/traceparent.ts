/** Position of a span in a trace, as it is passed on. */
export interface TraceContext {
  /** Id of the trace. */
  readonly traceId: string;
  /** Id of the span. */
  readonly spanId: string;
  /** Flags. The lowest bit tells whether the trace is sampled. */
  readonly traceFlags: number;
}

/** Header of W3C Trace Context, version 00. Ids of zeros are invalid. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/**
 * Reads the position of a span.
 *
 * @param text The value of a record, of any type.
 * @returns The position; undefined if the value is none.
 */
export function parseTraceparent(text: unknown): TraceContext | undefined {
  const [, traceId, spanId, flags] = (typeof text === "string" && TRACEPARENT.exec(text)) || [];
  if (!traceId || !spanId || !flags) return undefined;
  return { traceId, spanId, traceFlags: parseInt(flags, 16) & 1 };
}

/**
 * Writes the position of a span in the form of the header `traceparent`.
 *
 * @param context The position.
 * @returns A text of 55 characters; undefined if the span is not recorded.
 */
export function formatTraceparent(context: TraceContext): string | undefined {
  const { traceId, spanId, traceFlags } = context;
  const text = `00-${traceId}-${spanId}-0${traceFlags & 1}`;
  return TRACEPARENT.test(text) ? text : undefined;
}
