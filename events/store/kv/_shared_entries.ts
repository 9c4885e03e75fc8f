import type { Leased, Mutations } from "./_write.ts";
import type { StoreKeys } from "./_keys.ts";
import type { SharedEntry } from "./_schedule.ts";
import type { EventRecord, EventRef } from "../event_record.ts";

/** How many entries a commit has room for. */
const MAX_SPENT = 20;

/** Several events with one entry in the schedule. */
export interface SharedDue {
  /** The group's id. */
  readonly id: string;
  /** When the leases of its events end, milliseconds since the epoch. */
  readonly dueAt: number;
  /** How long these are, in milliseconds. */
  readonly leaseMs: number;
  /** Its events. */
  readonly events: readonly EventRef[];
}

/**
 * Entries of the schedule for several events each: for those that were leased in the commit that stored
 * them. An entry of its own for each would be written and deleted for nothing, for nearly all are settled
 * before it is due. Who has written a group's entry deletes it with the last of its events; where that
 * process died, who claims what is due does.
 */
export class SharedEntries {
  readonly #keys: StoreKeys;
  /** How many events of a group are still in it, of those that this process has written. */
  readonly #left = new Map<string, number>();
  /** The entries of groups that have become empty by changes in several commits at once. */
  readonly #spent: Deno.KvKey[] = [];

  constructor(keys: StoreKeys) {
    this.#keys = keys;
  }

  /** Adds a group's entry to a commit. */
  open(commit: Mutations, { id, dueAt, leaseMs, events }: SharedDue): void {
    const entry: SharedEntry = { v: 1, events, delayMs: leaseMs };
    commit.set(this.#keys.due(dueAt, id), entry);
    this.#left.set(id, events.length);
  }

  /** Forgets a group whose commit was not made. */
  forget({ id }: SharedDue): void {
    this.#left.delete(id);
  }

  /** Adds the deletion of the entries of groups that were emptied before to a commit. */
  deleteSpent(commit: Mutations): void {
    for (const key of this.#spent.splice(0, MAX_SPENT)) commit.delete(key);
  }

  /** Adds the deletion of the entries of groups that a commit empties. */
  close(commit: Mutations, leaving: readonly EventRecord[]): void {
    for (const [group, records] of Map.groupBy(leaving, ({ sharedEntry }) => sharedEntry!)) {
      if (this.#left.get(group) !== records.length) continue;
      commit.delete(this.#keys.due(records[0]!.dueAt!, group));
      this.#left.delete(group);
    }
  }

  /** Notes that events have left their groups. */
  left(leaving: readonly EventRecord[]): void {
    for (const { sharedEntry, dueAt } of leaving) {
      const left = this.#left.get(sharedEntry!);
      if (left === undefined) continue;
      this.#left.set(sharedEntry!, left - 1);
      if (left > 1) continue;
      this.#left.delete(sharedEntry!);
      this.#spent.push(this.#keys.due(dueAt!, sharedEntry!));
    }
  }
}

/**
 * Leases events from now on, and makes a group of them if there are several.
 *
 * @param taken The events.
 * @returns The group; undefined if each event has an entry of its own.
 */
export function leaseTogether(taken: readonly Leased[]): SharedDue | undefined {
  const [first] = taken;
  if (!first) return undefined;
  const now = Date.now();
  const isGroup = taken.length > 1 && taken.every(({ leaseMs }) => leaseMs === first.leaseMs);
  const id = isGroup ? crypto.randomUUID() : undefined;
  for (const each of taken) each.lease(now, id);
  return id === undefined ? undefined : {
    id,
    dueAt: now + first.leaseMs,
    leaseMs: first.leaseMs,
    events: taken.map(({ record: { id, receivedAt } }) => ({ id, receivedAt })),
  };
}
