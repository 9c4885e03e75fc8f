/** Beyond this the clock was set, and did not drift. */
const JUMP_MS = 1_000;

/**
 * Notices when the clock is set. Until all that run have renewed their leases by the new time, an
 * expired lease means nothing.
 */
export class ClockWatch {
  readonly #holdMs: number;
  #offset = NaN;
  #settledAt = 0;

  /** @param holdMs For how long after a jump nothing is made of it. */
  constructor(holdMs: number) {
    this.#holdMs = holdMs;
  }

  /** Whether the clock was set within the time to hold. */
  hasJumped(): boolean {
    const now = performance.now();
    const offset = Date.now() - now;
    const jumped = Math.abs(offset - this.#offset) > JUMP_MS;
    if (jumped) this.#settledAt = now + this.#holdMs;
    this.#offset = offset;
    return now < this.#settledAt;
  }
}
