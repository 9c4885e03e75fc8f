import type { Delivery } from "../delivery.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import {
  deleteChunks,
  discardUpload,
  fitsOneCommit,
  newPayloadRef,
  setChunks,
  type Upload,
  upload,
} from "./_payload.ts";
import { type EventRecord, type Known, type PayloadRef, readRecord } from "./event_record.ts";
import type { AcceptResult, StoreParts } from "./event_store.ts";

/** How often accepting is tried while other requests change the event of the same id. */
const MAX_TRIES = 5;

type NewRecord = EventRecord & { readonly payload: PayloadRef; readonly dueAt: number };

/** Takes deliveries into a store, each id once. */
export class Acceptance {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = storeKeys(parts.namespace);
  }

  async accept(delivery: Delivery, requestId: string | undefined): Promise<AcceptResult> {
    const record = newRecord(delivery, requestId);
    return fitsOneCommit(record.payload)
      ? await this.#commit(record, { versionstamp: null }, delivery.body)
      : await this.#acceptLarge(record, delivery.body);
  }

  /** Writes a payload ahead of its event, unless the event's id is known already. */
  async #acceptLarge(record: NewRecord, body: Uint8Array): Promise<AcceptResult> {
    const { id, payload, receivedAt } = record;
    const known = await readRecord(this.#kv, this.#keys.event(id));
    if (isLive(known)) return { id, duplicate: true };
    const uploaded = await upload(this.#kv, this.#keys, payload, body, receivedAt);
    const result = await this.#commit(record, known, uploaded);
    if (result.duplicate) await discardUpload(this.#kv, this.#keys, payload, uploaded);
    return result;
  }

  /** Makes an event visible in the place of nothing, or of the dead one of the same id. */
  async #commit(
    record: NewRecord,
    expected: Known,
    content: Uint8Array | Upload,
  ): Promise<AcceptResult> {
    const { id } = record;
    let known = expected;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      if (await this.#tryCommit(record, known, content)) return { id, duplicate: false };
      known = await readRecord(this.#kv, this.#keys.event(id));
      if (isLive(known)) return { id, duplicate: true };
    }
    throw new Error(`Cannot accept the delivery: its event changed ${MAX_TRIES} times meanwhile`);
  }

  async #tryCommit(
    record: NewRecord,
    known: Known,
    content: Uint8Array | Upload,
  ): Promise<boolean> {
    const keys = this.#keys;
    const key = keys.event(record.id);
    const commit = this.#kv.atomic()
      .check({ key, versionstamp: known.versionstamp })
      .set(key, record)
      .set(keys.due(record.dueAt, record.id), 1);
    if (content instanceof Uint8Array) setChunks(commit, keys, record.payload, content);
    else commit.check(content).delete(content.key);
    if (known.record?.payload) deleteChunks(commit, keys, known.record.payload);
    const silence = this.#parts.bell.ring(commit);
    try {
      const { ok } = await commit.commit();
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
    lease: null,
    settledAt: null,
    payload: newPayloadRef(body),
    errors: [],
  };
}
