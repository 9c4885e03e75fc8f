import { parseTraceparent } from "../../telemetry/traceparent.ts";
import { type Delivery, eventIdOf, inIntake } from "../delivery.ts";
import { Draft } from "./_draft.ts";
import type { StoreKeys } from "./_keys.ts";
import { setId } from "./_ids.ts";
import { Lanes } from "./_lanes.ts";
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
import { isEventId, MAX_ID_LENGTH } from "./_record_shape.ts";
import type { EventRecord, Known, PayloadRef } from "./event_record.ts";
import type { StoreParts } from "./_parts.ts";
import { RecentIds } from "./_recent_ids.ts";
import { Taking } from "./_taking.ts";
import type { AcceptResult } from "./event_store.ts";

/** A longer ordering key is cut, so that it fits a KV key. */
const MAX_ORDERING_KEY_LENGTH = 256;

/** Adds the parts of a payload to the draft that makes its event visible. */
type AddContent = (draft: Draft) => void;

type NewRecord = EventRecord & { readonly payload: PayloadRef };

/** Takes events into a store: new deliveries, each id once, and dead events that are replayed. */
export class Acceptance {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #lanes: Lanes;
  readonly #recent = new RecentIds();

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#lanes = new Lanes(parts);
  }

  /** Takes a delivery in. */
  async accept(delivery: Delivery, requestId: string | undefined): Promise<AcceptResult> {
    const record = newRecord(delivery, requestId);
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
      const draft = new Draft().check({ key: this.#keys.event(record), versionstamp });
      return await this.#inLane(revive(record), record.orderingKey, draft) || undefined;
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
    const result = await this.#acceptWith(record, found, delivery, (draft) => {
      draft.check(mark).delete(mark.key);
      setChunks(draft, this.#keys, payload, body, lastPartOf(payload));
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
      const draft = this.#instead(found, id);
      draft.isIntake = true;
      addContent?.(draft);
      const due = { ...record, ...notBefore(found.record, record.receivedAt), ...kept(found) };
      if (await this.#inLane(due, delivery.orderingKey ?? null, draft, delivery)) {
        this.#recent.add(id);
        return { id, duplicate: false };
      }
      found = await this.#lookUp(id);
      return isLive(found) ? { id, duplicate: true } : undefined;
    });
  }

  /** Begins a draft that puts an event in the place of what was found for its id. */
  #instead({ entry, record, versionstamp }: Found, id: string): Draft {
    const draft = new Draft();
    // No check holds of an entry that cannot be decoded.
    if (entry !== UNKNOWN_VERSION) draft.check({ key: this.#keys.id(id), versionstamp: entry });
    if (versionstamp === null) return draft;
    if (!record) {
      throw new Error(`Cannot accept the delivery: the record of event ${id} is unreadable`);
    }
    const key = this.#keys.event(record);
    draft.check({ key, versionstamp }).delete(key);
    if (record.payload) deleteChunks(draft, this.#keys, record.payload);
    return draft;
  }

  #lookUp(id: string): Promise<Found> {
    return lookUp(this.#kv, this.#keys, id);
  }

  #inLane(
    record: EventRecord,
    orderingKey: string | null,
    draft: Draft,
    delivery?: Delivery,
  ): Promise<boolean> {
    if (orderingKey === null) return this.#tryCommit(record, draft, delivery);
    // A KV keeps half a character, as a cut may leave it, as another one: the place would not be found.
    const cut = orderingKey.slice(0, MAX_ORDERING_KEY_LENGTH).toWellFormed();
    const key = inIntake(record.intake, cut);
    // One request at a time tries to join: of many that try at once, all but one would fail.
    return this.#parts.locks.run(key, async () => {
      const lane = await this.#lanes.readToJoin(key);
      const place = this.#lanes.join(draft, lane, record);
      const dueAt = lane.size === 0 ? Math.max(record.dueAt!, lane.busyUntil) : null;
      const busyMs = lane.busyUntil - Date.now();
      const delayed = busyMs > (record.delayMs ?? 0) && { delayMs: busyMs };
      const placed = { ...record, orderingKey: cut, lane: place, dueAt, ...delayed };
      return await this.#tryCommit(placed, draft, delivery);
    });
  }

  async #tryCommit(record: EventRecord, draft: Draft, delivery?: Delivery): Promise<boolean> {
    const taking = delivery && Taking.of(this.#parts, record, delivery);
    if (taking?.holdsPayload) draft.lease(taking, delivery!.body.byteLength);
    else this.#add(draft, taking?.record ?? { ...record, idKept: true }, delivery);
    draft.rings = !taking && record.dueAt !== null;
    try {
      const result = await this.#parts.commits.commit(draft);
      taking?.end(result);
      if (result.ok && draft.rings) this.#parts.local.wake?.();
      return result.ok;
    } catch (error) {
      taking?.endUnknown();
      throw error;
    }
  }

  #add(draft: Draft, record: EventRecord, delivery: Delivery | undefined): void {
    const { payload } = record;
    if (delivery && payload && fitsOneCommit(payload)) {
      setChunks(draft, this.#keys, payload, delivery.body);
    }
    draft.set(this.#keys.event(record), record);
    setId(draft, this.#parts, record);
    setDue(draft, this.#keys, record);
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

function newRecord(delivery: Delivery, requestId: string | undefined): NewRecord {
  const { platform, source, type, body, intake, deliveryId, traceparent } = delivery;
  const now = Date.now();
  const record: NewRecord = {
    v: 1,
    id: eventIdOf(delivery),
    ...(intake !== undefined && { intake }),
    ...(deliveryId !== undefined && { deliveryId }),
    platform,
    source,
    type,
    requestId: requestId ?? null,
    receivedAt: now,
    state: "queued",
    attempt: 0,
    dueAt: now,
    orderingKey: null,
    lane: null,
    lease: null,
    settledAt: null,
    payload: newPayloadRef(body),
    errors: [],
  };
  return traceparent && parseTraceparent(traceparent) ? { ...record, traceparent } : record;
}
