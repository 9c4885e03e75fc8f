import type { Attempt, StoredDelivery, Telemetry } from "./telemetry.ts";

/**
 * Makes one telemetry of two. Both get every call. What one of them throws reaches neither the other nor
 * the app. A delivery gets the trace of the first one that has any.
 *
 * @param first The first telemetry.
 * @param second The second one.
 * @returns The telemetry of both.
 * @category Log and telemetry
 */
export function combineTelemetries(first: Telemetry, second: Telemetry): Telemetry {
  const both = [first, second];
  // `Required`, so that a part that telemetries may lack cannot be missing here.
  const combined: Required<Telemetry> = {
    nameRequest: (...request) => void each(both, (one) => one.nameRequest(...request)),
    storing: (delivery, store) =>
      storingWithin(
        first,
        delivery,
        (outer) => storingWithin(second, delivery, (inner) => store(outer ?? inner)),
      ),
    countDelivery: (delivery) => void each(both, (one) => one.countDelivery(delivery)),
    countStep: (step) => void each(both, (one) => one.countStep(step)),
    attempt: (event) => combineAttempts(each(both, (one) => one.attempt(event))),
    watchOldestDue: (read) => {
      const ends = each(both, (one) => one.watchOldestDue(read));
      return () => void each(ends, (end) => end());
    },
  };
  return combined;
}

/** Makes one attempt of those that have begun. */
function combineAttempts(attempts: readonly Attempt[]): Required<Attempt> {
  return {
    run: (part) => attempts.reduceRight((run, attempt) => () => runWithin(attempt, run), part)(),
    handlerEnded: () => void each(attempts, (attempt) => attempt.handlerEnded()),
    settled: (...result) => void each(attempts, (attempt) => attempt.settled(...result)),
  };
}

/** Calls a function with each item. Returns the results of the calls that did not throw. */
function each<T, R>(items: readonly T[], call: (item: T) => R): R[] {
  return items.flatMap((item) => {
    try {
      return [call(item)];
    } catch {
      // A receiver that is broken must not stop an event.
      return [];
    }
  });
}

/** Stores a delivery within a telemetry: once, even if that throws. */
async function storingWithin<T>(
  telemetry: Telemetry,
  delivery: StoredDelivery,
  store: (traceparent: string | undefined) => Promise<T>,
): Promise<T> {
  let storing: Promise<T> | undefined;
  try {
    await telemetry.storing(delivery, (traceparent) => storing ??= store(traceparent));
  } catch {
    // If storing has failed, its error is thrown below.
  }
  return await (storing ?? store(undefined));
}

/** Runs a part within an attempt: once, even if that throws. */
function runWithin<T>(attempt: Attempt, part: () => T): T {
  let end: { readonly value: T } | { readonly error: unknown } | undefined;
  const once = (): T => {
    try {
      const value = part();
      end = { value };
      return value;
    } catch (error) {
      end = { error };
      throw error;
    }
  };
  try {
    attempt.run(once);
  } catch {
    // The part's error is thrown below.
  }
  if (!end) return part();
  if ("error" in end) throw end.error;
  return end.value;
}
