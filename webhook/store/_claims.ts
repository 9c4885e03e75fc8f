import { writeLog } from "../../middleware/mod.ts";
import { type Change, changeRecord } from "./_changes.ts";
import { Draft } from "./_draft.ts";
import type { StoreKeys } from "./_keys.ts";
import { Lanes, POSTPONE_MS } from "./_lanes.ts";
import { readSmallPayloads } from "./_payload.ts";
import { readAll } from "./_reads.ts";
import { type ScheduleEntry, setEntry } from "./_schedule.ts";
import { type EventRecord, type EventRef, type Known, knownOf, withError } from "./event_record.ts";
import type { StoreParts } from "./_parts.ts";
import type { ClaimOptions, Lease } from "./event_store.ts";

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
    this.#keys = parts.keys;
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

  /**
   * Makes events due that are scheduled later than anything can be: by a clock that has been set back
   * since.
   */
  async repair(latestMs: number): Promise<number> {
    let repaired = 0;
    let page: DueEntry[] = [];
    const mend = async () => {
      const changes = (await this.#read(page)).map((known, i) =>
        this.#mend(page[i]!, known, latestMs)
      );
      for (const mended of await Promise.all(changes)) if (mended) repaired++;
      page = [];
    };
    for await (const entry of this.#kv.list<ScheduleEntry>(this.#keys.dueAfter(Date.now()))) {
      if (page.push(entry) === BATCH_SIZE) await mend();
    }
    await mend();
    return repaired;
  }

  async #mend({ key }: DueEntry, known: Known, latestMs: number): Promise<boolean> {
    const { record, versionstamp } = known;
    if (!record || record.dueAt !== key.at(-2) || !isMisplaced(record, latestMs)) return false;
    const { lease } = record;
    // Who holds a lease has to have its length to renew it by the clock as it is now.
    const dueAt = Date.now() + (lease?.ms ?? 0);
    const set = { dueAt, lease: lease && { ...lease, until: dueAt } };
    return await this.#change({ record, versionstamp: versionstamp! }, { set }) !== null;
  }

  async #read(entries: readonly DueEntry[]): Promise<Known[]> {
    const keys = entries.map((entry) => this.#keys.event(refOf(entry)));
    return (await readAll(this.#kv, keys)).map(knownOf);
  }

  /** Leases events in one commit. One that fails does not lose what was leased beside it. */
  async #leaseAll(entries: readonly DueEntry[], options: ClaimOptions): Promise<Lease[]> {
    const known = await this.#read(entries);
    // Meanwhile: one by one, and when their turn comes, the payloads would hold up the handlers.
    const reading = readSmallPayloads(this.#kv, this.#keys, known).catch(() => []);
    const tried = await Promise.allSettled(
      entries.map((entry, i) => this.#leaseDue(entry, known[i]!, options)),
    );
    const bodies = await reading;
    const leases = tried.flatMap((each, i) =>
      each.status === "fulfilled" && each.value ? [{ ...each.value, body: bodies[i] }] : []
    );
    const failed = tried.find((each) => each.status === "rejected");
    if (failed && leases.length === 0) throw failed.reason;
    return leases;
  }

  async #leaseDue(entry: DueEntry, known: Known, options: ClaimOptions): Promise<Lease | null> {
    const { owner, leaseMs, takeOver = true } = options;
    const now = Date.now();
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
      lease: { owner, until, ms: leaseMs },
      dueAt: until,
      errors,
    };
    const add = (draft: Draft) => void draft.delete(entry.key);
    const lease = await this.#change({ record, versionstamp: versionstamp! }, { set, add });
    return lease && { ...lease, takenOver };
  }

  /** Deletes an entry of the schedule that is not its event's any more. */
  async #drop({ key, versionstamp }: DueEntry): Promise<null> {
    await this.#parts.commits.commit(new Draft().check({ key, versionstamp }).delete(key));
    return null;
  }

  /**
   * Leaves an event whose record this version cannot read to a later time: another version may read it.
   * It would be the first one due for ever, and hold up its lane.
   */
  async #postpone(entry: DueEntry, { versionstamp }: Known): Promise<null> {
    const { lane } = entry.value;
    if (versionstamp === null && !lane) return await this.#drop(entry);
    const ref = refOf(entry);
    const draft = new Draft().check(entry).delete(entry.key);
    if (lane) await this.#lanes.leave(draft, lane, ref.id);
    if (versionstamp !== null) {
      setEntry(draft, this.#keys, Date.now() + POSTPONE_MS, ref, null);
    }
    const { ok } = await this.#parts.commits.commit(draft);
    if (ok && versionstamp !== null) {
      writeLog(this.#parts.log, "error", "event record unreadable, left unhandled", {
        eventId: ref.id,
      });
    }
    return null;
  }

  #change(lease: Lease, change: Change): Promise<Lease | null> {
    return changeRecord(this.#parts, lease, change);
  }
}

function refOf({ key, value }: DueEntry): EventRef {
  return { id: String(key.at(-1)), receivedAt: value.receivedAt };
}

/** Whether an event waits for longer than its clock can have meant, as far as the record tells. */
function isMisplaced(record: EventRecord, latestMs: number): boolean {
  const { dueAt, lease, state, attempt, lane, receivedAt } = record;
  const inMs = dueAt! - Date.now();
  if (state === "running" && lease) return inMs > lease.ms;
  return inMs > latestMs || (attempt === 0 && lane === null && dueAt === receivedAt);
}
