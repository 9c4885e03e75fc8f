import type { ConsoleRecords, NewConsoleRecord } from "../events/store/own_cells.ts";
import { type Act, actOf, actRecord, keyOf } from "./_act_record.ts";

/** Longest time between two signs of life of an act that runs. */
const ALIVE_MS = 1_000;

/**
 * Progress of an act that runs, and its record. Writings of the record come one after the other. Each must find the
 * record as the one before has left it: if somebody has resumed the act meanwhile, because its process was silent for
 * too long, this progress is lost, and changes nothing more.
 */
export class ActProgress {
  /** Stops an act on many. */
  readonly stop = new AbortController();
  /** Resolves once the end of an act on many is recorded. */
  ended: Promise<unknown> | undefined;
  readonly #records: ConsoleRecords;
  #act: Act;
  #version: string | null;
  #isLost = false;
  #written: Promise<void> = Promise.resolve();
  #isWriting = false;

  /**
   * @param records The records.
   * @param act The act.
   * @param version The version of its record; null if it has none yet.
   */
  constructor(records: ConsoleRecords, act: Act, version: string | null) {
    this.#records = records;
    this.#act = act;
    this.#version = version;
  }

  /** Writes the first record, with others; false if somebody else has begun or resumed the act. */
  async begin(others: readonly NewConsoleRecord[] = []): Promise<boolean> {
    this.#version = await this.#records.replace(actRecord(this.#act), this.#version, others);
    return this.#version !== null;
  }

  /** True once somebody else has resumed the act. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** The act, as it is now. */
  get act(): Act {
    return this.#act;
  }

  /** Notes progress, which the next writing records. */
  note(progress: Partial<Act>): void {
    this.#act = { ...this.#act, ...progress };
  }

  /** Notes progress, and records it, together with others. */
  async write(
    progress: Partial<Act> = {},
    others: readonly NewConsoleRecord[] = [],
  ): Promise<void> {
    this.note(progress);
    const writing = this.#written.then(async () => {
      this.#isWriting = true;
      await this.#put(others);
    }).finally(() => this.#isWriting = false);
    this.#written = writing.catch(() => {});
    await writing;
  }

  async #put(others: readonly NewConsoleRecord[]): Promise<void> {
    const version = await this.#records.replace(actRecord(this.#act), this.#version, others);
    this.#version = version ?? await this.#putAgain(others);
  }

  /** Writes the record again, if the other one that was found is its own: its commit seemed to have failed. */
  async #putAgain(others: readonly NewConsoleRecord[]): Promise<string> {
    const key = keyOf("act", this.#act.id)!;
    const { value, version } = await this.#records.readVersion(key);
    const isOwn = actOf(value, key)?.resumed === this.#act.resumed && version !== null;
    const written = isOwn &&
      await this.#records.replace(actRecord(this.#act), version, others);
    if (written) return written;
    this.#isLost = true;
    this.stop.abort();
    throw new Error("Somebody else has resumed the act");
  }

  /** Runs something, and gives signs of life meanwhile. */
  async during(run: () => Promise<void>): Promise<void> {
    const timer = setInterval(() => {
      // One that fails changes nothing: what the act itself writes fails as well then, or follows.
      if (!this.#isWriting) this.write().catch(() => {});
    }, ALIVE_MS);
    try {
      await run();
    } finally {
      clearInterval(timer);
      await this.#written;
    }
  }
}
