import { withDeadline } from "../deadline.ts";
import type { Delivery } from "../delivery.ts";
import type { StoreParts } from "./_parts.ts";
import { type EventRecord, readRecord } from "./event_record.ts";
import type { Reservation } from "./event_store.ts";

/** How long after a commit failed its event is looked for, and how often. */
const RETRY_MS = 1_000;

/** How long looking for it may take. */
const READ_TIMEOUT_MS = 5_000;

/** An event that the local worker takes in the commit that stores it, or lets its lane go on. */
export class Taking {
  /** The event's record, leased. */
  readonly record: EventRecord;
  readonly #parts: StoreParts;
  readonly #reservation: Reservation;
  readonly #delivery: Delivery | undefined;

  constructor(
    parts: StoreParts,
    record: EventRecord,
    reservation: Reservation,
    delivery?: Delivery,
  ) {
    const { owner, leaseMs } = reservation;
    const until = Date.now() + leaseMs;
    const lease = { owner, until, ms: leaseMs };
    const attempt = record.attempt + 1;
    this.record = { ...record, state: "running", attempt, lease, dueAt: until };
    this.#parts = parts;
    this.#reservation = reservation;
    this.#delivery = delivery;
  }

  /**
   * Has the local worker take an event, if there is one and it has room: that saves claiming it.
   *
   * @param delivery What the event is made of, which saves reading it: together half of its cost.
   */
  static of(parts: StoreParts, record: EventRecord, delivery?: Delivery): Taking | undefined {
    const { dueAt, payload } = record;
    if (dueAt === null || dueAt > Date.now() || !payload) return undefined;
    const reservation = parts.local.reserve?.(delivery ? payload.size : 0);
    return reservation ? new Taking(parts, record, reservation, delivery) : undefined;
  }

  /** Tells the worker what became of the event's commit. */
  end(result: Deno.KvCommitResult | Deno.KvCommitError): void {
    if (!result.ok) return this.#reservation.cancel();
    const { versionstamp } = result;
    this.#reservation.take({ record: this.record, versionstamp }, this.#delivery);
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
          record.attempt === this.record.attempt &&
          record.lease?.owner === lease!.owner && record.payload?.id === this.record.payload!.id;
        return this.end(isThis ? { ok: true, versionstamp: versionstamp! } : { ok: false });
      } catch (error) {
        if (error instanceof Deno.errors.BadResource) break;
      }
    }
    this.#reservation.cancel();
  }
}
