import { sleep, withDeadline } from "../../core/timeouts.ts";
import { beginsBatch, isSameLease, leased } from "./arrival.ts";
import { ClosedError, NoTurnError, type Stored, TooLargeError } from "./engine.ts";
import type { Delivery, EventRecord } from "./event_record.ts";
import type { Reservation, StoreCore } from "./store_core.ts";

/** The pause before an event is read whose change failed, and between tries. */
const RETRY_MS = 1_000;

/** Longest time to wait for an answer of the engine: a remote one never answers some calls. */
const ANSWER_TIMEOUT_MS = 5_000;

/**
 * The local hand-off: the worker of the process takes an event in the change that stores it, or that makes
 * it the first of its ordering group. Nothing has to be claimed and read back, half of an event's cost.
 *
 * The worker reserves room when the record is made, and the record is written as leased by it. Once the change is
 * made the worker gets the lease together with the delivery. If it is refused, the room is given back.
 * If its answer is lost, the event may be stored as leased by a worker that knows nothing of it: then the
 * record is read again until the lease expires, and handed over if it is there.
 */
export class LocalHandOff {
  readonly #core: StoreCore;
  readonly #delivery: Delivery | undefined;
  /** Undefined until the worker is asked for room, null if it has none. */
  #reservation: Reservation | null | undefined;
  /** The record that was made last, if it is leased. */
  #leased: EventRecord | undefined;
  /** Set once the change has failed. The engine may go on with it all the same. */
  #hasFailed = false;

  /**
   * @param core The store.
   * @param delivery The delivery that the event is made of: it saves reading the payload.
   */
  constructor(core: StoreCore, delivery?: Delivery) {
    this.#core = core;
    this.#delivery = delivery;
  }

  /**
   * Makes the record that is written: leased by the local worker, if the event is due and there is room. It may be made
   * several times, of which the last one counts.
   *
   * @param record The record without a lease.
   * @param now The time of the change, milliseconds since the epoch.
   * @returns The record.
   */
  recordOf(record: EventRecord, now: number): EventRecord {
    this.#leased = undefined;
    const { dueAt, payload } = record;
    const isDue = dueAt !== null && dueAt <= now;
    if (this.#hasFailed || !isDue || !payload || beginsBatch(record)) return record;
    if (this.#reservation === undefined) {
      const bytes = this.#delivery ? payload.size : 0;
      this.#reservation = this.#core.local.listener?.reserve?.(bytes) ?? null;
    }
    if (this.#reservation === null) return record;
    return this.#leased = leased(record, this.#reservation, now);
  }

  /** Ends the hand-off with the event that the change has written, if it was made and has written one. */
  end(written: Stored | null | undefined): void {
    if (!this.#reservation) return;
    const isTaken = written && this.#leased && isSameLease(this.#leased, written.record);
    if (isTaken) this.#take(this.#reservation, written);
    else this.#reservation.cancel();
  }

  /**
   * Ends the hand-off of a change that has failed. If its answer was lost, the event would otherwise wait
   * until a lease expires that nobody holds.
   */
  fail(error: unknown): void {
    this.#hasFailed = true;
    if (!this.#reservation) return;
    const isRefused = error instanceof NoTurnError || error instanceof TooLargeError;
    if (isRefused || !this.#leased) this.#reservation.cancel();
    else this.#endUnknown(this.#reservation, this.#leased);
  }

  async #endUnknown(reservation: Reservation, expected: EventRecord): Promise<void> {
    const { engine } = this.#core;
    while (expected.lease!.until > engine.now()) {
      await sleep(RETRY_MS);
      try {
        const [found] = await withDeadline(engine.get([expected]), ANSWER_TIMEOUT_MS);
        // The same delivery may have been taken in again meanwhile: its payload is another one. And a
        // second try may have leased the event, whose lease begins later: that is in the worker's hands.
        if (!found?.record || !isSameLease(expected, found.record)) break;
        return this.#take(reservation, found);
      } catch (error) {
        if (error instanceof ClosedError) break;
      }
    }
    reservation.cancel();
  }

  #take(reservation: Reservation, { record, version }: Stored): void {
    reservation.take({ record, version, body: this.#delivery?.body }, this.#delivery);
  }
}
