import type { EventRecord } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import { inIntake } from "../arrival.ts";
import { joinedLate } from "../claims.ts";
import { addChange, type ChangeOptions, isChanged } from "./_apply.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { isTooMuch, untilDone, Write } from "./_write.ts";

/** The number of checks for events that join, in a commit of 100 and in one of a remote KV, which takes 10. */
const [MAX_JOINS, MAX_JOINS_REMOTE] = [90, 9] as const;

/** The bytes of a commit beyond which no further event joins in it. */
const MAX_BYTES = 500_000;

/** The number of events that join in a commit, as the KV has shown it to take them. */
export interface JoinLimit {
  max: number;
}

/** Makes the limit for a KV of which nothing is known yet. */
export function joinLimit(): JoinLimit {
  return { max: MAX_JOINS };
}

/** An event that joins its group. */
interface Joining {
  readonly held: Lease;
  /** Its record before it joins, if the commit changes more of it. */
  readonly record: EventRecord;
  readonly options: ChangeOptions;
  readonly ended: PromiseWithResolvers<Lease | null>;
}

/**
 * The events of a page that join their ordering groups now that they are claimed. Such an event was stored
 * for later, and its group does not wait until it is due. In the commit that would lease it, it takes the
 * next position of its group. If the group was empty it is leased, otherwise it waits for its turn like any
 * other event. Those of one group join together: of a thousand reminders, each would wait for all before it.
 */
export class LateJoins {
  readonly #parts: StoreParts;
  readonly #orderingGroups: OrderingGroups;
  readonly #limit: JoinLimit;
  readonly #groups = new Map<string, Joining[]>();
  #room: number;

  /**
   * Begins a page.
   *
   * @param parts The store.
   * @param room The number of its events that may be leased when they join.
   * @param limit The number that joins in a commit.
   */
  constructor(parts: StoreParts, room: number, limit: JoinLimit) {
    this.#parts = parts;
    this.#orderingGroups = new OrderingGroups(parts);
    this.#room = room;
    this.#limit = limit;
  }

  /**
   * Has an event join its group, and leases it if it is the first one there.
   *
   * @param held The event, which is due.
   * @param options The lease that it gets, and what else the commit holds.
   * @param record Its record before it joins, if the commit changes more of it.
   * @returns The lease; null if the event waits in its group now, or another change was faster.
   */
  lease(held: Lease, options: ChangeOptions, record = held.record): Promise<Lease | null> {
    const key = inIntake(record.intake, record.orderingKey ?? "");
    const joining: Joining = { held, record, options, ended: Promise.withResolvers() };
    const group = this.#groups.get(key);
    // Woken at the end of its time, it may be on the schedule twice.
    if (group?.some((other) => other.held.record.id === record.id)) return Promise.resolve(null);
    if (group) group.push(joining);
    else {
      this.#groups.set(key, [joining]);
      // The events of the page come in this step.
      queueMicrotask(() => this.#joinAll(key));
    }
    return joining.ended.promise;
  }

  async #joinAll(key: string): Promise<void> {
    const joining = this.#groups.get(key)!;
    this.#groups.delete(key);
    try {
      // One change at a time, like those that join when they are stored.
      await this.#parts.locks.run(key, async () => {
        for (let left = joining; left.length > 0;) {
          left = await untilDone(async () => {
            const rest = await this.#join(key, left);
            if (!rest) left = await this.#unchanged(left);
            return left.length === 0 ? [] : rest;
          });
        }
      });
    } catch (error) {
      for (const { ended } of joining) ended.reject(error);
    }
  }

  /** Tries once, and returns those that did not fit; undefined if others were faster. */
  async #join(key: string, joining: readonly Joining[]): Promise<Joining[] | undefined> {
    const group = await this.#orderingGroups.readToJoin(key);
    const write = new Write();
    const leases: Lease["record"][] = [];
    // Reserved before the commit: other groups join meanwhile.
    const isLeased = group.size === 0 && this.#room > 0;
    if (isLeased) this.#room--;
    for (const { held, record, options: { lease, add, checks = [] } } of joining) {
      const isFull = write.checks.length + 1 + checks.length > this.#limit.max;
      if (leases.length > 0 && (isFull || write.bytes > MAX_BYTES)) break;
      const isFirst = group.size + leases.length === 0;
      const after = joinedLate(record, { key, position: group.next + leases.length }, isFirst);
      const request = isFirst && isLeased ? lease : undefined;
      leases.push(
        await addChange(this.#parts, write, held, after, { lease: request, add, checks }),
      );
    }
    this.#orderingGroups.join(write, group, leases);
    const versionstamp = await this.#commit(write, leases.length);
    if (versionstamp === null) {
      if (isLeased) this.#room++;
      return undefined;
    }
    for (const [i, record] of leases.entries()) {
      const { options, ended } = joining[i]!;
      options.onCommit?.();
      ended.resolve(record.state === "running" ? { record, versionstamp } : null);
    }
    return joining.slice(leases.length);
  }

  async #commit(write: Write, count: number): Promise<string | null> {
    try {
      return await this.#parts.commits.commit(write);
    } catch (error) {
      if (!isTooMuch(error) || count === 1) throw error;
      this.#limit.max = count > MAX_JOINS_REMOTE ? MAX_JOINS_REMOTE : 1;
      return null;
    }
  }

  /** Leaves out those that another change was faster with. */
  async #unchanged(joining: readonly Joining[]): Promise<Joining[]> {
    const isSame = await Promise.all(
      joining.map(async ({ held, options }) => !await isChanged(this.#parts, held, options)),
    );
    return joining.filter(({ ended }, i) => {
      if (!isSame[i]) ended.resolve(null);
      return isSame[i];
    });
  }
}
