import { writeLog } from "../../middleware/mod.ts";
import { type Change, changeRecord } from "./_changes.ts";
import { commit } from "./_commit.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import { Lanes, POSTPONE_MS } from "./_lanes.ts";
import type { ScheduleEntry } from "./_schedule.ts";
import { type EventRecord, type Known, readRecord, withError } from "./event_record.ts";
import type { StoreParts } from "./_parts.ts";
import type { ClaimOptions, CommitEffects, Lease } from "./event_store.ts";

/** How many entries of the schedule are read at a time. */
const BATCH_SIZE = 100;

/** What stands for an attempt whose worker neither settled its event nor renewed its lease. */
const LEASE_EXPIRED = "Lease expired: the process died, was frozen, or lost the KV";

type DueEntry = Deno.KvEntry<ScheduleEntry>;

/** Takes events off the schedule: those that are due are leased, and misplaced ones put right. */
export class Claims {
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

  /** Leases events that are due. */
  async claim(options: ClaimOptions): Promise<Lease[]> {
    const { limit } = options;
    const leases: Lease[] = [];
    let page: DueEntry[] = [];
    const selector = this.#keys.dueUntil(Date.now());
    const take = async () => {
      leases.push(...await this.#leaseAll(page, options));
      page = [];
    };
    // Beyond the first entries too: another worker may have been faster with those.
    for await (const entry of this.#kv.list<ScheduleEntry>(selector, { batchSize: BATCH_SIZE })) {
      if (page.push(entry) === limit - leases.length) await take();
      if (leases.length === limit) return leases;
    }
    await take();
    return leases;
  }

  /** Makes events due that are scheduled later than anything can be. */
  async repair(latestMs: number): Promise<number> {
    let repaired = 0;
    for await (const { key } of this.#kv.list(this.#keys.dueAfter(Date.now() + latestMs))) {
      const { record, versionstamp } = await readRecord(
        this.#kv,
        this.#keys.event(String(key.at(-1))),
      );
      if (!record || record.dueAt !== key.at(-2)) continue;
      const lease: Lease = { record, versionstamp: versionstamp! };
      if (await this.#change(lease, { set: { dueAt: Date.now() } })) repaired++;
    }
    return repaired;
  }

  /** Leases events at the same time. One that fails does not lose what was leased beside it. */
  async #leaseAll(entries: DueEntry[], options: ClaimOptions): Promise<Lease[]> {
    const tried = await Promise.allSettled(entries.map((each) => this.#leaseDue(each, options)));
    const leases = tried.flatMap((each) =>
      each.status === "fulfilled" && each.value ? [each.value] : []
    );
    const failed = tried.find((each) => each.status === "rejected");
    if (failed && leases.length === 0) throw failed.reason;
    return leases;
  }

  async #leaseDue(entry: DueEntry, options: ClaimOptions): Promise<Lease | null> {
    const { owner, leaseMs, takeOver = true } = options;
    const now = Date.now();
    const known = await readRecord(this.#kv, this.#keys.event(String(entry.key.at(-1))));
    const { record, versionstamp } = known;
    if (!record) return await this.#postpone(entry, known);
    if (record.dueAt === null || record.dueAt > now) return await this.#drop(entry);
    const until = now + leaseMs;
    const takenOver = record.state === "running";
    if (takenOver && !takeOver) return null;
    const errors = takenOver ? withError(record, LEASE_EXPIRED, now) : record.errors;
    const set: Partial<EventRecord> = {
      state: "running",
      attempt: record.attempt + 1,
      lease: { owner, until },
      dueAt: until,
      errors,
    };
    const effects: CommitEffects = (operation) => void operation.delete(entry.key);
    const lease = await this.#change({ record, versionstamp: versionstamp! }, { set, effects });
    return lease && { ...lease, takenOver };
  }

  /** Deletes an entry of the schedule that is not its event's any more. */
  async #drop({ key, versionstamp }: DueEntry): Promise<null> {
    await commit(this.#kv.atomic().check({ key, versionstamp }).delete(key));
    return null;
  }

  /**
   * Leaves an event whose record this version cannot read to a later time: another version may read it.
   * It would be the first one due for ever, and hold up its lane.
   */
  async #postpone(entry: DueEntry, { versionstamp }: Known): Promise<null> {
    if (versionstamp === null && !entry.value) return await this.#drop(entry);
    const { key, value: place } = entry;
    const eventId = String(key.at(-1));
    const operation = this.#kv.atomic().check(entry).delete(key);
    if (place) await this.#lanes.leave(operation, place);
    if (versionstamp !== null) {
      operation.set(this.#keys.due(Date.now() + POSTPONE_MS, eventId), null);
    }
    const { ok } = await commit(operation);
    if (ok && versionstamp !== null) {
      writeLog(this.#parts.log, "error", "event record unreadable, left unhandled", { eventId });
    }
    return null;
  }

  #change(lease: Lease, change: Change): Promise<Lease | null> {
    return changeRecord(this.#parts, lease, change);
  }
}
