/** The place of a span, as it is handed on. */
export interface TracePlace {
  /** The trace. */
  readonly traceId: string;
  /** The span. */
  readonly spanId: string;
  /** Whether it is sampled, in the lowest bit. */
  readonly traceFlags: number;
}

/** W3C Trace Context, version 00. Ids of zeros are invalid there. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/**
 * Reads the place of a span.
 *
 * @param text What a record holds: anything.
 * @returns The place; undefined where it is none.
 */
export function parseTraceparent(text: unknown): TracePlace | undefined {
  const [, traceId, spanId, flags] = (typeof text === "string" && TRACEPARENT.exec(text)) || [];
  if (!traceId || !spanId || !flags) return undefined;
  return { traceId, spanId, traceFlags: parseInt(flags, 16) & 1 };
}

/**
 * Writes the place of a span, as the header `traceparent` has it.
 *
 * @param place The place.
 * @returns 55 characters; undefined for the place of a span that is not recorded.
 */
export function formatTraceparent(place: TracePlace): string | undefined {
  const { traceId, spanId, traceFlags } = place;
  const text = `00-${traceId}-${spanId}-0${traceFlags & 1}`;
  return TRACEPARENT.test(text) ? text : undefined;
}
