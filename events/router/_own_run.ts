import { type Emission, Emissions } from "../store/emission.ts";
import type { CommitEffects, NoteOptions, StateOptions, WaitOptions, Wake } from "../store/mod.ts";
import { wakeOf, withWake, withWakesBack } from "../store/waits.ts";
import {
  type Adder,
  type EmitCall,
  EMITTING,
  type Emitting,
  type EmittingContext,
  type EventHandler,
  type HandlerContext,
  type LimitedContext,
  ParkedError,
  TIME_LIMIT,
  type WaitingContext,
  WAITS,
  type WebhookEvent,
} from "../worker/event.ts";
import { type HandlerStates, type StatefulContext, STATES } from "../worker/state.ts";

/** The signal of a handler, its time limit for a router of its own, and what to call once it has ended. */
export interface Limited {
  readonly signal: AbortSignal;
  readonly limit?: LimitedContext[typeof TIME_LIMIT];
  end(): void;
}

type OwnContext = LimitedContext & EmittingContext & WaitingContext & StatefulContext;

/**
 * The run of one of several handlers of an event, with a context of its own. Whatever it adds to a commit
 * belongs to that handler: it is committed when the handler is noted as done, and dropped if it fails.
 */
export class OwnRun implements Emitting, Adder {
  readonly #key: string;
  readonly #outer: OwnContext;
  readonly #limited: Limited;
  readonly #effects: CommitEffects[] = [];
  #emissions: Emissions | undefined;
  #wakes: Wake[] | undefined;
  #states: HandlerStates | undefined;
  /** Its calls that wait, awaited or not. */
  #waiting: Promise<unknown>[] | undefined;
  /** Set once the event has to wait for it. */
  #parked: ParkedError | undefined;
  /** Its checkpoints so far, awaited or not. */
  #noting: Promise<unknown> | undefined;
  #hasEnded = false;

  /**
   * Creates a run.
   *
   * @param key The key that the handler's progress is noted by.
   * @param outer The context of the event.
   * @param limited The handler's signal and time limit.
   */
  constructor(key: string, outer: OwnContext, limited: Limited) {
    this.#key = key;
    this.#outer = outer;
    this.#limited = limited;
  }

  /** Calls the handler. */
  async run(handler: EventHandler, event: WebhookEvent): Promise<void> {
    try {
      await handler(event, this.#context());
    } catch (error) {
      await this.#throwIfParked();
      throw error;
    } finally {
      this.#hasEnded = true;
      this.#states?.end();
      // Those that nobody has awaited: what they could not store is stored with the handler.
      if (this.#noting) await this.#noting;
    }
    await this.#throwIfParked();
    await this.resolved(this);
  }

  /** Notes that the handler has succeeded, with what it has added, in a commit of its own. */
  async note(): Promise<void> {
    const added: NoteOptions = { emits: this.#emissions?.all, wakes: this.#wakes };
    const emitting = this.#outer[EMITTING];
    const changes = this.#states?.effects;
    const effects = changes ? [...this.#effects, changes] : this.#effects;
    // Effects, even empty ones, have an event settled in a commit of its own.
    const all = effects.length > 0 ? addAll(effects) : undefined;
    try {
      if (emitting) await emitting.noteWith(this.#key, all, added, this);
      else await this.#outer.checkpoint(this.#key, all);
    } catch (error) {
      throw changes ? await this.#states!.conflictOr(error).catch(() => error) : error;
    }
  }

  /** Hands what the handler has added over to the settlement of the event. */
  handOver(): void {
    this.#states?.handOver();
    if (this.#effects.length > 0) this.#outer.settleWith(addAll(this.#effects));
    if (this.#emissions) this.#outer[EMITTING]!.emitWith(this.#emissions.all);
    for (const { name, value } of this.#wakes ?? []) {
      this.#outer.wake(name, value === undefined ? undefined : JSON.parse(value));
    }
  }

  emission(...call: EmitCall): Emission {
    return this.#outer[EMITTING]!.emission(...call);
  }

  emitWith(emits: readonly Emission[]): void {
    this.#checkRunning("emit the event");
    const emissions = this.#emissions ?? new Emissions();
    for (const emission of emits) emissions.add(emission);
    this.#emissions = emissions;
  }

  async noteWith(...[part, ...rest]: Parameters<Emitting["noteWith"]>): Promise<void> {
    this.#checkRunning("note progress");
    await this.#outer[EMITTING]!.noteWith(this.#prefix + part, ...rest);
  }

  resolved(adder: Adder): Promise<void> | undefined {
    return this.#outer[EMITTING]?.resolved(adder);
  }

  putBack({ emits, wakes }: NoteOptions): void {
    if (emits) (this.#emissions ??= new Emissions()).putBack(emits);
    this.#wakes = withWakesBack(wakes, this.#wakes);
  }

  get #prefix(): string {
    return `${this.#key}/`;
  }

  get #ownStates(): HandlerStates {
    this.#states ??= this.#outer[STATES]!();
    if (this.#hasEnded) this.#states.end();
    return this.#states;
  }

  #context(): HandlerContext {
    const [outer, prefix] = [this.#outer, this.#prefix];
    const { signal, limit } = this.#limited;
    const context: OwnContext = {
      ...outer,
      [EMITTING]: outer[EMITTING] && this,
      [TIME_LIMIT]: limit,
      [WAITS]: outer[WAITS] && { dropWait: this.#dropWait },
      signal,
      log: outer.log,
      kv: outer.kv,
      settleWith: (effects) => {
        this.#checkRunning("settle with effects");
        this.#effects.push(effects);
      },
      emit: (...call: EmitCall) => {
        // A context from elsewhere, such as a test's own.
        if (outer[EMITTING]) this.emitWith([this.emission(...call)]);
        else (outer.emit as (...call: EmitCall) => void)(...call);
      },
      progress: outer.progress.filter((part) => part.startsWith(prefix))
        .map((part) => part.slice(prefix.length)),
      checkpoint: async (part, effects) => {
        this.#checkRunning("note progress");
        checkPart(part);
        if (!outer[EMITTING]) return await outer.checkpoint(prefix + part, effects);
        const noting = this.#checkpoint(outer[EMITTING], prefix + part, effects);
        this.#noting = Promise.allSettled([this.#noting, noting]);
        await noting;
      },
      waitFor: (name, options) => this.#waitFor(name, options),
      wake: (name, value) => {
        this.#checkRunning("wake an event");
        this.#wakes = withWake(this.#wakes, wakeOf(name, value));
      },
      ...(outer[STATES] && {
        state: <TValue>(key: string, options?: StateOptions) =>
          this.#ownStates.open<TValue>(key, options),
        [STATES]: () => this.#ownStates.child(),
      }),
    };
    return context;
  }

  /** Notes a part, with what was emitted and woken before: a later attempt skips the part. */
  async #checkpoint(
    emitting: Emitting,
    part: string,
    effects: CommitEffects | undefined,
  ): Promise<void> {
    const added = { emits: this.#emissions?.all, wakes: this.#wakes };
    [this.#emissions, this.#wakes] = [undefined, undefined];
    await emitting.noteWith(part, effects, added, this);
  }

  #waitFor<TValue>(name: string, options: WaitOptions | undefined) {
    const waiting = (async () => {
      this.#checkRunning("wait");
      return await this.#outer.waitFor<TValue>(name, options);
    })();
    (this.#waiting ??= []).push(waiting.catch((error) => {
      if (error instanceof ParkedError) this.#parked = error;
    }));
    return waiting;
  }

  readonly #dropWait = (): void => {
    this.#parked = undefined;
    this.#outer[WAITS]!.dropWait();
  };

  /** Throws if the event has to wait for the handler, whatever that has made of the error that says so. */
  async #throwIfParked(): Promise<void> {
    if (!this.#waiting) return;
    await Promise.all(this.#waiting);
    if (this.#parked) throw this.#parked;
  }

  #checkRunning(doing: string): void {
    if (this.#hasEnded) throw new TypeError(`Cannot ${doing}: the handler has ended`);
  }
}

/** Checks the name of a part, before it gets the prefix: `progress` would have it as a text. */
function checkPart(part: unknown): void {
  if (typeof part === "string") return;
  throw new TypeError(`Cannot note progress: a part's name must be a text, got ${typeof part}`);
}

/** Joins effects. A promise that one returns is a mistake: it is passed on, and refused there. */
function addAll(effects: readonly CommitEffects[]): CommitEffects {
  return (commit) => {
    for (const add of effects) {
      const result = add(commit);
      // Nobody would catch the error of a second promise.
      if (result instanceof Promise) return result;
    }
    return undefined;
  };
}
