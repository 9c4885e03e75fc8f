import { sleep } from "./timeouts.ts";

/** Time during which a change is tried again: the sender of a webhook has to be answered within 10 s. */
const TRY_MS = 4_500;

/** The longest pause between tries. */
const MAX_PAUSE_MS = 50;

/**
 * Tries again while others change what a change depends on. The pauses grow and are random: without them, a
 * change that takes more steps than the others would lose each time.
 *
 * @param attempt Makes a try. Returns undefined if others were faster.
 * @returns The result of the try that succeeded.
 * @throws {OvertakenError} If none succeeds in time.
 */
export async function untilDone<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  const tries = new Tries();
  for (;; await tries.next()) {
    const result = await attempt();
    if (result !== undefined) return result;
  }
}

/** The tries of a change, see {@linkcode untilDone}. */
export class Tries {
  /** The time of the first failure, by the monotonic clock. */
  #start: number | undefined;
  #pauseMs = 0;

  /** Waits until the next try. Throws if they have taken too long. */
  async next(): Promise<void> {
    // The first one costs no look at the clock: nearly all changes need no other.
    this.#start ??= performance.now();
    if (performance.now() - this.#start > TRY_MS) {
      throw new OvertakenError(TRY_MS);
    }
    const pauseMs = this.#pauseMs * Math.random();
    this.#pauseMs = Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs + 1);
    // Retry once at once: the first try may have used old data.
    if (pauseMs > 0) await sleep(pauseMs);
  }
}

/** Thrown if others were faster for too long. Nothing was changed. */
export class OvertakenError extends Error {
  /** The class's name. */
  override readonly name = "OvertakenError";

  /** @param ms The time for which it was tried, in milliseconds. */
  constructor(ms: number) {
    super(`Others changed what the change depends on for ${ms} ms`);
  }
}
