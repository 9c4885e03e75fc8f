import type { Leased, Mutations } from "./_write.ts";
import type { StoreKeys } from "./_keys.ts";
import { setDue } from "./_schedule.ts";
import type { EventRecord } from "../event_record.ts";

/** Who leases an event, and for how long. */
export interface LeaseWanted {
  readonly owner: string;
  readonly leaseMs: number;
}

/** The record of an event that is leased in the commit that writes it. */
export class LeasedRecord implements Leased {
  readonly leaseMs: number;
  readonly #keys: StoreKeys;
  readonly #owner: string;
  #record: EventRecord;

  constructor(keys: StoreKeys, record: EventRecord, { owner, leaseMs }: LeaseWanted) {
    this.leaseMs = leaseMs;
    this.#keys = keys;
    this.#owner = owner;
    this.#record = record;
    this.lease(Date.now());
  }

  get record(): EventRecord {
    return this.#record;
  }

  lease(now: number, sharedEntry?: string): void {
    const until = now + this.leaseMs;
    const lease = { owner: this.#owner, until, ms: this.leaseMs };
    this.#record = { ...this.#record, state: "running", lease, dueAt: until, sharedEntry };
  }

  addTo(commit: Mutations): void {
    commit.set(this.#keys.event(this.#record), this.#record);
    this.addDueTo(commit);
  }

  /** Adds its entry in the schedule, unless that is its group's. */
  addDueTo(commit: Mutations): void {
    if (!this.#record.sharedEntry) setDue(commit, this.#keys, this.#record);
  }
}
