import {
  type Delivery,
  enqueueDelivery,
  type EventHandler,
  type EventStore,
  type EventWorker,
  openEventStore,
  startWorker,
} from "../../webhook/mod.ts";
import type { Completion, History } from "./_history.ts";
import { type SimulatedKv, simulateKv } from "./_simulated_kv.ts";
import { Simulation } from "./_simulation.ts";
import { delivery, keysOf, later } from "./store/_events.ts";

/** How long a worker of the world leases an event, in milliseconds. */
export const LEASE_MS = 300;

/** How often a handler takes longer than a lease. */
const LONG_RATE = 0.05;

/** Later than anything is scheduled, in milliseconds. */
const TIDY_MS = 5_000;

/** What is done to events from outside, some of it more often. */
const INTERVENTIONS = ["cancel", "cancel", "cancel", "replay", "replay", "purge"] as const;

/** How a world is. */
export interface WorldOptions {
  readonly seed: number;
  /** How many calls of the KV go wrong, from 0 to 1. */
  readonly faultRate: number;
  /** How long most handlers take at most, in milliseconds. */
  readonly handlerMs: number;
  /** How often a handler throws, from 0 to 1. */
  readonly failureRate: number;
}

/** An event that is sent. */
export interface Sent {
  readonly id: string;
  readonly key: string | undefined;
}

/** What a settlement leaves in the KV. */
type Effect = Omit<Completion, "step">;

/** A KV in a simulation, those who use it, and the history of what they do. */
export class World implements Disposable {
  readonly simulation: Simulation;
  readonly history: History = {
    ...{ handlings: [], joins: [], cancels: [], purges: [], completions: [] },
  };
  /** What was sent so far. */
  readonly #sent: Sent[] = [];
  readonly #kv: Deno.Kv;
  readonly #options: WorldOptions;
  readonly #watchers = new Set<() => void>();
  /** In which step each commit was made. */
  readonly #commits = new Map<string, number>();
  #deliveries = 0;

  constructor(kv: Deno.Kv, options: WorldOptions) {
    this.#kv = kv;
    this.#options = options;
    this.simulation = new Simulation(options.seed);
  }

  /** Gives back what belongs to the simulation. */
  [Symbol.dispose](): void {
    this.simulation[Symbol.dispose]();
  }

  /** Opens the store as a process of its own does. */
  async process(
    faultRate = this.#options.faultRate,
  ): Promise<SimulatedKv & { store: EventStore }> {
    const note = (versionstamp: string) => {
      this.#commits.set(versionstamp, this.simulation.step);
    };
    const view = simulateKv(this.#kv, this.simulation, faultRate, this.#watchers, note);
    return { ...view, store: await openEventStore(view.kv, { bell: "watch", log: () => {} }) };
  }

  /** Starts a worker in a process of its own. */
  async worker(faultRate?: number): Promise<{ worker: EventWorker; cut: () => void }> {
    const { store, cut } = await this.process(faultRate);
    const worker = startWorker(store, this.#handle, {
      ...{ leaseMs: LEASE_MS, sweepMs: 20, concurrency: 4, log: () => {} },
      retry: { minDelayMs: 1, maxDelayMs: 1_000, maxAttempts: 1_000 },
    });
    return { worker, cut };
  }

  /** Sends an event as a sender does: again and again, until it is told that the event is stored. */
  async send(store: EventStore, event: Sent): Promise<void> {
    this.#sent.push(event);
    for (let told = false; !told;) {
      const number = this.#deliveries++;
      const join = { id: event.id, delivery: number, from: this.simulation.step, to: Infinity };
      // Of one that fails nobody knows: it may have been stored, or be stored later.
      const duplicate = await enqueueDelivery(store, deliveryOf(event, number))
        .then((result) => result.duplicate, () => undefined);
      told = duplicate !== undefined;
      const to = duplicate === false ? this.simulation.step : Infinity;
      this.history.joins.push({ ...join, to, told });
    }
  }

  /** What was sent or cancelled not long ago: to others hardly anything can happen. */
  get ofInterest(): readonly Sent[] {
    const cancelled = new Set(this.history.cancels.slice(-3).map(({ id }) => id));
    return [...this.#sent.slice(-6), ...this.#sent.filter(({ id }) => cancelled.has(id))];
  }

  /** Replays, cancels or purges an event, and notes it if that was done. */
  async intervene(store: EventStore, id: string): Promise<void> {
    const { simulation, history: { joins, cancels, purges } } = this;
    const from = simulation.step;
    const span = () => ({ id, from, to: simulation.step });
    const kind = simulation.oneOf(INTERVENTIONS);
    if (kind === "replay" && await store.replay(id)) joins.push({ ...span(), told: true });
    if (kind === "cancel" && await store.cancel(id)) cancels.push(span());
    if (kind === "purge" && (await store.purge({ type: id })).changed > 0) purges.push(span());
  }

  /** Reads, when all is over, what the settlements have left in the KV, and how the events stand. */
  async look(): Promise<ReadonlyMap<string, string>> {
    for await (const { value, versionstamp } of this.#kv.list<Effect>({ prefix: ["effects"] })) {
      this.history.completions.push({ ...value, step: this.#commits.get(versionstamp)! });
    }
    const states = new Map<string, string>();
    const store = await openEventStore(this.#kv, { bell: "watch" });
    for await (const { id, state } of store.list()) states.set(id, state);
    return states;
  }

  /** Purges all events, and tells what is left in the KV then. */
  async leftovers(): Promise<Deno.KvKey[]> {
    const store = await openEventStore(this.#kv, { bell: "watch" });
    await store.purge({});
    // A claim tidies up what is on the schedule without its event.
    await this.simulation.run(later(TIDY_MS));
    await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
    return (await keysOf(this.#kv)).filter(([, part]) => part !== "bell");
  }

  /** Handles an event for a while, until aborted, and leaves an effect in the KV. */
  readonly #handle: EventHandler = async ({ id, payload }, { signal, settleWith }) => {
    signal.throwIfAborted();
    const { simulation, history: { handlings } } = this;
    const { key, delivery } = payload as unknown as Effect;
    const handling = { id, key, from: simulation.step, to: Infinity };
    const effect = ["effects", handlings.push(handling)];
    settleWith((commit) => commit.set(effect, { id, key, delivery } satisfies Effect));
    const { handlerMs, failureRate } = this.#options;
    const isLong = simulation.random() < LONG_RATE;
    const ms = isLong ? LEASE_MS * 2 : simulation.random() * handlerMs;
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await Promise.race([later(ms), aborted]);
    handling.to = simulation.step;
    if (simulation.random() < failureRate) throw new Error("The handler fails");
  };
}

/** A delivery, of the event's own type, so that it can be purged alone. */
function deliveryOf({ id, key }: Sent, number: number): Delivery {
  return { ...delivery(id, JSON.stringify({ key, delivery: number }), key), type: id };
}
