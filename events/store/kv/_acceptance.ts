import { parseTraceparent } from "../../../telemetry/traceparent.ts";
import { type Delivery, eventIdOf, inIntake } from "../delivery.ts";
import { Write } from "./_write.ts";
import type { StoreKeys } from "./_keys.ts";
import { setId } from "./_ids.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import { type Found, lookUp } from "./_lookup.ts";
import { untilDone } from "./_contention.ts";
import {
  deleteChunks,
  discardUpload,
  fitsOneCommit,
  lastPartOf,
  newPayloadRef,
  setChunks,
  type Upload,
  upload,
} from "./_payload.ts";
import { nextRun, notBefore, revive } from "./_revive.ts";
import { setDue } from "./_schedule.ts";
import { UNKNOWN_VERSION } from "./_reads.ts";
import { isEventId, MAX_ID_LENGTH } from "../_record_shape.ts";
import type { EventRecord, Known, PayloadRef } from "../event_record.ts";
import type { StoreParts } from "./_parts.ts";
import { RecentIds } from "./_recent_ids.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import type { AcceptResult } from "../event_store.ts";

/** A longer ordering key is cut, so that it fits a KV key. */
const MAX_ORDERING_KEY_LENGTH = 256;

/** Adds the parts of a payload to the write that makes its event visible. */
type AddContent = (write: Write) => void;

type NewRecord = EventRecord & { readonly payload: PayloadRef };

/** Takes events into a store: new deliveries, each id once, and dead events that are replayed. */
export class Acceptance {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #orderingGroups: OrderingGroups;
  readonly #recent = new RecentIds();

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#orderingGroups = new OrderingGroups(parts);
  }

  /** Takes a delivery in. */
  async accept(delivery: Delivery): Promise<AcceptResult> {
    const record = newRecord(delivery);
    const { payload, id } = record;
    if (!isEventId(id)) {
      throw new RangeError(`Cannot store the event: its id has over ${MAX_ID_LENGTH} characters`);
    }
    if (!fitsOneCommit(payload)) return await this.#acceptLarge(record, delivery);
    let found: Found = { entry: null, versionstamp: null };
    if (this.#recent.has(id)) {
      found = await this.#lookUp(id);
      if (isLive(found)) return { id, duplicate: true };
    }
    return await this.#acceptWith(record, found, delivery);
  }

  /** Puts a dead event back, behind those of its ordering key that wait. */
  async replay(id: string): Promise<boolean> {
    return await untilDone(async () => {
      const { record, versionstamp } = await this.#lookUp(id);
      if (!record?.payload || record.state !== "dead") return false;
      const write = new Write().check({ key: this.#keys.event(record), versionstamp });
      return await this.#inGroup(revive(record), record.orderingKey, write) || undefined;
    });
  }

  /** Writes a payload ahead of its event, unless the event's id is known already. */
  async #acceptLarge(record: NewRecord, delivery: Delivery): Promise<AcceptResult> {
    const { id, payload, receivedAt } = record;
    const found = await this.#lookUp(id);
    if (isLive(found)) return { id, duplicate: true };
    const { body } = delivery;
    const { uploads } = this.#parts;
    const mark: Upload = await upload(this.#kv, this.#keys, payload, body, receivedAt, uploads);
    const result = await this.#acceptWith(record, found, delivery, (write) => {
      write.check(mark).delete(mark.key);
      setChunks(write, this.#keys, payload, body, lastPartOf(payload));
    });
    if (result.duplicate) await discardUpload(this.#kv, this.#keys, payload, mark);
    return result;
  }

  /** Makes an event visible in the place of nothing, or of the dead one of the same id. */
  async #acceptWith(
    record: NewRecord,
    expected: Found,
    delivery: Delivery,
    addContent?: AddContent,
  ): Promise<AcceptResult> {
    const { id } = record;
    let found = expected;
    return await untilDone(async () => {
      const write = this.#instead(found, id);
      write.isIntake = true;
      addContent?.(write);
      const due = { ...record, ...notBefore(found.record, record.receivedAt), ...kept(found) };
      if (await this.#inGroup(due, delivery.orderingKey ?? null, write, delivery)) {
        this.#recent.add(id);
        return { id, duplicate: false };
      }
      found = await this.#lookUp(id);
      return isLive(found) ? { id, duplicate: true } : undefined;
    });
  }

  /** Begins a write that puts an event in the place of what was found for its id. */
  #instead({ entry, record, versionstamp }: Found, id: string): Write {
    const write = new Write();
    // No check holds of an entry that cannot be decoded.
    if (entry !== UNKNOWN_VERSION) write.check({ key: this.#keys.id(id), versionstamp: entry });
    if (versionstamp === null) return write;
    if (!record) {
      throw new Error(`Cannot accept the delivery: the record of event ${id} is unreadable`);
    }
    const key = this.#keys.event(record);
    write.check({ key, versionstamp }).delete(key);
    if (record.payload) deleteChunks(write, this.#keys, record.payload);
    return write;
  }

  #lookUp(id: string): Promise<Found> {
    return lookUp(this.#kv, this.#keys, id);
  }

  #inGroup(
    record: EventRecord,
    orderingKey: string | null,
    write: Write,
    delivery?: Delivery,
  ): Promise<boolean> {
    if (orderingKey === null) return this.#tryCommit(record, write, delivery);
    // A KV keeps half a character, as a cut may leave it, as another one: the place would not be found.
    const cut = orderingKey.slice(0, MAX_ORDERING_KEY_LENGTH).toWellFormed();
    const key = inIntake(record.intake, cut);
    // One request at a time tries to join: of many that try at once, all but one would fail.
    return this.#parts.locks.run(key, async () => {
      const group = await this.#orderingGroups.readToJoin(key);
      const place = this.#orderingGroups.join(write, group, record);
      const dueAt = group.size === 0 ? Math.max(record.dueAt!, group.busyUntil) : null;
      const busyMs = group.busyUntil - Date.now();
      const delayed = busyMs > (record.delayMs ?? 0) && { delayMs: busyMs };
      const placed = { ...record, orderingKey: cut, group: place, dueAt, ...delayed };
      return await this.#tryCommit(placed, write, delivery);
    });
  }

  async #tryCommit(record: EventRecord, write: Write, delivery?: Delivery): Promise<boolean> {
    const handOff = delivery && LocalHandOff.of(this.#parts, record, delivery);
    if (handOff?.holdsPayload) write.lease(handOff, delivery!.body.byteLength);
    else this.#add(write, handOff?.record ?? { ...record, idKept: true }, delivery);
    write.notifies = !handOff && record.dueAt !== null;
    try {
      const result = await this.#parts.commits.commit(write);
      handOff?.end(result);
      if (result.ok && write.notifies) this.#parts.local.wake?.();
      return result.ok;
    } catch (error) {
      handOff?.endUnknown();
      throw error;
    }
  }

  #add(write: Write, record: EventRecord, delivery: Delivery | undefined): void {
    const { payload } = record;
    if (delivery && payload && fitsOneCommit(payload)) {
      setChunks(write, this.#keys, payload, delivery.body);
    }
    write.set(this.#keys.event(record), record);
    setId(write, this.#parts, record);
    setDue(write, this.#keys, record);
  }
}

/** What stays of a dead event that is delivered again. */
function kept({ record }: Known): Partial<EventRecord> {
  if (!record) return {};
  return { run: nextRun(record), ...(record.progress && { progress: record.progress }) };
}

function isLive({ record }: Known): boolean {
  return record !== undefined && record.state !== "dead";
}

function newRecord(delivery: Delivery): NewRecord {
  const { platform, source, type, body, intake, deliveryId, traceparent } = delivery;
  const { action, repository, chat, sender, requestId } = delivery;
  const now = Date.now();
  const record: NewRecord = {
    v: 2,
    id: eventIdOf(delivery),
    ...(intake !== undefined && { intake }),
    ...(deliveryId !== undefined && { deliveryId }),
    platform,
    source,
    type,
    ...(action !== undefined && { action }),
    ...(repository && { repository }),
    ...(chat && { chat }),
    ...(sender && { sender }),
    requestId: requestId ?? null,
    receivedAt: now,
    state: "queued",
    attempt: 0,
    dueAt: now,
    orderingKey: null,
    group: null,
    lease: null,
    settledAt: null,
    payload: newPayloadRef(body),
    errors: [],
  };
  return traceparent && parseTraceparent(traceparent) ? { ...record, traceparent } : record;
}
