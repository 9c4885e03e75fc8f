import { commit } from "./_commit.ts";
import type { Delivery } from "../delivery.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import { Lanes } from "./_lanes.ts";
import { untilDone } from "./_contention.ts";
import {
  deleteChunks,
  discardUpload,
  fitsOneCommit,
  newPayloadRef,
  setChunks,
  type Upload,
  upload,
} from "./_payload.ts";
import { notBefore, revive } from "./_revive.ts";
import { setDue } from "./_schedule.ts";
import { type EventRecord, type Known, type PayloadRef, readRecord } from "./event_record.ts";
import type { StoreParts } from "./_parts.ts";
import type { AcceptResult } from "./event_store.ts";

/** A longer ordering key is cut, so that it fits a KV key. */
const MAX_ORDERING_KEY_LENGTH = 256;

/** Adds the parts of a payload to the commit that makes its event visible. */
type AddContent = (commit: Deno.AtomicOperation) => void;

type NewRecord = EventRecord & { readonly payload: PayloadRef };

/** Takes events into a store: new deliveries, each id once, and dead events that are replayed. */
export class Acceptance {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #lanes: Lanes;

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = storeKeys(parts.namespace);
    this.#lanes = new Lanes(this.#kv, this.#keys);
  }

  /** Takes a delivery in. */
  async accept(delivery: Delivery, requestId: string | undefined): Promise<AcceptResult> {
    const record = newRecord(delivery, requestId);
    const { body, orderingKey } = delivery;
    if (!fitsOneCommit(record.payload)) return await this.#acceptLarge(record, body, orderingKey);
    return await this.#acceptWith(record, { versionstamp: null }, orderingKey, (commit) => {
      setChunks(commit, this.#keys, record.payload, body);
    });
  }

  /** Puts a dead event back, behind those of its ordering key that wait. */
  async replay(id: string): Promise<boolean> {
    return await untilDone(async () => {
      const { record, versionstamp } = await readRecord(this.#kv, this.#keys.event(id));
      if (!record?.payload || record.state !== "dead") return false;
      const revived = revive(record);
      const done = await this.#inLane(revived, record.orderingKey, { versionstamp }, () => {});
      return done || undefined;
    });
  }

  /** Writes a payload ahead of its event, unless the event's id is known already. */
  async #acceptLarge(
    record: NewRecord,
    body: Uint8Array,
    orderingKey: string | undefined,
  ): Promise<AcceptResult> {
    const { id, payload, receivedAt } = record;
    const known = await readRecord(this.#kv, this.#keys.event(id));
    if (isLive(known)) return { id, duplicate: true };
    const mark: Upload = await upload(this.#kv, this.#keys, payload, body, receivedAt);
    const result = await this.#acceptWith(record, known, orderingKey, (commit) => {
      commit.check(mark).delete(mark.key);
    });
    if (result.duplicate) await discardUpload(this.#kv, this.#keys, payload, mark);
    return result;
  }

  /** Makes an event visible in the place of nothing, or of the dead one of the same id. */
  async #acceptWith(
    record: NewRecord,
    expected: Known,
    orderingKey: string | undefined,
    addContent: AddContent,
  ): Promise<AcceptResult> {
    const { id } = record;
    let known = expected;
    return await untilDone(async () => {
      const due = { ...record, dueAt: notBefore(known.record) };
      if (await this.#inLane(due, orderingKey ?? null, known, addContent)) {
        return { id, duplicate: false };
      }
      known = await readRecord(this.#kv, this.#keys.event(id));
      if (isLive(known)) return { id, duplicate: true };
      if (known.versionstamp === null || known.record) return undefined;
      throw new Error(`Cannot accept the delivery: the record of event ${id} is unreadable`);
    });
  }

  #inLane(
    record: EventRecord,
    orderingKey: string | null,
    known: Known,
    addContent: AddContent,
  ): Promise<boolean> {
    if (orderingKey === null) return this.#tryCommit(record, known, addContent);
    const key = orderingKey.slice(0, MAX_ORDERING_KEY_LENGTH);
    // One request at a time tries to join: of many that try at once, all but one would fail.
    return this.#parts.locks.run(key, async () => {
      const lane = await this.#lanes.read(key);
      const operation = this.#kv.atomic();
      const place = this.#lanes.join(operation, lane, record.id);
      const dueAt = lane.size === 0 ? record.dueAt : null;
      const placed = { ...record, orderingKey: key, lane: place, dueAt };
      return await this.#tryCommit(placed, known, addContent, operation);
    });
  }

  async #tryCommit(
    record: EventRecord,
    known: Known,
    addContent: AddContent,
    operation: Deno.AtomicOperation = this.#kv.atomic(),
  ): Promise<boolean> {
    const key = this.#keys.event(record.id);
    operation.check({ key, versionstamp: known.versionstamp }).set(key, record);
    setDue(operation, this.#keys, record);
    addContent(operation);
    const replaced = known.record?.payload;
    if (replaced) deleteChunks(operation, this.#keys, replaced);
    const silence = this.#parts.bell.ring(operation);
    try {
      const { ok } = await commit(operation);
      if (!ok) silence();
      return ok;
    } catch (error) {
      silence();
      throw error;
    }
  }
}

function isLive({ record }: Known): boolean {
  return record !== undefined && record.state !== "dead";
}

function newRecord(delivery: Delivery, requestId: string | undefined): NewRecord {
  const { platform, source, type, body } = delivery;
  const now = Date.now();
  return {
    v: 1,
    id: delivery.deliveryId ?? crypto.randomUUID(),
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
}
