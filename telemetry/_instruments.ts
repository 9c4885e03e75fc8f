import type { Counter, Gauge, Histogram, Meter, ObservableGauge } from "@opentelemetry/api";

/** Buckets in seconds, from the semantic conventions of OpenTelemetry for messaging. */
const OPERATION_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Buckets in seconds, from milliseconds to the day for which events are retried. */
const EVENT_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 1_800, 7_200, 86_400];

/** Replacement for a value that is one too many, or does not look like a label. */
const OTHER = "_OTHER";

/** Instruments of the metrics. */
export interface Instruments {
  readonly deliveries: Counter;
  readonly storing: Histogram;
  readonly consumed: Counter;
  readonly processing: Histogram;
  readonly untilHandled: Histogram;
  readonly oldestDue: ObservableGauge;
  readonly emitted: Counter;
  readonly waits: Counter;
  readonly slots: Counter;
  readonly droppedPayloads: Counter;
  readonly caughtUp: Counter;
  readonly unreadable: Gauge;
  readonly putBack: Counter;
}

/**
 * Creates the instruments. Names that begin with `messaging.` come from OpenTelemetry's semantic
 * conventions; the others are this package's own.
 */
export function createInstruments(meter: Meter): Instruments {
  const seconds = (description: string, explicitBucketBoundaries: number[]) => ({
    description,
    unit: "s",
    advice: { explicitBucketBoundaries },
  });
  return {
    deliveries: meter.createCounter("edge_base.deliveries", {
      description: "Deliveries to the webhook, by outcome.",
      unit: "{delivery}",
    }),
    storing: meter.createHistogram(
      "messaging.client.operation.duration",
      seconds("Duration of storing a delivery.", OPERATION_S),
    ),
    consumed: meter.createCounter("messaging.client.consumed.messages", {
      description: "Attempts to handle an event, by outcome.",
      unit: "{message}",
    }),
    processing: meter.createHistogram(
      "messaging.process.duration",
      seconds("Duration of handlers.", OPERATION_S),
    ),
    untilHandled: meter.createHistogram(
      "edge_base.event.duration",
      seconds(
        "Time from the receipt of an event until it was handled, without planned waits.",
        EVENT_S,
      ),
    ),
    oldestDue: meter.createObservableGauge("edge_base.events.oldest_due.age", {
      description: "Time for which the oldest waiting event has been due.",
      unit: "s",
    }),
    emitted: meter.createCounter("edge_base.events.emitted", {
      description: "Events of the app's own that were stored.",
      unit: "{event}",
    }),
    waits: meter.createCounter("edge_base.waits", {
      description: "Waits of events for a name, by their end.",
      unit: "{wait}",
    }),
    slots: meter.createCounter("edge_base.schedule.slots", {
      description: "Slots of schedules, by outcome.",
      unit: "{slot}",
    }),
    droppedPayloads: meter.createCounter("edge_base.kept_payloads.dropped", {
      description: "Payloads of done events that were dropped, by reason.",
      unit: "{payload}",
    }),
    caughtUp: meter.createCounter("edge_base.catch_up.deliveries", {
      description: "Deliveries that runs of catchUp() have found, by outcome.",
      unit: "{delivery}",
    }),
    unreadable: meter.createGauge("edge_base.store.unreadable", {
      description: "Stored values that the last check of the store could not decode.",
      unit: "{value}",
    }),
    putBack: meter.createCounter("edge_base.events.put_back", {
      description: "Events that nothing led to, and that a check of the store has put back.",
      unit: "{event}",
    }),
  };
}

/** Values of a label, up to a largest number: each value makes a time series of its own. */
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
    if (this.#known.size >= this.#max || !/^[\w.:-]{1,100}$/.test(value)) return OTHER;
    this.#known.add(value);
    return value;
  }
}
