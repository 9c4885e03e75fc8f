import type { ConsoleRecords } from "../events/store/kv/console_records.ts";
import { recordOfAct } from "./_act_record.ts";
import type { Act } from "./_console_data.ts";

/** Longest time between two signs of life. */
const ALIVE_MS = 1_000;

/** Progress of an act that runs, and its record. Writings of the record come one after the other. */
export class ActProgress {
  readonly #records: ConsoleRecords;
  #act: Act;
  #written: Promise<void> = Promise.resolve();
  #isWriting = false;

  constructor(records: ConsoleRecords, act: Act) {
    this.#records = records;
    this.#act = act;
  }

  /** The act, as it is now. */
  get act(): Act {
    return this.#act;
  }

  /** Notes progress, which the next writing records. */
  note(progress: Partial<Act>): void {
    const { underway, ...act } = { ...this.#act, ...progress };
    this.#act = underway ? { ...act, underway } : act;
  }

  /** Notes progress, and records it. */
  async write(progress: Partial<Act> = {}): Promise<void> {
    this.note(progress);
    const writing = this.#written.then(async () => {
      this.#isWriting = true;
      await this.#records.write([recordOfAct(this.#act)]);
    }).finally(() => this.#isWriting = false);
    this.#written = writing.catch(() => {});
    await writing;
  }

  /** Runs something, and gives signs of life meanwhile. */
  async during<T>(run: () => Promise<T>): Promise<T> {
    const timer = setInterval(() => {
      // One that fails changes nothing: what the act itself writes fails as well then, or follows.
      if (!this.#isWriting) this.write().catch(() => {});
    }, ALIVE_MS);
    try {
      return await run();
    } finally {
      clearInterval(timer);
      await this.#written;
    }
  }
}
