import type { Tracer } from "@opentelemetry/api";
import type { BoundedLabel } from "./_bounded_label.ts";
import type { Instruments } from "./_instruments.ts";

/** What a telemetry and its attempts share. */
export interface OtelParts {
  /** Makes the spans. */
  readonly tracer: Tracer;
  /** What is measured. */
  readonly instruments: Instruments;
  /** The types of events. */
  readonly types: BoundedLabel;
  /** The names of errors. */
  readonly errors: BoundedLabel;
}
