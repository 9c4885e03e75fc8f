import type { Counter, Histogram, Meter, ObservableGauge } from "@opentelemetry/api";

/** Buckets for seconds, as the semantic conventions of OpenTelemetry have them for messaging. */
const OPERATION_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** From milliseconds to the day that retries go on for. */
const EVENT_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 1_800, 7_200, 86_400];

/** What a value is replaced by where there are too many, or it has not the form of one. */
const OTHER = "_OTHER";

/** What is measured. */
export interface Instruments {
  readonly deliveries: Counter;
  readonly storing: Histogram;
  readonly consumed: Counter;
  readonly processing: Histogram;
  readonly untilHandled: Histogram;
  readonly oldestDue: ObservableGauge;
}

/**
 * Makes the instruments. Names that begin with `messaging.` are those of OpenTelemetry's semantic
 * conventions, the others are this module's own.
 */
export function createInstruments(meter: Meter): Instruments {
  const seconds = (description: string, explicitBucketBoundaries: number[]) => ({
    description,
    unit: "s",
    advice: { explicitBucketBoundaries },
  });
  return {
    deliveries: meter.createCounter("edge_base.deliveries", {
      description: "Deliveries that came to the webhook, by what became of them.",
      unit: "{delivery}",
    }),
    storing: meter.createHistogram(
      "messaging.client.operation.duration",
      seconds("How long storing a delivery took.", OPERATION_S),
    ),
    consumed: meter.createCounter("messaging.client.consumed.messages", {
      description: "Attempts at handling an event, by how they ended.",
      unit: "{message}",
    }),
    processing: meter.createHistogram(
      "messaging.process.duration",
      seconds("How long handlers took.", OPERATION_S),
    ),
    untilHandled: meter.createHistogram(
      "edge_base.event.duration",
      seconds("How long it took from an event's receipt until it was handled.", EVENT_S),
    ),
    oldestDue: meter.createObservableGauge("edge_base.events.oldest_due.age", {
      description: "For how long the event that waits the longest has been due.",
      unit: "s",
    }),
  };
}

/** Values of a label as they are used, up to a number of them: each makes a time series of its own. */
export class BoundedLabel {
  readonly #max: number;
  readonly #known = new Set<string>();

  /**
   * @param max How many values there may be beside `_OTHER`.
   */
  constructor(max: number) {
    this.#max = max;
  }

  /** The value, or `_OTHER`. */
  of(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#max || !/^[\w.:-]{1,100}$/.test(value)) return OTHER;
    this.#known.add(value);
    return value;
  }
}
