/** Beyond this the clock was set, and did not drift. */
const JUMP_MS = 1_000;

/**
 * Notices when the clock is set. Until all that run have renewed their leases by the new time, an
 * expired lease means nothing.
 */
export class ClockWatch {
  readonly #holdMs: number;
  readonly #onJump: (byMs: number) => void;
  #offset = Date.now() - performance.now();
  #settledAt = 0;

  /**
   * @param holdMs For how long after a jump nothing is made of it.
   * @param onJump Told by how much the clock was set, in milliseconds.
   */
  constructor(holdMs: number, onJump: (byMs: number) => void) {
    this.#holdMs = holdMs;
    this.#onJump = onJump;
  }

  /** Whether the clock was set within the time to hold. */
  hasJumped(): boolean {
    const now = performance.now();
    const offset = Date.now() - now;
    const byMs = offset - this.#offset;
    this.#offset = offset;
    if (Math.abs(byMs) > JUMP_MS) {
      this.#settledAt = now + this.#holdMs;
      this.#onJump(Math.round(byMs));
    }
    return now < this.#settledAt;
  }
}
