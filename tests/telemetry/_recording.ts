import type {
  AttemptOutcome,
  CountedDelivery,
  CountedStep,
  Telemetry,
} from "../../telemetry/telemetry.ts";

/** A telemetry that keeps what it is given. */
export interface RecordingTelemetry extends Telemetry {
  readonly routes: string[];
  readonly deliveries: CountedDelivery[];
  readonly steps: CountedStep[];
  /** Outcomes of attempts, with the message of what was thrown. */
  readonly outcomes: [AttemptOutcome, string?][];
}

/** Makes a telemetry that keeps what it is given. */
export function recordTelemetry(traceparent?: string): RecordingTelemetry {
  const routes: string[] = [];
  const deliveries: CountedDelivery[] = [];
  const steps: CountedStep[] = [];
  const outcomes: [AttemptOutcome, string?][] = [];
  return {
    ...{ routes, deliveries, steps, outcomes },
    nameRequest: (method, route) => void routes.push(`${method} ${route ?? ""}`.trim()),
    storing: (_, store) => store(traceparent),
    countDelivery: (delivery) => void deliveries.push(delivery),
    countStep: (step) => void steps.push(step),
    attempt: () => ({
      run: (part) => part(),
      handlerEnded: () => {},
      settled: (outcome, failure) =>
        void outcomes.push(failure ? [outcome, (failure.error as Error).message] : [outcome]),
    }),
    watchOldestDue: () => () => {},
  };
}
