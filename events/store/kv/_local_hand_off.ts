import { withDeadline } from "../../../core/deadline.ts";
import type { Delivery } from "../delivery.ts";
import type { Leased, Mutations } from "./_write.ts";
import { setId } from "./_ids.ts";
import { LeasedRecord } from "./_leased_record.ts";
import type { StoreParts } from "./_parts.ts";
import { fitsRecord } from "./_payload.ts";
import { type EventRecord, type FullRecord, readRecord } from "../event_record.ts";
import type { Reservation } from "../event_store.ts";

/** How long after a commit failed its event is looked for, and how often. */
const RETRY_MS = 1_000;

/** How long looking for it may take. */
const READ_TIMEOUT_MS = 5_000;

/** An event that the local worker takes in the commit that stores it, or lets its group go on. */
export class LocalHandOff implements Leased {
  readonly leaseMs: number;
  readonly #leased: LeasedRecord;
  readonly #parts: StoreParts;
  readonly #reservation: Reservation;
  readonly #delivery: Delivery | undefined;

  constructor(
    parts: StoreParts,
    record: EventRecord,
    reservation: Reservation,
    delivery?: Delivery,
  ) {
    this.leaseMs = reservation.leaseMs;
    const attempt = record.attempt + 1;
    this.#leased = new LeasedRecord(parts.keys, { ...record, attempt }, reservation);
    this.#parts = parts;
    this.#reservation = reservation;
    this.#delivery = delivery;
  }

  get record(): EventRecord {
    return this.#leased.record;
  }

  /** Whether the event's payload is in its record. */
  get holdsPayload(): boolean {
    return this.record.payload?.chunks === 0;
  }

  lease(now: number, sharedEntry?: string): void {
    this.#leased.lease(now, sharedEntry);
  }

  /** Adds writing the event with its payload to a commit. */
  addTo(commit: Mutations): void {
    const { keys } = this.#parts;
    const record: FullRecord = { ...this.record, body: wholeOf(this.#delivery!.body) };
    commit.set(keys.event(record), record);
    setId(commit, this.#parts, record);
    this.#leased.addDueTo(commit);
  }

  /**
   * Has the local worker take an event, if there is one and it has room: that saves claiming it.
   *
   * @param delivery What the event is made of, which saves reading it: together half of its cost.
   */
  static of(parts: StoreParts, record: EventRecord, delivery?: Delivery): LocalHandOff | undefined {
    const { dueAt, payload } = record;
    if (dueAt === null || dueAt > Date.now() || !payload) return undefined;
    const reservation = parts.local.reserve?.(delivery ? payload.size : 0);
    if (!reservation) return undefined;
    // An event with a group has an entry of its own in the schedule, which tells its place.
    const isFull = delivery !== undefined && record.group === null && fitsRecord(payload);
    const taken = isFull ? { ...record, payload: { ...payload, chunks: 0 } } : record;
    return new LocalHandOff(parts, taken, reservation, delivery);
  }

  /** Tells the worker what became of the event's commit. */
  end(result: Deno.KvCommitResult | Deno.KvCommitError): void {
    if (result.ok) this.#take(this.record, result.versionstamp);
    else this.#reservation.cancel();
  }

  /**
   * Finds out what became of a commit that failed: its answer may have been lost. The event would then
   * wait until a lease expires that nobody holds.
   */
  async endUnknown(): Promise<void> {
    const { kv, keys } = this.#parts;
    const { lease } = this.record;
    while (lease!.until > Date.now()) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      try {
        const reading = readRecord(kv, keys.event(this.record));
        const { record, versionstamp } = await withDeadline(reading, READ_TIMEOUT_MS);
        // The same delivery may have been taken in again meanwhile: its payload is another one.
        const isThis = record?.state === "running" &&
          record.run === this.record.run && record.attempt === this.record.attempt &&
          record.lease?.owner === lease!.owner && record.payload?.id === this.record.payload!.id;
        return isThis ? this.#take(record, versionstamp!) : this.#reservation.cancel();
      } catch (error) {
        if (error instanceof Deno.errors.BadResource) break;
      }
    }
    this.#reservation.cancel();
  }

  #take(record: EventRecord, versionstamp: string): void {
    const body = this.#delivery?.body;
    this.#reservation.take({ record, versionstamp, body }, this.#delivery);
  }
}

/** Within an object V8 writes all of the buffer that bytes are a part of, and one may have 64 KiB. */
function wholeOf(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
}
