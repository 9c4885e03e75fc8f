import type {
  Attempt,
  AttemptedEvent,
  CountedDelivery,
  CountedStep,
  StoredDelivery,
  Telemetry,
} from "./telemetry.ts";

/**
 * Makes one telemetry of two. Both are told everything. What one of them throws reaches neither the other nor
 * the app. The trace of a delivery is that of the first one that has a trace.
 *
 * @param first The first telemetry.
 * @param second The second one.
 * @returns The telemetry of both.
 * @category Log and telemetry
 */
export function combineTelemetries(first: Telemetry, second: Telemetry): Telemetry {
  return new BothTelemetries(first, second);
}

/** `Required`, so that a part that telemetries may lack cannot be missing here. */
class BothTelemetries implements Required<Telemetry> {
  readonly #first: Telemetry;
  readonly #second: Telemetry;

  constructor(first: Telemetry, second: Telemetry) {
    this.#first = first;
    this.#second = second;
  }

  nameRequest(method: string, route: string | undefined): void {
    this.#each((telemetry) => telemetry.nameRequest(method, route));
  }

  storing<T>(
    delivery: StoredDelivery,
    store: (traceparent: string | undefined) => Promise<T>,
  ): Promise<T> {
    return storingWithin(
      this.#first,
      delivery,
      (outer) => storingWithin(this.#second, delivery, (inner) => store(outer ?? inner)),
    );
  }

  countDelivery(delivery: CountedDelivery): void {
    this.#each((telemetry) => telemetry.countDelivery(delivery));
  }

  countStep(step: CountedStep): void {
    this.#each((telemetry) => telemetry.countStep(step));
  }

  attempt(event: AttemptedEvent): Attempt {
    return new BothAttempts(this.#each((telemetry) => telemetry.attempt(event)));
  }

  watchOldestDue(read: () => Promise<number | null>): () => void {
    const ends = this.#each((telemetry) => telemetry.watchOldestDue(read));
    return () => each(ends, (end) => end());
  }

  #each<T>(call: (telemetry: Telemetry) => T): T[] {
    return each([this.#first, this.#second], call);
  }
}

/** Attempts of both, as far as they have begun. */
class BothAttempts implements Required<Attempt> {
  readonly #attempts: readonly Attempt[];

  constructor(attempts: readonly Attempt[]) {
    this.#attempts = attempts;
  }

  run<T>(part: () => T): T {
    const within = (run: () => T, attempt: Attempt) => () => runWithin(attempt, run);
    return this.#attempts.reduceRight(within, part)();
  }

  handlerEnded(): void {
    each(this.#attempts, (attempt) => attempt.handlerEnded());
  }

  settled(...result: Parameters<Attempt["settled"]>): void {
    each(this.#attempts, (attempt) => attempt.settled(...result));
  }
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

/** Stores a delivery within a telemetry: once, whatever that throws. */
async function storingWithin<T>(
  telemetry: Telemetry,
  delivery: StoredDelivery,
  store: (traceparent: string | undefined) => Promise<T>,
): Promise<T> {
  let storing: Promise<T> | undefined;
  try {
    await telemetry.storing(delivery, (traceparent) => storing ??= store(traceparent));
  } catch {
    // If storing has failed, its own error is thrown below.
  }
  return await (storing ?? store(undefined));
}

/** Runs a part within an attempt: once, whatever that throws. */
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
    // The part's own error is thrown below.
  }
  if (!end) return part();
  if ("error" in end) throw end.error;
  return end.value;
}
