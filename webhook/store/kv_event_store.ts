import { consoleSink, writeLog } from "../../middleware/mod.ts";
import type { Delivery } from "../delivery.ts";
import { Acceptance } from "./_acceptance.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import { deleteChunks, MAX_PAYLOAD_BYTES, readPayload, sweepUploads } from "./_payload.ts";
import { createDoorbell, detectBell } from "./doorbell.ts";
import { type EventRecord, readRecord, withError } from "./event_record.ts";
import type {
  AcceptResult,
  ClaimOptions,
  CommitEffects,
  EventStore,
  EventStoreOptions,
  Lease,
  StoreParts,
} from "./event_store.ts";

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
  readonly maxPayloadBytes = MAX_PAYLOAD_BYTES;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #parts: StoreParts;
  readonly #acceptance: Acceptance;
  #wake: (() => void) | undefined;

  constructor(parts: StoreParts) {
    this.#kv = parts.kv;
    this.#keys = storeKeys(parts.namespace);
    this.#parts = parts;
    this.#acceptance = new Acceptance(parts);
  }

  get bell() {
    return this.#parts.bell.kind;
  }

  async accept(delivery: Delivery, requestId?: string): Promise<AcceptResult> {
    const result = await this.#acceptance.accept(delivery, requestId);
    if (!result.duplicate) this.#wake?.();
    return result;
  }

  async claim({ limit, owner, leaseMs }: ClaimOptions): Promise<Lease[]> {
    const leases: Lease[] = [];
    const due = this.#kv.list(this.#keys.dueUntil(Date.now()), { limit });
    for await (const { key, versionstamp } of due) {
      const [dueAt, id] = key.slice(-2) as [number, string];
      const known = await readRecord(this.#kv, this.#keys.event(id));
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
    return (await readRecord(this.#kv, this.#keys.event(id))).record ?? null;
  }

  sweepUploads(olderThanMs: number): Promise<number> {
    return sweepUploads(this.#kv, this.#keys, Date.now() - olderThanMs);
  }

  listen(wake: () => void): Promise<void> {
    this.#wake = wake;
    return this.#parts.bell.listen(wake);
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
}
