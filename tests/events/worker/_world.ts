import { assertEquals } from "@std/assert";
import {
  createEventRouter,
  type Delivery,
  type EventFilter,
  type EventHandler,
  type EventStore,
  type EventWorker,
  type HandlerContext,
  NewerEventError,
  RetryLaterError,
  startWorker,
  type WebhookEvent,
} from "../../../events/mod.ts";
import { enqueueDelivery } from "../../../webhook/mod.ts";
import { COUNTING, type Effect, type Part } from "./_aftermath.ts";
import type { History } from "./_history.ts";
import type { SimulatedPlace, SimulatedProcess } from "./_simulated_place.ts";
import { Simulation } from "./_simulation.ts";
import { delivery, later } from "../store/_events.ts";
import { repairGroups } from "../store/_tidying.ts";
import type { EngineUnderTest } from "../store/engines/_engine.ts";

/** Length of a lease, in milliseconds. */
export const LEASE_MS = 300;

/** Longest time for which a handler puts its event off, in milliseconds. */
const MAX_PUT_OFF_MS = 500;

/** Longest time for which a handler waits for an answer, in milliseconds. */
const MAX_WAIT_MS = 1_500;

/** Share of the handlers that wake another event. */
const WAKE_RATE = 0.3;

/** Share of the handlers that take longer than a lease. */
const LONG_RATE = 0.05;

/** Parts that a handler notes beside each other. */
const PARTS = ["a", "b", "c"] as const;

/** Interventions from outside. Those listed several times are made more often. */
const INTERVENTIONS = ["cancel", "cancel", "cancel", "replay", "replay", "purge"] as const;

/** Time without an event of a key after which those that wait are handled together, in milliseconds. */
const QUIET_MS = 40;

/** Text that makes a delivery too large for one commit. */
const PADDING = "a".repeat(800_000);

/** Share of the commits that are made twice, if some are. */
const REPEATED = 0.1;

/** The state that is counted up from outside. */
const OUTSIDE = ["total", { intake: "outside" }] as const;

/** Options of a {@linkcode World}. */
export interface WorldOptions {
  readonly seed: number;
  /** Share of the database's calls that go wrong, from 0 to 1. */
  readonly faultRate: number;
  /** Share of the deliveries that take several commits to store, from 0 to 1. */
  readonly largeRate: number;
  /** Longest time that most handlers take, in milliseconds. */
  readonly handlerMs: number;
  /** Share of the handlers that throw, from 0 to 1. */
  readonly failureRate: number;
  /** Share of the handlers that put their events off, from 0 to 1. */
  readonly putOffRate: number;
  /** Set if the events of a key are handled together. */
  readonly isQuiet?: boolean | undefined;
  /** The number of events of a key that are handled at a time; 1 if undefined. */
  readonly places?: number | undefined;
  /** Set if the events of a group that handlers emit are handled together. */
  readonly isEmittingQuiet?: boolean | undefined;
  /** Share of the handlers that emit further events, from 0 to 1. */
  readonly emitRate: number;
  /** Set if payloads of done events are kept, a few at a time. */
  readonly isKeeping?: boolean;
  /** Share of the events whose handlers wait for an answer, from 0 to 1; none if undefined. */
  readonly waitRate?: number;
  /** Set if some commits are made twice. */
  readonly isRepeating?: boolean;
  /** Set if handlers count their events in a state of their key. */
  readonly isCounting?: boolean;
  /** Share of the handlings that note parts, from 0 to 1; none if undefined. */
  readonly partRate?: number;
  /** Rule for newer events of a key that come while its handler runs. Only if the events of a key are handled together. */
  readonly newer?: "interrupt" | "steer" | undefined;
  /** Set if the handler has a limit: of the events that a worker takes at once, all but one wait. */
  readonly isLimited?: boolean;
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
  /** Cuts the process off from the database. */
  cut(): void;
}

/** Counts events in the state of their key. */
async function count(
  state: HandlerContext["state"],
  events: number,
  key = "free",
): Promise<void> {
  const count = await state<number>(`${COUNTING}${key}`);
  count.set((count.value ?? 0) + events);
}

/** A place of a store in a simulation, those who use it, and the history of what they do. */
export class World implements AsyncDisposable {
  readonly simulation: Simulation;
  readonly place: SimulatedPlace;
  readonly history: History;
  /** Names that handlers have waited for so far. */
  readonly #asked: string[] = [];
  /** Events that were sent so far. */
  readonly #sent: Sent[] = [];
  readonly #options: WorldOptions;
  #deliveries = 0;
  #total = 0;
  /** Number of newer events that handlers have taken, and of the times that others were interrupted. */
  heard = 0;

  private constructor(simulation: Simulation, place: SimulatedPlace, options: WorldOptions) {
    this.simulation = simulation;
    this.place = place;
    this.#options = options;
    const { isKeeping = false, places } = options;
    this.history = {
      handlings: [],
      joins: [],
      cancels: [],
      purges: [],
      wakes: [],
      results: [],
      isKeeping,
      places,
    };
  }

  /** Makes a world without events. */
  static async open(engine: EngineUnderTest, options: WorldOptions): Promise<World> {
    const simulation = new Simulation(options.seed);
    return new World(simulation, await engine.openSimulated(simulation), options);
  }

  /** Gives back what belongs to the simulation. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.simulation[Symbol.dispose]();
    await this.place[Symbol.asyncDispose]();
  }

  /** Opens the store as a process of its own does. */
  async process(faultRate = this.#options.faultRate): Promise<SimulatedProcess> {
    const { isRepeating, isKeeping } = this.#options;
    return await this.place.process({
      faultRate,
      repeatRate: isRepeating ? REPEATED : 0,
      keepPayloads: isKeeping ? { forMs: 2_000, maxBytes: 200 } : undefined,
    });
  }

  /** Starts a worker in a process of its own, which can also take events in. */
  async worker(faultRate?: number): Promise<Working> {
    const { store, cut } = await this.process(faultRate);
    const handler = this.#options.isLimited
      ? createEventRouter().onAny(this.#handle, { concurrency: 1 }).handle
      : this.#handle;
    const worker = startWorker(store, handler, {
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

  /** Checks the store, as the tool does. */
  async check(store: EventStore): Promise<void> {
    await repairGroups(store);
    for await (const _ of store.check());
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
    if (kind === "purge" && (await store.purge(this.#only(id))).changed > 0) purges.push(span());
  }

  /** Counts a state up, as somebody does who is told truly whether that was made. */
  async countUp(store: EventStore): Promise<void> {
    for (let isMade = false; !isMade;) {
      const state = await store.state<number>(...OUTSIDE);
      isMade = await state.set((state.value ?? 0) + 1);
    }
    this.#total++;
  }

  /** Checks that each call of `countUp()` has added one. */
  async assertCounted(): Promise<void> {
    const store = await this.place.open();
    assertEquals((await store.state<number>(...OUTSIDE)).value ?? 0, this.#total);
  }

  /** Counts how often the events of a store were interrupted. */
  async countHeard(store: EventStore): Promise<void> {
    for await (const event of store.list()) {
      if (event.state !== "unreadable") this.heard += event.interrupted?.times ?? 0;
    }
  }

  /** The filter for one event. Those that are handled together are of one type. */
  #only(id: string): EventFilter {
    return this.#options.isQuiet ? { ids: [id] } : { type: id };
  }

  /** Wakes one of the names that handlers have waited for not long ago. */
  async answer(store: EventStore): Promise<void> {
    const name = this.#recentName();
    if (name === undefined) return;
    const value = this.#nextValue(name);
    const { outcome, eventId } = await store.wake(name, value);
    if (outcome !== "woken") return;
    this.history.wakes.push({ name, value, eventId, at: this.simulation.step });
  }

  #recentName(): string | undefined {
    const recent = this.#asked.slice(-6);
    return recent.length === 0 ? undefined : this.simulation.oneOf(recent);
  }

  /** Makes a value for a name, and notes that it may be woken with it. */
  #nextValue(name: string): number {
    const { wakes } = this.history;
    const value = wakes.length;
    wakes.push({ name, value, eventId: undefined, at: this.simulation.step });
    return value;
  }

  /** Waits for the answer to an event. What it gets is noted. */
  async #wait(id: string, name: string, timeoutMs: number, { waitFor }: HandlerContext) {
    if (!this.#asked.includes(name)) this.#asked.push(name);
    const { value, timedOut } = await waitFor<number>(name, { timeoutMs });
    this.history.results.push({ id, name, value: timedOut ? undefined : value });
  }

  /** Handles an event for a while, until aborted, and leaves an effect beside the store. */
  readonly #handle: EventHandler = async (event, context) => {
    const { signal, settleWith } = context;
    signal.throwIfAborted();
    const { simulation, history: { handlings }, place: { effects } } = this;
    const { id, platform, batch, payload: { key, delivery, waitMs } } = event;
    const handling = { id, key: key as string | undefined, from: simulation.step, to: Infinity };
    const number = handlings.push(handling);
    const failed = (error: unknown) => {
      handling.to = simulation.step;
      throw error;
    };
    if (this.#notesParts(platform)) {
      await this.#noteParts(number, context).then(() => signal.throwIfAborted()).catch(failed);
    }
    if (platform === "events") {
      for (const { payload: { child } } of batch) settleWith(effects.add(`children/${child}`, 1));
    } else {
      const children = this.#emitAny(number, context);
      this.#leave(number, context, batch, children);
    }
    const { handlerMs, failureRate, putOffRate, waitRate = 0, isCounting } = this.#options;
    const { newer } = this.#options;
    if (typeof waitMs === "number") {
      await this.#wait(id, `${id}:${delivery}`, waitMs, context)
        .then(() => signal.throwIfAborted()).catch(failed);
    }
    if (waitRate > 0 && simulation.random() < WAKE_RATE) {
      const name = this.#recentName();
      if (name !== undefined) context.wake(name, this.#nextValue(name));
    }
    const isLong = simulation.random() < LONG_RATE;
    const ms = isLong ? LEASE_MS * 2 : simulation.random() * handlerMs;
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await Promise.race([later(ms), aborted]);
    // Some handlers return in spite of it.
    if (signal.reason instanceof NewerEventError && simulation.random() < 0.7) {
      failed(signal.reason);
    }
    const taken = newer === "steer" && platform !== "events" && batch[0]!.payload.key !== undefined
      ? await this.#takeNewer(number, batch.length, context).catch(failed)
      : 0;
    const counted = isCounting && platform !== "events"
      ? count(context.state, batch.length + taken, handling.key).then(
        () => undefined,
        (error) => error,
      )
      : undefined;
    const failure = await Promise.race([
      counted,
      counted && aborted.then(() => new Error("Aborted")),
    ]);
    handling.to = simulation.step;
    if (failure) throw failure;
    if (simulation.random() < failureRate) throw new Error("The handler fails");
    // Without a number drawn where there is nothing to decide: older histories come about as they did.
    if (putOffRate === 0 || simulation.random() >= putOffRate) return;
    throw new RetryLaterError("Later", { afterMs: simulation.random() * MAX_PUT_OFF_MS });
  };

  /** Leaves an effect beside the store for each of some events of a batch. */
  #leave(
    handling: number,
    { settleWith }: HandlerContext,
    events: readonly WebhookEvent[],
    children: readonly string[],
    from = 0,
  ): void {
    for (const [at, { id, payload }] of events.entries()) {
      const i = from + at;
      const { key, delivery } = payload as unknown as Effect;
      const more = i > 0 ? { isMember: true } : children.length > 0 ? { children } : {};
      const effect: Effect = { id, key, delivery, ...more };
      settleWith(this.place.effects.set(`effects/${handling}/${i}`, JSON.stringify(effect)));
    }
  }

  /** Takes newer events, perhaps several times, each with an effect. Returns their number. */
  async #takeNewer(handling: number, from: number, context: HandlerContext): Promise<number> {
    const { signal } = context;
    // Another process may have the event once it is aborted, so it does not wait for an answer then.
    const aborting = new Promise<never>((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    aborting.catch(() => {});
    let count = 0;
    while (this.simulation.random() < 0.6) {
      signal.throwIfAborted();
      const newer = await Promise.race([context.takeNewer(), aborting]);
      this.#leave(handling, context, newer, [], from + count);
      count += newer.length;
      this.heard += newer.length;
      await Promise.race([later(this.simulation.random() * 20), aborting]);
    }
    return count;
  }

  /** Decides whether a handler notes parts: not that of an event which was emitted. */
  #notesParts(platform: string): boolean {
    const { partRate = 0 } = this.#options;
    return partRate > 0 && platform !== "events" && this.simulation.random() < partRate;
  }

  /** Takes steps beside each other, each with an event of its own. */
  async #noteParts(handling: number, { step }: HandlerContext) {
    const { simulation: { random } } = this;
    await Promise.all(PARTS.map(async (part) => {
      await step(part, async ({ emit, settleWith }) => {
        await later(random() * 20);
        const child = `${handling}/${part}`;
        emit("jobs", "item", { child });
        const noted = JSON.stringify({ children: [child] } satisfies Part);
        settleWith(this.place.effects.set(`parts/${handling}/${part}`, noted));
      });
    }));
  }

  /** Emits events or none: with generated ids and own ones, at once and later, in groups and without. */
  #emitAny(handling: number, { emit }: HandlerContext): string[] {
    const { simulation: { random } } = this;
    const { emitRate, isEmittingQuiet = false, places } = this.#options;
    if (emitRate === 0 || random() >= emitRate) return [];
    return Array.from({ length: 1 + Math.floor(random() * 3) }, (_, i) => {
      const child = `${handling}/${i}`;
      const group = random() < 0.5 ? `g${Math.floor(random() * 2)}` : undefined;
      const key = group && `jobs:${group}`;
      emit("jobs", "item", { child, key }, {
        group,
        ...(group && { places }),
        ...(isEmittingQuiet && group && { quietMs: QUIET_MS, maxWaitMs: 4 * QUIET_MS }),
        delayMs: random() < 0.5 ? random() * 500 : 0,
        ...(random() < 0.5 && { id: child }),
      });
      return child;
    });
  }

  /** A delivery, of the event's own type, so that it can be purged alone. */
  #deliveryOf({ id, key }: Sent, number: number): Delivery {
    const padding = this.simulation.random() < this.#options.largeRate ? PADDING : "";
    const { waitRate = 0, isQuiet: isWorldQuiet, isKeeping } = this.#options;
    const isQuiet = isWorldQuiet && key !== undefined;
    // A batch does not wait, and a done event that is replayed waits for its name again.
    const waits = waitRate > 0 && !isQuiet && !isKeeping && this.simulation.random() < waitRate;
    const waitMs = waits ? 1 + Math.floor(this.simulation.random() * MAX_WAIT_MS) : undefined;
    const text = JSON.stringify({ key, delivery: number, padding, waitMs });
    const type = isQuiet ? { quietMs: QUIET_MS, maxWaitMs: 4 * QUIET_MS } : { type: id };
    const newer = isQuiet && this.#options.newer ? this.#ruleOf(this.#options.newer) : {};
    const { places } = this.#options;
    return { ...delivery(id, text, key), places, ...type, ...newer, payload: JSON.parse(text) };
  }

  /** A rule for newer events, with or without a time of quiet. */
  #ruleOf(newer: "interrupt" | "steer"): Partial<Delivery> {
    const { random } = this.simulation;
    const quiet = random() < 0.5 ? { quietMs: 0, maxWaitMs: 0 } : {};
    if (newer === "steer") return { newer, ...quiet };
    const steps = random() < 0.5 ? "keep" : "drop";
    return { newer, interrupt: { steps }, maxInterrupts: 1 + Math.floor(random() * 9), ...quiet };
  }
}
