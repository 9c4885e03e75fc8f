import {
  type Delivery,
  type EventHandler,
  type EventStore,
  type EventWorker,
  openEventStore,
  startWorker,
} from "../../../events/mod.ts";
import { enqueueDelivery } from "../../../webhook/mod.ts";
import type { Effect } from "./_aftermath.ts";
import type { History } from "./_history.ts";
import { type SimulatedKv, simulateKv } from "./_simulated_kv.ts";
import { Simulation } from "./_simulation.ts";
import { delivery, later } from "../store/_events.ts";

/** Length of a lease, in milliseconds. */
export const LEASE_MS = 300;

/** Share of the handlers that take longer than a lease. */
const LONG_RATE = 0.05;

/** Interventions from outside. Those listed several times are made more often. */
const INTERVENTIONS = ["cancel", "cancel", "cancel", "replay", "replay", "purge"] as const;

/** Text that makes a delivery too large for one commit. */
const PADDING = "a".repeat(800_000);

/** Options of a {@linkcode World}. */
export interface WorldOptions {
  readonly seed: number;
  /** Share of the KV's calls that go wrong, from 0 to 1. */
  readonly faultRate: number;
  /** Share of the deliveries that take several commits to store, from 0 to 1. */
  readonly largeRate: number;
  /** Longest time that most handlers take, in milliseconds. */
  readonly handlerMs: number;
  /** Share of the handlers that throw, from 0 to 1. */
  readonly failureRate: number;
}

/** An event that is sent. */
export interface Sent {
  readonly id: string;
  readonly key: string | undefined;
}

/** A worker, and the store of its process. */
export interface Working {
  readonly worker: EventWorker;
  readonly store: EventStore;
  /** Cuts the process off from the KV. */
  cut(): void;
}

/** A KV in a simulation, those who use it, and the history of what they do. */
export class World implements Disposable {
  readonly simulation: Simulation;
  /** Step in which each version of the KV came about. */
  readonly steps = new Map<string, number>();
  readonly history: History = { handlings: [], joins: [], cancels: [], purges: [] };
  /** Events that were sent so far. */
  readonly #sent: Sent[] = [];
  readonly #kv: Deno.Kv;
  readonly #options: WorldOptions;
  readonly #watchers = new Set<() => void>();
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
      this.steps.set(versionstamp, this.simulation.step);
    };
    const view = simulateKv(this.#kv, this.simulation, faultRate, this.#watchers, note);
    return { ...view, store: await openEventStore(view.kv, { notifier: "watch", log: () => {} }) };
  }

  /** Starts a worker in a process of its own, which can also take events in. */
  async worker(faultRate?: number): Promise<Working> {
    const { store, cut } = await this.process(faultRate);
    const worker = startWorker(store, this.#handle, {
      ...{ leaseMs: LEASE_MS, pollMs: 20, concurrency: 4, log: () => {} },
      retry: { minDelayMs: 1, maxDelayMs: 1_000, maxAttempts: 1_000 },
    });
    return { worker, store, cut };
  }

  /** Sends an event as a sender does: again and again, until the store has acknowledged it. */
  async send(store: EventStore, event: Sent): Promise<void> {
    this.#sent.push(event);
    for (let isAcknowledged = false; !isAcknowledged;) {
      const number = this.#deliveries++;
      const join = { id: event.id, delivery: number, from: this.simulation.step, to: Infinity };
      // Of one that fails nobody knows: it may have been stored, or be stored later.
      const duplicate = await enqueueDelivery(store, this.#deliveryOf(event, number))
        .then((result) => result.duplicate, () => undefined);
      isAcknowledged = duplicate !== undefined;
      const to = duplicate === false ? this.simulation.step : Infinity;
      this.history.joins.push({ ...join, to, isAcknowledged });
    }
  }

  /** Events that were sent or cancelled not long ago: the others hardly ever change any more. */
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
    if (kind === "replay" && await store.replay(id)) {
      joins.push({ ...span(), isAcknowledged: true });
    }
    if (kind === "cancel" && await store.cancel(id)) cancels.push(span());
    if (kind === "purge" && (await store.purge({ type: id })).changed > 0) purges.push(span());
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

  /** A delivery, of the event's own type, so that it can be purged alone. */
  #deliveryOf({ id, key }: Sent, number: number): Delivery {
    const padding = this.simulation.random() < this.#options.largeRate ? PADDING : "";
    const text = JSON.stringify({ key, delivery: number, padding });
    return { ...delivery(id, text, key), type: id, payload: JSON.parse(text) };
  }
}
