import { sleep, withDeadline } from "../../../core/timeouts.ts";
import type { Delivery } from "../delivery.ts";
import { ClosedError } from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import type { Reservation } from "../event_store.ts";
import { beginsBatch, isSameLease } from "../claims.ts";
import { ANSWER_TIMEOUT_MS } from "./_concurrency.ts";
import { type Mutations, readRecord } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { inRecord } from "./_payload.ts";
import { addEvent, LeasedRecord } from "./_write.ts";

/** The pause before an event is read whose commit failed, and between tries. */
const RETRY_MS = 1_000;

/**
 * The local hand-off: the worker of the process takes an event in the commit that stores it, or that makes
 * it the first of its ordering group. Nothing has to be claimed and read back, half of an event's cost.
 *
 * The worker reserves room before the commit, and the record is written as leased by it. If the payload is
 * small it is in the record, and events that share the commit share a schedule entry. Once the commit is
 * made the worker gets the lease together with the delivery. If the commit fails, the room is given back.
 * If its answer is lost, the event may be stored as leased by a worker that knows nothing of it: then the
 * record is read again until the lease expires, and handed over if it is there.
 */
export class LocalHandOff extends LeasedRecord {
  /** True if the event's payload is small: it is in the event's record or, if it will be kept, beside it. */
  readonly isSmall: boolean;
  readonly #parts: StoreParts;
  readonly #reservation: Reservation;
  readonly #delivery: Delivery | undefined;

  constructor(
    parts: StoreParts,
    record: EventRecord,
    reservation: Reservation,
    isSmall: boolean,
    delivery?: Delivery,
  ) {
    super(parts, record, reservation);
    this.isSmall = isSmall;
    this.#parts = parts;
    this.#reservation = reservation;
    this.#delivery = delivery;
  }

  /** Adds writing the event with its id and payload to a commit. */
  override addTo(commit: Mutations): void {
    addEvent(commit, this.#parts, this.record, this.#delivery!.body);
  }

  /**
   * Reserves room for an event at the local worker, if there is one and it has room.
   *
   * @param delivery The delivery that the event is made of: it saves reading the payload.
   * @returns The hand-off; undefined if the event is not due, or there is no room.
   */
  static of(parts: StoreParts, record: EventRecord, delivery?: Delivery): LocalHandOff | undefined {
    const { dueAt, payload } = record;
    if (dueAt === null || dueAt > Date.now() || !payload || beginsBatch(record)) return undefined;
    const reservation = parts.local.listener?.reserve?.(delivery ? payload.size : 0);
    if (!reservation) return undefined;
    const held = inRecord(payload);
    // An event in a group has its own entry in the schedule: that names its position.
    // Progress inherited from a dead event may fill half the record.
    const isSmall = delivery !== undefined && record.group === null && !record.progress &&
      held.chunks === 0;
    // A payload that is kept when the event is done would have to be written again then.
    const isFull = isSmall && !parts.kept.isOn;
    const taken = isFull ? { ...record, payload: held } : record;
    return new LocalHandOff(parts, taken, reservation, isSmall, delivery);
  }

  /** Ends the hand-off with the version that the event's commit has made, or null if it failed. */
  end(version: string | null): void {
    if (version === null) this.#reservation.cancel();
    else this.#take(this.record, version);
  }

  /**
   * Ends the hand-off of a commit that failed, whose answer may have been lost. The event would then wait
   * until a lease expires that nobody holds.
   */
  async endUnknown(): Promise<void> {
    const { kv, keys } = this.#parts;
    const { lease } = this.record;
    while (lease!.until > Date.now()) {
      await sleep(RETRY_MS);
      try {
        const reading = readRecord(kv, keys.event(this.record));
        const { record, versionstamp } = await withDeadline(reading, ANSWER_TIMEOUT_MS);
        // The same delivery may have been taken in again meanwhile: its payload is another one. And a
        // second try may have leased the event, whose lease begins later: that is in the worker's hands.
        return isSameLease(this.record, record)
          ? this.#take(record, versionstamp!)
          : this.#reservation.cancel();
      } catch (error) {
        if (error instanceof ClosedError) break;
      }
    }
    this.#reservation.cancel();
  }

  #take(record: EventRecord, version: string): void {
    const body = this.#delivery?.body;
    this.#reservation.take({ record, version, body }, this.#delivery);
  }
}
