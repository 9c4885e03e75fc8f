import { sleep, Timeouts } from "../../../core/timeouts.ts";
import { NoTurnError } from "../engine.ts";

/** Longest time to wait for an answer of the KV: a remote one never answers some calls. */
export const ANSWER_TIMEOUT_MS = 5_000;

/** Longest time that a delivery waits for its turn. By then its sender has been answered 503, and sends it again. */
export const MAX_WAIT_MS = 4_500;

/**
 * The time for which others are held off by a change that they have overtaken. Over a remote KV, leaving a group
 * takes four answers and joining two: while others joined without a pause, no event ever left.
 */
export const HOLD_MS = 500;

/** The pause before what is held is read again. */
const HELD_PAUSE_MS = 20;

/** The tasks of a key that wait for the running one, each set in the order in which they came. */
interface Waiting {
  /** Tasks that go first. */
  readonly urgent: Set<() => void>;
  /** Other tasks. */
  readonly rest: Set<() => void>;
}

/** Options of a task that waits for its turn. */
export interface TurnOptions {
  /** Set if it goes before the other tasks that wait already. */
  readonly isUrgent?: boolean | undefined;
  /** The longest wait, in milliseconds: afterwards it has no turn any more. Without an end by default. */
  readonly withinMs?: number | undefined;
  /** Aborted once nobody waits for it: afterwards it has no turn any more, either. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs one task at a time for each key. This only saves tries that would fail: correctness rests on the
 * checks of the commits.
 */
export class KeyedLock {
  readonly #timeouts = new Timeouts(ANSWER_TIMEOUT_MS);
  readonly #held = new Map<string | symbol, Waiting>();

  /**
   * Runs a task when its turn comes: when each task of its key before it has ended, or has run for 5 s. A
   * task that is given up while it waits leaves the queue: its caller tries again, and if each try kept its
   * place, the queue would grow by all of them.
   *
   * @param key The key.
   * @param task The task. It gets the time that it has waited, in milliseconds; undefined if it has not.
   * @param options What it waits for.
   * @throws {NoTurnError} If its turn has not come in time.
   */
  async run<T>(
    key: string | symbol,
    task: (waitedMs?: number) => Promise<T>,
    options: TurnOptions = {},
  ): Promise<T> {
    const waiting = this.#held.get(key);
    const waitedMs = waiting && await turnOf(waiting, options);
    if (!waiting) this.#held.set(key, { urgent: new Set(), rest: new Set() });
    try {
      return await this.#timeouts.limit(task(waitedMs));
    } finally {
      this.#release(key);
    }
  }

  #release(key: string | symbol): void {
    const { urgent, rest } = this.#held.get(key)!;
    for (const tasks of [urgent, rest]) {
      for (const next of tasks) {
        tasks.delete(next);
        return next();
      }
    }
    this.#held.delete(key);
  }
}

/** Waits for a turn, and tells for how long, in milliseconds. */
async function turnOf(
  { urgent, rest }: Waiting,
  { isUrgent = false, withinMs, signal }: TurnOptions,
): Promise<number> {
  signal?.throwIfAborted();
  const tasks = isUrgent ? urgent : rest;
  const start = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  tasks.add(resolve);
  const giveUp = (reason: unknown) => {
    if (tasks.delete(resolve)) reject(reason);
  };
  const tooLate = () => giveUp(new NoTurnError(`others took longer than ${withinMs} ms`));
  const timer = withinMs === undefined ? undefined : setTimeout(tooLate, withinMs);
  const onAbort = () => giveUp(signal!.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    await promise;
    return performance.now() - start;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/**
 * Reads what another change may hold, once it is not held any more.
 *
 * @param read Reads it.
 * @param heldUntil Finds the time until which it is held in what was read, milliseconds since the epoch.
 * @returns What was read last.
 */
export async function unlessHeld<T>(
  read: () => Promise<T>,
  heldUntil: (found: T) => number,
): Promise<T> {
  const start = performance.now();
  for (;;) {
    const found = await read();
    // Both clocks: another machine's may be ahead.
    if (heldUntil(found) <= Date.now() || performance.now() - start > HOLD_MS) return found;
    await sleep(HELD_PAUSE_MS);
  }
}
