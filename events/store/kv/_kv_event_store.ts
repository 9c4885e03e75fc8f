import type { Delivery } from "../delivery.ts";
import { Acceptance } from "./_acceptance.ts";
import { Claims } from "./_claims.ts";
import { type Change, changeRecord } from "./_changes.ts";
import type { Write } from "./_write.ts";
import type { StoreKeys } from "./_keys.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import { Operations } from "./_operations.ts";
import { deleteChunks, deleteStaleUploads, MAX_PAYLOAD_BYTES, readPayload } from "./_payload.ts";
import { Replays } from "./_replays.ts";
import {
  type EventRecord,
  type EventState,
  readRecord,
  withError,
  withProgress,
} from "../event_record.ts";
import type { StoreParts } from "./_parts.ts";
import type { BulkOptions, BulkResult } from "../bulk_options.ts";
import type { EventFilter, EventStats } from "../event_filter.ts";
import type { StoredEvent } from "../stored_event.ts";
import type {
  AcceptResult,
  ClaimOptions,
  CommitEffects,
  CompleteOptions,
  EventStore,
  Lease,
  StoreListener,
} from "../event_store.ts";

/** The event store in a KV. */
export class KvEventStore implements EventStore {
  readonly maxPayloadBytes = MAX_PAYLOAD_BYTES;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #parts: StoreParts;
  readonly #acceptance: Acceptance;
  readonly #claims: Claims;
  readonly #orderingGroups: OrderingGroups;
  readonly #replays: Replays;
  readonly #operations: Operations;

  constructor(parts: StoreParts) {
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#parts = parts;
    this.#acceptance = new Acceptance(parts);
    this.#claims = new Claims(parts);
    this.#orderingGroups = new OrderingGroups(parts);
    this.#replays = new Replays(parts);
    this.#operations = new Operations(parts);
  }

  get kv() {
    return this.#kv;
  }

  get notifier() {
    return this.#parts.notifier.kind;
  }

  get retentionMs() {
    return this.#parts.retentionMs;
  }

  accept(delivery: Delivery): Promise<AcceptResult> {
    return this.#acceptance.accept(delivery);
  }

  firstOf(delivery: Delivery, windowMs: number): Promise<string | null> {
    return this.#replays.firstOf(delivery, windowMs);
  }

  oldestDueAt(): Promise<number | null> {
    return this.#claims.oldestDueAt();
  }

  claim(options: ClaimOptions): Promise<Lease[]> {
    return this.#claims.claim(options);
  }

  async load({ record }: Pick<Lease, "record">): Promise<Uint8Array<ArrayBuffer>> {
    const { payload, id } = record;
    if (!payload) throw new Error(`Cannot load event ${id}: it has no payload`);
    if (payload.chunks > 0) return await readPayload(this.#kv, this.#keys, payload);
    const now = await readRecord(this.#kv, this.#keys.event(record));
    if (now.body) return now.body;
    if (now.record?.payload?.chunks) {
      return await readPayload(this.#kv, this.#keys, now.record.payload);
    }
    throw new Error(`Cannot read the payload: the record of event ${id} does not hold it`);
  }

  renew(lease: Lease, leaseMs: number): Promise<Lease | null> {
    const until = Date.now() + leaseMs;
    const owner = lease.record.lease?.owner ?? "";
    return this.#change(lease, { set: { lease: { owner, until, ms: leaseMs }, dueAt: until } });
  }

  async checkpoint(lease: Lease, part: string, effects?: CommitEffects): Promise<Lease | null> {
    const progress = withProgress(lease.record, part);
    return await this.#change(lease, { set: { progress }, ...(effects && { effects }) });
  }

  async recover({ record: held }: Lease): Promise<Lease | null> {
    const { record, versionstamp, body } = await readRecord(this.#kv, this.#keys.event(held));
    const isSame = record?.state === "running" && record.run === held.run &&
      record.attempt === held.attempt &&
      record.lease?.owner === held.lease?.owner;
    return isSame ? { record, versionstamp: versionstamp!, body } : null;
  }

  async complete(lease: Lease, options: CompleteOptions | CommitEffects = {}): Promise<boolean> {
    const { effects, withinMs } = typeof options === "function" ? { effects: options } : options;
    const { payload } = lease.record;
    const changed = await this.#change(lease, {
      set: { state: "done", dueAt: null, lease: null, payload: null, settledAt: Date.now() },
      expireIn: this.#parts.retentionMs,
      ...(payload?.chunks && { add: (write) => deleteChunks(write, this.#keys, payload) }),
      effects,
      withinMs,
    });
    return this.#settled(lease, changed);
  }

  async retry(lease: Lease, delayMs: number, error: unknown): Promise<boolean> {
    const now = Date.now();
    const errors = withError(lease.record, error, now);
    const set = { state: "queued", lease: null, dueAt: now + delayMs, delayMs, errors } as const;
    return await this.#change(lease, { set }) !== null;
  }

  async release(lease: Lease, delayMs = 0): Promise<boolean> {
    const attempt = Math.max(0, lease.record.attempt - 1);
    const dueAt = Date.now() + delayMs;
    const set = { state: "queued", lease: null, attempt, dueAt, delayMs } as const;
    const add = (write: Write) => void (write.notifies = delayMs === 0);
    return await this.#change(lease, { set, add }) !== null;
  }

  async bury(lease: Lease, error: unknown): Promise<boolean> {
    const settledAt = Date.now();
    const errors = withError(lease.record, error, settledAt);
    const set = { state: "dead", lease: null, dueAt: null, settledAt, errors } as const;
    return this.#settled(lease, await this.#change(lease, { set }));
  }

  get(id: string): Promise<EventRecord | null> {
    return this.#operations.get(id);
  }

  list(filter: EventFilter & { readonly state: EventState }): AsyncIterable<EventRecord>;
  list(filter?: EventFilter): AsyncIterable<StoredEvent>;
  list(filter: EventFilter = {}): AsyncIterable<StoredEvent> {
    return this.#operations.list(filter);
  }

  stats(filter: EventFilter = {}, options: BulkOptions = {}): Promise<EventStats> {
    return this.#operations.stats(filter, options);
  }

  replay(id: string): Promise<boolean> {
    return this.#acceptance.replay(id);
  }

  async replayAll(filter: EventFilter, options: BulkOptions = {}): Promise<BulkResult> {
    const replay = (id: string) => this.#acceptance.replay(id);
    const result = await this.#operations.replayAll(filter, options, replay);
    if (result.changed > 0) this.#parts.local.wake?.();
    return result;
  }

  async cancel(id: string): Promise<boolean> {
    const cancelled = await this.#operations.cancel(id);
    if (cancelled) this.#parts.local.wake?.();
    return cancelled;
  }

  async cancelAll(filter: EventFilter, options: BulkOptions = {}): Promise<BulkResult> {
    const result = await this.#operations.cancelAll(filter, options);
    if (result.changed > 0) this.#parts.local.wake?.();
    return result;
  }

  purge(filter: EventFilter, options: BulkOptions = {}): Promise<BulkResult> {
    return this.#operations.purge(filter, options);
  }

  deleteStaleUploads(olderThanMs: number): Promise<number> {
    return deleteStaleUploads(this.#kv, this.#keys, Date.now() - olderThanMs);
  }

  repairSchedule(): Promise<number> {
    return this.#claims.repair();
  }

  repairGroups(): Promise<number> {
    return this.#orderingGroups.repair();
  }

  listen(listener: StoreListener): Promise<void> {
    const wake = () => listener.wake();
    Object.assign(this.#parts.local, { wake, reserve: listener.reserve });
    return this.#parts.notifier.listen(wake);
  }

  #change(lease: Lease, change: Change): Promise<Lease | null> {
    return changeRecord(this.#parts, lease, change);
  }

  /** The next event of a group is due as soon as the one before is settled. */
  #settled(lease: Lease, changed: Lease | null): boolean {
    if (changed && lease.record.group) this.#parts.local.wake?.();
    return changed !== null;
  }
}
