import { SCHEDULE } from "../events/store/emission.ts";
import {
  type AttemptedEvent,
  type AttemptOutcome,
  type CountedDelivery,
  type CountedStep,
  takenMs,
} from "../telemetry/telemetry.ts";
import type { Tally, TypeNumbers } from "./tally.ts";

/** Counts what has become of a delivery. */
export function countDelivery(tally: Tally, delivery: CountedDelivery): void {
  const { platform, intake = platform, outcome, type = "", code = "INTERNAL" } = delivery;
  if (outcome !== "rejected" || delivery.verified) tally.verify(intake);
  if (outcome === "rejected") tally.refuse(intake, code);
  if (outcome === "accepted") tally.count(intake, type, { received: 1 });
}

/** Counts events of the app's own, and those that were cancelled outside of an attempt. */
export function countStep(count: () => Tally, step: CountedStep): void {
  if (step.is === "cancelled") {
    const { platform, intake = platform, type } = step;
    count().count(intake, type, { cancelled: step.count });
  }
  if (step.is === "emitted") count().count(step.source, step.type, { emitted: 1 });
  const isMade = step.is === "slots" && step.outcome !== "left_out";
  if (isMade) count().count(SCHEDULE, step.schedule, { emitted: step.count });
}

/** Counts the end of an attempt: an attempt once, and each of its events. */
export function countAttempt(
  count: () => Tally,
  event: AttemptedEvent,
  outcome: AttemptOutcome,
  joined = 0,
): void {
  const numbers = numbersAfter(outcome, (event.batch?.events ?? 1) + joined);
  if (!numbers) return;
  const { platform, intake = platform, type } = event;
  const tally = count();
  tally.count(intake, type, numbers);
  if (outcome === "handled") tally.time(takenMs(event));
}

/** Finds what the end of an attempt adds; undefined if it adds nothing: the event is given back, or another worker's. */
function numbersAfter(outcome: AttemptOutcome, events: number): Partial<TypeNumbers> | undefined {
  if (outcome === "handled") return { handled: events, attempts: 1 };
  if (outcome === "retried") return { failed: 1, attempts: 1 };
  if (outcome === "dead") return { dead: events, failed: 1, attempts: 1 };
  if (outcome === "ignored" || outcome === "cancelled") return { [outcome]: events };
  if (outcome === "parked") return { parked: 1 };
  return outcome === "put_off" ? { putOff: 1 } : undefined;
}
