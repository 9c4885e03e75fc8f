import { assertEquals } from "@std/assert";
import type { EventState, EventStore, Lease } from "../../../events/mod.ts";
import { delivery } from "./_events.ts";

/** An operation on a store, as a generator makes them. Numbers choose among what there is. */
export type Operation =
  | { readonly op: "accept"; readonly id: number; readonly key: number }
  | { readonly op: "claim"; readonly limit: number }
  | { readonly op: "complete" | "bury" | "release" | "renew" | "recover"; readonly lease: number }
  | { readonly op: "retry"; readonly lease: number; readonly delayMs: number }
  | { readonly op: "replay" | "cancel"; readonly id: number }
  | { readonly op: "purge" | "replayAll" | "cancelAll" }
  | { readonly op: "advance"; readonly ms: number };

interface ModelEvent {
  readonly id: string;
  readonly key: string | undefined;
  readonly receivedAt: number;
  state: EventState;
  /** Time at which it is due; an event that waits for others of its key has none. */
  dueAt: number | undefined;
  /** The attempt that runs. */
  attempt: string | undefined;
  /** The lease that may settle it; undefined also while its worker has to recover it. */
  lease: Lease | undefined;
  /** Set once it was cancelled while it ran. */
  isCancelled: boolean;
}

/** A lease as its worker knows it. */
interface Held {
  /** The event that it is of: one that comes again under the same id is another one. */
  readonly event: ModelEvent;
  /** The attempt that it is of. */
  readonly attempt: string;
  lease: Lease;
}

const LEASE_MS = 1_000;

/** Names an attempt. One that was released and leased again in the same millisecond is the same. */
const attemptOf = ({ record: { run, attempt, lease } }: Lease) =>
  [run, attempt, lease!.startedAt].join();

const isOpen = ({ state }: ModelEvent) => state === "queued" || state === "running";

/** Simplest model of a store, and a check that the real one does the same. */
export class StoreModel {
  readonly #store: EventStore;
  readonly #events = new Map<string, ModelEvent>();
  readonly #orderingGroups = new Map<string, string[]>();
  readonly #leases: Held[] = [];

  constructor(store: EventStore) {
    this.#store = store;
  }

  /** Does an operation on the store, and checks that it does what the model says. */
  async run(operation: Operation, advance: (ms: number) => void): Promise<void> {
    switch (operation.op) {
      case "advance":
        return advance(operation.ms);
      case "accept":
        return await this.#accept(operation.id, operation.key);
      case "claim":
        return await this.#claim(operation.limit);
      case "replay":
        return await this.#replay(`d${operation.id}`);
      case "cancel":
        return await this.#cancel(`d${operation.id}`);
      case "purge":
        return await this.#purge();
      case "replayAll":
        return await this.#replayAll();
      case "cancelAll":
        return await this.#cancelAll();
      default:
        return await this.#settle(operation);
    }
  }

  /** Checks that the store holds what the model holds. */
  async compare(): Promise<void> {
    const stored = new Map<string, string>();
    for await (const { id, state } of this.#store.list()) stored.set(id, state);
    const expected = new Map<string, string>(
      [...this.#events].map(([id, { state }]) => [id, state]),
    );
    const sorted = (map: Map<string, string>) => [...map].toSorted(([a], [b]) => a < b ? -1 : 1);
    assertEquals(sorted(stored), sorted(expected));
  }

  async #accept(number: number, keyNumber: number): Promise<void> {
    const id = `d${number}`;
    const known = this.#events.get(id);
    const duplicate = known !== undefined && known.state !== "dead";
    const key = keyNumber === 0 ? undefined : `key${keyNumber}`;
    assertEquals(await this.#store.accept(delivery(id, "{}", key)), { id, duplicate });
    if (!duplicate) {
      this.#enter({
        id,
        key,
        receivedAt: Date.now(),
        state: "queued",
        dueAt: undefined,
        attempt: undefined,
        lease: undefined,
        isCancelled: false,
      });
    }
  }

  async #claim(limit: number): Promise<void> {
    const now = Date.now();
    const due = this.#byId(({ dueAt }) => dueAt !== undefined && dueAt <= now);
    const leasable = due.filter(({ isCancelled }) => !isCancelled);
    const leases = await this.#store.claim({ limit, owner: "model", leaseMs: LEASE_MS });
    assertEquals(leases.length, Math.min(limit, leasable.length));
    for (const lease of leases) {
      const event = this.#events.get(lease.record.id)!;
      assertEquals(leasable.includes(event), true, `${event.id} was not due`);
      const attempt = attemptOf(lease);
      Object.assign(event, { state: "running", dueAt: now + LEASE_MS, lease, attempt });
      this.#leases.push({ event, attempt, lease });
    }
    for (const event of due.filter(({ isCancelled }) => isCancelled)) {
      // A claim that has found enough leaves the rest to the next one.
      const isSettled = (await this.#store.get(event.id))?.state === "dead";
      assertEquals(isSettled || leases.length === limit, true, `${event.id} was not settled`);
      if (isSettled) this.#leave(event, "dead");
    }
  }

  async #settle(operation: Operation & { readonly lease: number }): Promise<void> {
    const held = this.#leases[operation.lease % Math.max(1, this.#leases.length)];
    if (!held) return;
    const { event } = held;
    if (operation.op === "recover") return await this.#recover(held);
    const valid = event.lease?.versionstamp === held.lease.versionstamp;
    if (operation.op === "renew") {
      const renewed = await this.#store.renew(held.lease, LEASE_MS);
      assertEquals(renewed !== null, valid);
      if (renewed) {
        held.lease = renewed;
        Object.assign(event, { lease: renewed, dueAt: Date.now() + LEASE_MS });
      }
      return;
    }
    assertEquals(await this.#call(operation, held.lease), valid);
    if (!valid) return;
    if (operation.op === "bury" || event.isCancelled) return this.#leave(event, "dead");
    if (operation.op === "complete") return this.#leave(event, "done");
    const delayMs = operation.op === "retry" ? operation.delayMs : 0;
    const dueAt = Date.now() + delayMs;
    Object.assign(event, { state: "queued", attempt: undefined, lease: undefined, dueAt });
  }

  async #recover(held: Held): Promise<void> {
    const { event } = held;
    const recovered = await this.#store.recover(held.lease);
    assertEquals(recovered !== null, event.attempt === held.attempt);
    if (!recovered) return;
    assertEquals(recovered.record.cancelRequestedAt !== undefined, event.isCancelled);
    held.lease = event.lease = recovered;
  }

  #call(operation: Operation, lease: Lease): Promise<boolean> {
    switch (operation.op) {
      case "complete":
        return this.#store.complete(lease);
      case "bury":
        return this.#store.bury(lease, "buried");
      case "retry":
        return this.#store.retry(lease, operation.delayMs, "retried");
      default:
        return this.#store.release(lease);
    }
  }

  async #replay(id: string): Promise<void> {
    const event = this.#events.get(id);
    const dead = event?.state === "dead";
    assertEquals(await this.#store.replay(id), dead);
    if (dead) this.#enter({ ...event, state: "queued", isCancelled: false });
  }

  async #replayAll(): Promise<void> {
    // Those without a key first, then in the order received, and by id where that is the same.
    const rank = ({ key, receivedAt }: ModelEvent) => key === undefined ? 0 : receivedAt;
    const dead = this.#byId(({ state }) => state === "dead").sort((a, b) => rank(a) - rank(b));
    assertEquals((await this.#store.replayAll({})).changed, dead.length);
    for (const event of dead) this.#enter({ ...event, state: "queued", isCancelled: false });
  }

  async #cancel(id: string): Promise<void> {
    const event = this.#events.get(id);
    const open = event !== undefined && isOpen(event);
    assertEquals(await this.#store.cancel(id), open);
    if (open) this.#giveUp(event);
  }

  async #cancelAll(): Promise<void> {
    const open = this.#byId((event) => isOpen(event) && !event.isCancelled);
    assertEquals((await this.#store.cancelAll({})).changed, open.length);
    for (const event of open) this.#giveUp(event);
  }

  #giveUp(event: ModelEvent): void {
    if (event.state === "queued") return this.#leave(event, "dead");
    // The version of the record is another one now, unless it was cancelled before.
    if (!event.isCancelled) event.lease = undefined;
    event.isCancelled = true;
  }

  #byId(isMeant: (event: ModelEvent) => boolean): ModelEvent[] {
    return [...this.#events.values()].filter(isMeant).sort((a, b) => a.id < b.id ? -1 : 1);
  }

  async #purge(): Promise<void> {
    const settled = [...this.#events.values()].filter((event) => !isOpen(event));
    assertEquals((await this.#store.purge({})).changed, settled.length);
    for (const { id } of settled) this.#events.delete(id);
  }

  #enter(event: ModelEvent): void {
    this.#events.set(event.id, event);
    const group = event.key === undefined ? [] : this.#orderingGroups.get(event.key) ?? [];
    event.dueAt = group.length === 0 ? Date.now() : undefined;
    if (event.key !== undefined) this.#orderingGroups.set(event.key, [...group, event.id]);
  }

  #leave(event: ModelEvent, state: EventState): void {
    Object.assign(event, { state, attempt: undefined, lease: undefined, dueAt: undefined });
    if (event.key === undefined) return;
    const group = this.#orderingGroups.get(event.key)!;
    const wasFirst = group[0] === event.id;
    const rest = group.filter((id) => id !== event.id);
    this.#orderingGroups.set(event.key, rest);
    if (!wasFirst || rest.length === 0) return;
    this.#events.get(rest[0]!)!.dueAt = Date.now();
  }
}
