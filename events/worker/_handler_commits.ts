import { withDeadline } from "../../core/timeouts.ts";
import { type Emission, emissionOf, Emissions } from "../store/emission.ts";
import type {
  CommitEffects,
  EmitOptions,
  EventStore,
  NoteOptions,
  OwnEvents,
  Wait,
  Wake,
} from "../store/mod.ts";
import type { HeldLease } from "./_held_lease.ts";
import { JobWaits } from "./_job_waits.ts";
import { NotedParts } from "./_noted_parts.ts";
import {
  type Adder,
  EMITTING,
  type Emitting,
  type EmittingContext,
  type HandlerContext,
  type HandlerStore,
  type LimitedContext,
  TIME_LIMIT,
  type WaitingContext,
  WAITS,
} from "./event.ts";
import { HandlerStates, type ReadState, type StatefulContext, STATES } from "./state.ts";

/** Turns of the microtasks after which a function has gone on that awaited a call. */
const TURNS = 20;

/** Part of a handler's context that does not commit anything. */
type OtherContext = Pick<LimitedContext, "signal" | "log" | "kv" | typeof TIME_LIMIT>;

/**
 * All that the handlers of an event have committed: with its settlement (effects, events, names that are
 * woken, states, or a wait that parks it), or before, with a part that they note as done. Nothing is added
 * once they have ended.
 */
export class HandlerCommits implements Emitting, Adder {
  readonly #store: EventStore;
  readonly #leaseMs: number;
  readonly #lease: HeldLease;
  readonly #events: HandlerStore;
  #effects: CommitEffects[] | undefined;
  #emissions: Emissions | undefined;
  #waits: JobWaits | undefined;
  #states: HandlerStates | undefined;
  #parts: NotedParts | undefined;
  /** The checkpoints so far, awaited or not. */
  #noting: Promise<unknown> | undefined;
  #hasEnded = false;

  /**
   * Creates it for one run.
   *
   * @param parts The store, the part of it that handlers read, and the length of its leases.
   * @param lease The lease of the event.
   */
  constructor(
    { store, events, leaseMs }: {
      readonly store: EventStore;
      readonly events: HandlerStore;
      readonly leaseMs: number;
    },
    lease: HeldLease,
  ) {
    this.#store = store;
    this.#events = events;
    this.#leaseMs = leaseMs;
    this.#lease = lease;
  }

  /** Makes the context of the handler, which adds to it. */
  contextWith(
    { signal, log, kv, [TIME_LIMIT]: limit }: OtherContext,
  ): LimitedContext & EmittingContext & WaitingContext & StatefulContext {
    const { progress = [] } = this.#lease.record;
    // Not by spreading: this is done for each event.
    return {
      signal,
      log,
      kv,
      settleWith: this.#settleWith,
      progress,
      checkpoint: this.#checkpoint,
      emit: this.#emit,
      [EMITTING]: this,
      waitFor: this.#waitFor,
      wake: this.#wake,
      [WAITS]: this,
      state: this.#state,
      [STATES]: this.#newStates,
      store: this.#events,
      cancel: this.#cancel,
      [TIME_LIMIT]: limit,
    };
  }

  /** Ends adding. */
  end(): void {
    this.#hasEnded = true;
    this.#states?.end();
  }

  /** Resolves once each `waitFor` and `checkpoint` has ended, awaited or not; undefined if there was none. */
  callsEnded(): Promise<void> | undefined {
    return this.#noting || this.#waits ? this.#callsEnded() : undefined;
  }

  async #callsEnded(): Promise<void> {
    let noting: Promise<unknown> | undefined;
    do {
      noting = this.#noting;
      await Promise.all([noting, this.#waits?.ended()]);
      // What has waited for a call that has ended may begin another one.
      for (let turn = 0; turn < TURNS; turn++) await undefined;
    } while (noting !== this.#noting);
  }

  /** True if a handler has asked for anything beside states. */
  get hasAny(): boolean {
    return this.#effects !== undefined || this.#emissions !== undefined ||
      this.#waits !== undefined;
  }

  /** The mutations for the commit of the settlement; undefined for none. */
  get effects(): CommitEffects | undefined {
    const states = this.#states?.effects;
    if (states) return committing([...this.#effects ?? [], states]);
    return this.#effects && committing(this.#effects);
  }

  /** The events that the settlement stores; undefined for none. */
  get emits(): readonly Emission[] | undefined {
    return this.#emissions?.all;
  }

  /** The names that the settlement wakes; undefined for none. */
  get wakes(): readonly Wake[] | undefined {
    return this.#waits?.wakes;
  }

  /** The wait that the event is to be parked for; undefined for none. */
  get wait(): Wait | undefined {
    return this.#waits?.wait;
  }

  /** Forgets the wait: another handler of the event has failed, or another event waits for the name. */
  dropWait(): void {
    this.#waits?.drop();
  }

  /** Finds the reason for which the settlement could not be committed: a state that was changed, or the error. */
  async reasonOf(error: unknown): Promise<unknown> {
    return await this.#states?.conflictOr(error).catch(() => error) ?? error;
  }

  /** Makes an event that a handler emits. */
  readonly emission = emissionOf;

  /** Has events stored in the commit that settles the event as done. */
  emitWith(emits: readonly Emission[]): void {
    if (this.#hasEnded) throw new TypeError("Cannot emit the event: the handler has ended");
    const emissions = this.#emissions ?? new Emissions();
    for (const emission of emits) emissions.add(emission);
    this.#emissions = emissions;
  }

  /** Notes a part as done, with effects, events and names that are woken in the same commit. */
  async noteWith(
    name: string,
    effects: CommitEffects | undefined,
    added: NoteOptions,
    adder: Adder,
  ): Promise<void> {
    if (this.#hasEnded) throw new TypeError("Cannot note progress: the handler has ended");
    const parts = { store: this.#store, leaseMs: this.#leaseMs };
    this.#parts ??= new NotedParts(parts, this.#lease);
    const all = effects && committing([effects]);
    await this.#parts.note({ name, effects: all, added, adder });
  }

  /** Finds out whether a part was noted whose commit was not answered; undefined if there is none. */
  resolved(adder: Adder = this): Promise<void> | undefined {
    return this.#parts?.resolved(adder);
  }

  readonly #settleWith: HandlerContext["settleWith"] = (effects) => {
    if (this.#hasEnded) {
      throw new TypeError("Cannot settle with effects: the handler has ended");
    }
    (this.#effects ??= []).push(effects);
  };

  readonly #emit = (
    source: OwnEvents<object> | string,
    type: string,
    payload: object,
    options?: EmitOptions,
  ): void => {
    this.emitWith([this.emission(source, type, payload, options)]);
  };

  readonly #waitFor: HandlerContext["waitFor"] = (name, options) => {
    try {
      return this.#ownWaits("wait").waitFor(name, options);
    } catch (error) {
      return Promise.reject(error);
    }
  };

  readonly #wake: HandlerContext["wake"] = (name, value) => {
    this.#ownWaits("wake an event").wake(name, value);
  };

  /** Notes a part, with what was emitted and woken before: a later attempt skips the part. */
  readonly #checkpoint: HandlerContext["checkpoint"] = async (part, effects) => {
    const noting = this.#notePart(part, effects);
    this.#noting = Promise.allSettled([this.#noting, noting]);
    await noting;
  };

  async #notePart(part: string, effects: CommitEffects | undefined): Promise<void> {
    const added = { emits: this.#emissions?.all, wakes: this.#waits?.takeWakes() };
    this.#emissions = undefined;
    await this.noteWith(part, effects, added, this);
  }

  /** Takes back what a part was to be noted with. */
  putBack({ emits, wakes }: NoteOptions): void {
    if (emits) (this.#emissions ??= new Emissions()).putBack(emits);
    this.#waits?.putBack(wakes);
  }

  readonly #state: HandlerContext["state"] = (key, options) => this.#ownStates.open(key, options);

  readonly #cancel: HandlerContext["cancel"] = (id) =>
    withDeadline(this.#store.cancel(id), this.#leaseMs);

  readonly #newStates = (): HandlerStates => this.#ownStates.child();

  #ownWaits(doing: string): JobWaits {
    if (this.#hasEnded) throw new TypeError(`Cannot ${doing}: the handler has ended`);
    const parts = { store: this.#store, leaseMs: this.#leaseMs };
    return this.#waits ??= new JobWaits(parts, this.#lease);
  }

  get #ownStates(): HandlerStates {
    if (this.#states) return this.#states;
    const { intake } = this.#lease.record;
    const read: ReadState = (key, options) =>
      withDeadline(this.#store.state(key, options), this.#leaseMs);
    this.#states = new HandlerStates(read, intake);
    if (this.#hasEnded) this.#states.end();
    return this.#states;
  }
}

/** Joins effects. Asynchronous ones are refused: what they add later would be lost. */
function committing(effects: readonly CommitEffects[]): CommitEffects {
  return (commit) => {
    for (const each of effects) {
      const result: unknown = each(commit);
      if (!(result instanceof Promise)) continue;
      result.catch(() => {});
      throw new TypeError("Effects must be added synchronously");
    }
  };
}
