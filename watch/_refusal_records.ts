import type { ConsoleRecordKey, ConsoleRecords } from "../events/store/own_cells.ts";
import type { CountedDelivery } from "../telemetry/telemetry.ts";
import { isRefusalList, merged, type NotedRefusals, RefusalNotes } from "./refusals.ts";

/** Most records that are read: each instance that has refused a delivery has one. */
const MAX_READ = 100;

/** Refused deliveries of all instances: this one keeps one record of its own, which it writes if there is anything new. */
export class RefusalRecords {
  readonly #records: ConsoleRecords;
  /** Id of this instance. */
  readonly #id: string;
  /** Time for which a record is kept, in milliseconds. */
  readonly #forMs: number;
  readonly #own = new RefusalNotes();
  /** Place of the record. */
  #writtenAt: ConsoleRecordKey | undefined;

  constructor(records: ConsoleRecords, id: string, forMs: number) {
    this.#records = records;
    this.#id = id;
    this.#forMs = forMs;
  }

  /** Notes a refused delivery. */
  note(delivery: CountedDelivery): void {
    this.#own.note(delivery);
  }

  /** Lists those of all instances, those of the last one first. */
  async list(): Promise<NotedRefusals[]> {
    const others = new Map<string, readonly NotedRefusals[]>();
    for await (const { id, value } of this.#records.last("refused", MAX_READ)) {
      // The latest record of an instance has all that it has noted.
      const isKnown = id === this.#id || others.has(id);
      if (!isKnown && isRefusalList(value)) others.set(id, value);
    }
    return merged([this.#own.list(), ...others.values()]);
  }

  /** Writes the record of a minute, if there is anything new. The one before is not needed any more. */
  async write(minute: number): Promise<void> {
    const value = this.#own.take();
    if (!value) return;
    const before = this.#writtenAt;
    const key = { kind: "refused", number: minute, id: this.#id } as const;
    await this.#records.write([{ ...key, value, forMs: this.#forMs }]);
    this.#writtenAt = key;
    if (before && before.number !== minute) await this.#records.delete(before);
  }
}
