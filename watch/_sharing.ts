import type { ConsoleRecords } from "../events/store/own_cells.ts";

/** The same while others are there, and the time from a count to its record while somebody looks there. */
export const SHARED_MS = 2_000;

/** Time for which an instance is told that somebody looks, and after which it is told so again. */
const [WATCHED_MS, TOLD_AGAIN_MS] = [60_000, 20_000] as const;

/** Time between two looks of an instance that counts whether somebody looks at another one. */
const LOOK_MS = 5_000;

/** Cell by which instances are told that somebody looks at one of them. */
const WATCHED = { kind: "watched", number: 0, id: "all" } as const;

/**
 * Counts of the running minute that instances show each other while somebody looks: they are written soon after
 * something was counted, so that it adds up the same on the pages of each.
 *
 * The page tells so in a cell, if there are other instances, three times a minute. An instance that counts something
 * reads that cell, every five seconds. One that counts nothing does nothing.
 */
export class Sharing {
  readonly #records: ConsoleRecords;
  readonly #write: () => void;
  #toldAt = -Infinity;
  #lookedAt = -Infinity;
  #looking: Promise<void> | undefined;
  #watchedUntil = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  /** @param write Writes the counts of the running minute. */
  constructor(records: ConsoleRecords, write: () => void) {
    this.#records = records;
    this.#write = write;
  }

  /** Tells the others that somebody looks. */
  tell(now: number): void {
    this.#watchedUntil = now + WATCHED_MS;
    if (this.#isStopped || Math.abs(now - this.#toldAt) < TOLD_AGAIN_MS) return;
    this.#toldAt = now;
    const value = { until: this.#watchedUntil };
    this.#records.write([{ ...WATCHED, value, forMs: WATCHED_MS }]).catch(() =>
      this.#toldAt = -Infinity
    );
  }

  /** Notes that something was counted. */
  noteCount(): void {
    const now = Date.now();
    if (this.#timer !== undefined || this.#isStopped) return;
    if (now < this.#watchedUntil) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#write();
      }, SHARED_MS);
      Deno.unrefTimer(this.#timer);
    } else if (!this.#looking && Math.abs(now - this.#lookedAt) >= LOOK_MS) {
      this.#lookedAt = now;
      this.#looking = this.#look().finally(() => this.#looking = undefined);
    }
  }

  /** Looks whether somebody looks at another instance; what was counted meanwhile is shown, too. */
  async #look(): Promise<void> {
    const value = await this.#records.read(WATCHED).catch(() => undefined);
    const { until } = Object(value);
    if (typeof until !== "number" || until <= Date.now() || until > Date.now() + 2 * WATCHED_MS) {
      return;
    }
    this.#watchedUntil = until;
    this.noteCount();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }
}
