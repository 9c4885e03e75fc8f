import { consoleSink, writeLog } from "../../middleware/mod.ts";
import type { Delivery } from "../delivery.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import {
  deleteChunks,
  fitsOneCommit,
  newPayloadRef,
  type PayloadRef,
  readPayload,
  setChunks,
  type Upload,
  upload,
} from "./_payload.ts";
import { createDoorbell, detectBell } from "./doorbell.ts";
import { type EventRecord, isEventRecord, withError } from "./event_record.ts";
import type {
  AcceptResult,
  ClaimOptions,
  CommitEffects,
  EventStore,
  EventStoreOptions,
  Lease,
  StoreParts,
} from "./event_store.ts";

/** How often accepting is tried while another request changes the event of the same id. */
const MAX_ACCEPT_TRIES = 5;

/**
 * Opens the event store in a KV.
 *
 * @param kv The KV. The store does not close it.
 * @param options The namespace, bell and retention.
 * @returns The store.
 * @throws {TypeError} If the KV cannot ring the wanted bell.
 *
 * @example
 * ```ts
 * import { openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * assertEquals(store.bell, "enqueue");
 * ```
 */
export async function openEventStore(
  kv: Deno.Kv,
  options: EventStoreOptions = {},
): Promise<EventStore> {
  const { namespace = "events", bell = "auto", retentionMs = 604_800_000, log = consoleSink } =
    options;
  const kind = bell === "watch" ? bell : await detectBell(kv, namespace);
  if (bell === "enqueue" && kind !== "enqueue") {
    throw new TypeError("Cannot open the event store: bell 'enqueue' needs a KV with queues");
  }
  return new KvEventStore({
    kv,
    namespace,
    retentionMs,
    log,
    bell: createDoorbell(kind, kv, namespace),
  });
}

class KvEventStore implements EventStore {
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #parts: StoreParts;
  #wake: (() => void) | undefined;

  constructor(parts: StoreParts) {
    this.#kv = parts.kv;
    this.#keys = storeKeys(parts.namespace);
    this.#parts = parts;
  }

  get bell() {
    return this.#parts.bell.kind;
  }

  async accept(delivery: Delivery, requestId?: string): Promise<AcceptResult> {
    const record = newRecord(delivery, requestId);
    const { id } = record;
    const small = fitsOneCommit(record.payload);
    // A large payload is not written before its id is known to be new; a small one costs less to try.
    let known: Known = small ? { versionstamp: null } : await this.#read(id);
    if (isLive(known)) return { id, duplicate: true };
    const content = small
      ? delivery.body
      : await upload(this.#kv, this.#keys, record.payload, delivery.body, record.receivedAt);
    for (let tries = 0; tries < MAX_ACCEPT_TRIES; tries++) {
      if (await this.#commitNew(record, known, content)) {
        this.#wake?.();
        return { id, duplicate: false };
      }
      known = await this.#read(id);
      if (isLive(known)) {
        if (!small) await this.#discard(record.payload);
        return { id, duplicate: true };
      }
    }
    throw new Error(`Cannot accept the delivery: its event changed ${MAX_ACCEPT_TRIES} times`);
  }

  async claim({ limit, owner, leaseMs }: ClaimOptions): Promise<Lease[]> {
    const leases: Lease[] = [];
    const due = this.#kv.list(this.#keys.dueUntil(Date.now()), { limit });
    for await (const { key, versionstamp } of due) {
      const [dueAt, id] = key.slice(-2) as [number, string];
      const known = await this.#read(id);
      if (known.record?.dueAt !== dueAt) {
        // Left on the schedule, an entry without its record would be the first one due for ever.
        await this.#kv.atomic().check({ key, versionstamp }).delete(key).commit();
        if (known.versionstamp && !known.record) this.#reportUnreadable(id);
        continue;
      }
      const lease = await this.#lease(known as Lease, owner, leaseMs);
      if (lease) leases.push(lease);
    }
    return leases;
  }

  load(lease: Lease): Promise<Uint8Array<ArrayBuffer>> {
    const { payload, id } = lease.record;
    if (!payload) return Promise.reject(new Error(`Cannot load event ${id}: it has no payload`));
    return readPayload(this.#kv, this.#keys, payload);
  }

  renew(lease: Lease, leaseMs: number): Promise<Lease | null> {
    const until = Date.now() + leaseMs;
    const owner = lease.record.lease?.owner ?? "";
    return this.#change(lease, { lease: { owner, until }, dueAt: until });
  }

  async complete(lease: Lease, effects?: CommitEffects): Promise<boolean> {
    const { payload } = lease.record;
    const settled = { state: "done", dueAt: null, lease: null, payload: null } as const;
    const changed = await this.#change(
      lease,
      { ...settled, settledAt: Date.now() },
      (commit) => {
        if (payload) deleteChunks(commit, this.#keys, payload);
        effects?.(commit);
      },
      this.#parts.retentionMs,
    );
    return changed !== null;
  }

  async retry(lease: Lease, delayMs: number, error: unknown): Promise<boolean> {
    const now = Date.now();
    const errors = withError(lease.record, error, now);
    const changes = { state: "queued", lease: null, dueAt: now + delayMs, errors } as const;
    return await this.#change(lease, changes) !== null;
  }

  async release(lease: Lease): Promise<boolean> {
    const changes = { state: "queued", lease: null, dueAt: Date.now() } as const;
    return await this.#change(lease, changes, (commit) => this.#parts.bell.ring(commit)) !== null;
  }

  async bury(lease: Lease, error: unknown): Promise<boolean> {
    const now = Date.now();
    const errors = withError(lease.record, error, now);
    const changes = { state: "dead", lease: null, dueAt: null, settledAt: now, errors } as const;
    return await this.#change(lease, changes) !== null;
  }

  async get(id: string): Promise<EventRecord | null> {
    return (await this.#read(id)).record ?? null;
  }

  async sweepUploads(olderThanMs: number): Promise<number> {
    const before = Date.now() - olderThanMs;
    let swept = 0;
    type Mark = { startedAt: number; chunks: number };
    for await (const { key, value } of this.#kv.list<Mark>(this.#keys.uploads)) {
      if (value.startedAt > before) continue;
      await this.#discard({ id: key.at(-1) as string, chunks: value.chunks, size: 0 });
      swept++;
    }
    return swept;
  }

  listen(wake: () => void): Promise<void> {
    this.#wake = wake;
    return this.#parts.bell.listen(wake);
  }

  async #read(id: string): Promise<Known> {
    const { value, versionstamp } = await this.#kv.get(this.#keys.event(id));
    return isEventRecord(value) ? { versionstamp, record: value } : { versionstamp };
  }

  /** Makes a new event visible, in the place of nothing or of the dead one of the same id. */
  async #commitNew(
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

  #lease(known: Lease, owner: string, leaseMs: number): Promise<Lease | null> {
    const until = Date.now() + leaseMs;
    return this.#change(known, {
      state: "running",
      attempt: known.record.attempt + 1,
      lease: { owner, until },
      dueAt: until,
    });
  }

  /** Changes a record and its place in the schedule in one commit, if it is as the lease left it. */
  async #change(
    lease: Lease,
    changes: Partial<EventRecord>,
    effects?: CommitEffects,
    expireIn?: number,
  ): Promise<Lease | null> {
    const before = lease.record;
    const record = { ...before, ...changes };
    const key = this.#keys.event(record.id);
    const commit = this.#kv.atomic()
      .check({ key, versionstamp: lease.versionstamp })
      .set(key, record, expireIn === undefined ? {} : { expireIn });
    if (before.dueAt !== null) commit.delete(this.#keys.due(before.dueAt, before.id));
    if (record.dueAt !== null) commit.set(this.#keys.due(record.dueAt, record.id), 1);
    effects?.(commit);
    const result = await commit.commit();
    return result.ok ? { record, versionstamp: result.versionstamp } : null;
  }

  #reportUnreadable(eventId: string): void {
    writeLog(this.#parts.log, "error", "event record unreadable, left unhandled", { eventId });
  }

  async #discard(ref: PayloadRef): Promise<void> {
    const commit = this.#kv.atomic().delete(this.#keys.upload(ref.id));
    deleteChunks(commit, this.#keys, ref);
    await commit.commit();
  }
}

/** What is stored for an id: nothing, a record, or something that is no record. */
type Known = { readonly versionstamp: string | null; readonly record?: EventRecord };

type NewRecord = EventRecord & { readonly payload: PayloadRef; readonly dueAt: number };

function isLive(known: Known): boolean {
  return known.record !== undefined && known.record.state !== "dead";
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
