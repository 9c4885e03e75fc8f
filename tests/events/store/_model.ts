import { assertEquals } from "@std/assert";
import type { EventState, EventStore, Lease } from "../../../events/mod.ts";
import { delivery } from "./_events.ts";

/** An operation on a store, as a generator makes them. Numbers choose among what there is. */
export type Operation =
  | { readonly op: "accept"; readonly id: number; readonly key: number }
  | { readonly op: "claim"; readonly limit: number }
  | { readonly op: "complete" | "bury" | "release" | "renew"; readonly lease: number }
  | { readonly op: "retry"; readonly lease: number; readonly delayMs: number }
  | { readonly op: "replay" | "cancel"; readonly id: number }
  | { readonly op: "purge" | "replayAll" | "cancelAll" }
  | { readonly op: "advance"; readonly ms: number };

interface ModelEvent {
  readonly id: string;
  readonly key: string | undefined;
  readonly receivedAt: number;
  state: EventState;
  /** When it is due; an event that waits for others of its key has none. */
  dueAt: number | undefined;
  /** The lease that may settle it. */
  lease: Lease | undefined;
  /** Until when its handler may run, once it was cancelled. */
  busyUntil: number;
}

const LEASE_MS = 1_000;

const isOpen = ({ state }: ModelEvent) => state === "queued" || state === "running";

/** What a store should do, in the simplest words, and a check that it does. */
export class StoreModel {
  readonly #store: EventStore;
  readonly #events = new Map<string, ModelEvent>();
  readonly #orderingGroups = new Map<string, string[]>();
  /** Until when a handler of a key may run that was cancelled. */
  readonly #busyKeys = new Map<string, number>();
  readonly #leases: { readonly id: string; lease: Lease }[] = [];

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
        lease: undefined,
        busyUntil: known?.busyUntil ?? 0,
      });
    }
  }

  async #claim(limit: number): Promise<void> {
    const now = Date.now();
    const due = [...this.#events.values()].filter(({ dueAt }) =>
      dueAt !== undefined && dueAt <= now
    );
    const leases = await this.#store.claim({ limit, owner: "model", leaseMs: LEASE_MS });
    assertEquals(leases.length, Math.min(limit, due.length));
    for (const lease of leases) {
      const event = this.#events.get(lease.record.id)!;
      assertEquals(due.includes(event), true, `${event.id} was not due`);
      const busyUntil = now + LEASE_MS;
      Object.assign(event, { state: "running", dueAt: busyUntil, lease, busyUntil });
      this.#leases.push({ id: event.id, lease });
    }
  }

  async #settle(operation: Operation & { readonly lease: number }): Promise<void> {
    const held = this.#leases[operation.lease % Math.max(1, this.#leases.length)];
    if (!held) return;
    const event = this.#events.get(held.id);
    const valid = event?.lease === held.lease;
    if (operation.op === "renew") {
      const renewed = await this.#store.renew(held.lease, LEASE_MS);
      assertEquals(renewed !== null, valid);
      if (renewed) {
        held.lease = renewed;
        const busyUntil = Date.now() + LEASE_MS;
        Object.assign(event!, { lease: renewed, dueAt: busyUntil, busyUntil });
      }
      return;
    }
    assertEquals(await this.#call(operation, held.lease), valid);
    if (!valid) return;
    Object.assign(event!, { lease: undefined, busyUntil: 0 });
    if (operation.op === "complete") return this.#leave(event!, "done");
    if (operation.op === "bury") return this.#leave(event!, "dead");
    const delayMs = operation.op === "retry" ? operation.delayMs : 0;
    Object.assign(event!, { state: "queued", dueAt: Date.now() + delayMs });
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
    if (dead) this.#enter({ ...event, state: "queued", lease: undefined });
  }

  async #replayAll(): Promise<void> {
    // Those without a key first, then in the order received, and by id where that is the same.
    const rank = ({ key, receivedAt }: ModelEvent) => key === undefined ? 0 : receivedAt;
    const dead = this.#byId(({ state }) => state === "dead").sort((a, b) => rank(a) - rank(b));
    assertEquals((await this.#store.replayAll({})).changed, dead.length);
    for (const event of dead) this.#enter({ ...event, state: "queued", lease: undefined });
  }

  async #cancel(id: string): Promise<void> {
    const event = this.#events.get(id);
    const open = event !== undefined && isOpen(event);
    assertEquals(await this.#store.cancel(id), open);
    if (open) this.#giveUp(event);
  }

  async #cancelAll(): Promise<void> {
    const open = this.#byId(isOpen);
    assertEquals((await this.#store.cancelAll({})).changed, open.length);
    for (const event of open) this.#giveUp(event);
  }

  #giveUp(event: ModelEvent): void {
    const { key, busyUntil } = event;
    if (key !== undefined) {
      this.#busyKeys.set(key, Math.max(busyUntil, this.#busyKeys.get(key) ?? 0));
    }
    event.lease = undefined;
    this.#leave(event, "dead");
  }

  #byId(isMeant: (event: ModelEvent) => boolean): ModelEvent[] {
    return [...this.#events.values()].filter(isMeant).sort((a, b) => a.id < b.id ? -1 : 1);
  }

  async #purge(): Promise<void> {
    const settled = [...this.#events.values()].filter(({ state, busyUntil }) =>
      state === "done" || (state === "dead" && busyUntil <= Date.now())
    );
    assertEquals((await this.#store.purge({})).changed, settled.length);
    for (const { id } of settled) this.#events.delete(id);
  }

  #enter(event: ModelEvent): void {
    this.#events.set(event.id, event);
    const group = event.key === undefined ? [] : this.#orderingGroups.get(event.key) ?? [];
    event.dueAt = group.length === 0 ? this.#notBefore(event) : undefined;
    if (event.key !== undefined) this.#orderingGroups.set(event.key, [...group, event.id]);
  }

  #leave(event: ModelEvent, state: EventState): void {
    event.state = state;
    event.dueAt = undefined;
    if (event.key === undefined) return;
    const group = this.#orderingGroups.get(event.key)!;
    const wasFirst = group[0] === event.id;
    const rest = group.filter((id) => id !== event.id);
    this.#orderingGroups.set(event.key, rest);
    if (!wasFirst || rest.length === 0) return;
    const next = this.#events.get(rest[0]!)!;
    next.dueAt = this.#notBefore(next);
  }

  #notBefore({ key, busyUntil }: ModelEvent): number {
    const keyBusyUntil = key === undefined ? 0 : this.#busyKeys.get(key) ?? 0;
    return Math.max(Date.now(), busyUntil, keyBusyUntil);
  }
}
