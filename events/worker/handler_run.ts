import { AsyncLocalStorage } from "node:async_hooks";
import { isPromise, met } from "../../core/check_options.ts";
import { withDeadline } from "../../core/timeouts.ts";
import { type Emission, emissionOf, Emissions, platformRefused } from "../store/emission.ts";
import { type CellChange, NoTurnError, type SettlementRoom } from "../store/engine.ts";
import type {
  CommitEffects,
  EmitOptions,
  EventRecord,
  EventStore,
  HandledPart,
  OwnEvents,
  WaitOptions,
} from "../store/mod.ts";
import { StateConflictError } from "../store/mod.ts";
import { MAX_PUT_OFF_MS } from "../store/settlement.ts";
import {
  type Answered,
  type AnswerResult,
  checkNoQuestion,
  givenWakeOf,
  questionCell,
  waitNameOf,
} from "../store/questions.ts";
import {
  DEFAULT_TIMEOUT_MS,
  ownName,
  type Wait,
  waitOf,
  type Wake,
  withWake,
} from "../store/waits.ts";
import type { TokenRule } from "../store/token_bucket.ts";
import type { SharedBucket } from "../store/tokens.ts";
import type { HeldLease } from "./_held_lease.ts";
import type { Places } from "./concurrency_limit.ts";
import { LeasedProgress } from "./_leased_progress.ts";
import { loadMembers } from "./_members.ts";
import { neverRoom, takeIfRoom, TakenTokens, waitForTokens } from "./_tokens.ts";
import { canBeKept, takeStep } from "./_steps.ts";
import {
  type EventHandler,
  type HandlerContext,
  ParkedError,
  RetryLaterError,
  type WaitResult,
  type WebhookEvent,
} from "./event.ts";
import { PLAN } from "./handler_plans.ts";
import { type Answer, type AskOptions, checkQuestion } from "./questions.ts";
import type { RateRoom } from "./rate_limit.ts";
import type { RetryPolicy } from "./retry_policy.ts";
import { checkSleep, checkStep, NotDoneError, type StepContext, type StepOptions } from "./step.ts";
import { checkLater, checkTake, type LaterOptions, type Take, type TakeOptions } from "./take.ts";
import { HandlerStates } from "./state.ts";
import type { TimeLimit } from "./time_limit.ts";

/** Pause before a step is noted again that the store gave no turn, in milliseconds. */
const NOTE_PAUSE_MS = 200;

/** Turns of the microtasks after which a function has gone on that awaited a call. */
const TURNS = 20;

/** Key of the run in a handler's context. It stays when an app or a user copies the context. */
const RUN = Symbol("run");

/** The run of the step that the code at hand belongs to. */
const STEP = new AsyncLocalStorage<HandlerRun>();

/** Parts of a worker that runs use. */
interface RunParts {
  readonly store: EventStore;
  readonly leaseMs: number;
  readonly handlersOf: (event: EventRecord) => readonly unknown[];
}

/** Members of a context that are the same for all handlers of an event. */
type SharedContext = Pick<HandlerContext, "log" | "db" | "store">;

/** Signal, limits and policy of a run. */
export interface RunLimits {
  readonly signal: AbortSignal;
  /** The time limit of the attempt, which a router may change; undefined for a run beside others. */
  readonly limit: TimeLimit | undefined;
  /** The time limit of the run, in milliseconds. */
  readonly limitMs: number;
  /** The policy by which handlers within the run are tried again that have none. */
  readonly retry: RetryPolicy;
  /** The places of the event under the limits of its handlers; undefined if there are no limits. */
  readonly places: Places | undefined;
  /** The rooms under limits of rates with which the event has begun; undefined for none, and for runs within another. */
  readonly rooms?: readonly RateRoom[] | undefined;
}

/**
 * The run of a handler: of the one that handles an event, or of one of several that a router calls side by side. It
 * makes the handler's context, and collects what the handler adds: effects, events, names to wake and states. These
 * are committed when the router notes the handler as done, or with the settlement of the event. If the handler fails,
 * they are dropped. A step has a run of its own: what is added there is committed with the step.
 *
 * A router's run belongs to the run that has called the router. Its parts are named after both. The handler that ends
 * last is not noted: it hands over what it has added, which saves a commit.
 */
export class HandlerRun {
  readonly #parts: RunParts;
  readonly #lease: HeldLease;
  /** Its signal and time limit. */
  readonly limits: RunLimits;
  /** The policies of the handlers within it that have failed, set by a router; undefined before that. */
  retries: readonly RetryPolicy[] | undefined;
  readonly #around: HandlerRun | undefined;
  readonly #key: string;
  #shared: LeasedProgress | undefined;
  #refused: ReadonlySet<string> | undefined;
  #effects: CommitEffects[] | undefined;
  #emissions: Emissions | undefined;
  #wakes: Wake[] | undefined;
  #states: HandlerStates | undefined;
  /** Set once the event has to wait for this run, whatever the handler makes of the error. */
  #parked: ParkedError | undefined;
  /** Names of the steps so far. */
  #steps: Set<string> | undefined;
  /** The waits and steps so far, its own and of runs within it, awaited or not. */
  #calls: Promise<unknown> | undefined;
  #hasEnded = false;
  #isPartlyDone = false;
  /** Set if it is the run of one of several handlers, whether these are done or not. */
  isAmongOthers = false;
  #taken: readonly EventRecord[] | undefined;
  /** The tokens of limits that it has taken, outside of its steps; undefined for none. */
  #tokens: TakenTokens | undefined;
  /** Set if newer events were taken that the handler could not be given. */
  #untold: { readonly error: unknown } | undefined;

  /**
   * Creates a run.
   *
   * @param parts The store, and the length of its leases.
   * @param lease The lease of the event.
   * @param limits Its signal and time limit.
   * @param key The name that a router notes its handler by; empty for the handler of the event.
   * @param around The run that has called the router.
   */
  constructor(
    parts: RunParts,
    lease: HeldLease,
    limits: RunLimits,
    key: string = "",
    around?: HandlerRun,
  ) {
    this.#parts = parts;
    this.#lease = lease;
    this.limits = limits;
    this.#key = key;
    this.#around = around;
  }

  /** Creates the run of a handler that a router within this one calls. */
  partOf(key: string, limits: RunLimits): HandlerRun {
    return new HandlerRun(this.#parts, this.#lease, limits, key, this);
  }

  /** True once one of several handlers that run side by side has ended, here or in a run within this one. */
  get isPartlyDone(): boolean {
    return this.#isPartlyDone;
  }

  /** The newer events that the handler has taken. */
  get taken(): readonly EventRecord[] {
    return this.#root.#taken ?? [];
  }

  /** The names of those of its handlers that have failed, if a router has called them; undefined before that. */
  failedIn: string | undefined;

  /** Notes that one of several handlers has ended. */
  notePartEnded(): void {
    for (const run of this.#withAround()) run.#isPartlyDone = true;
  }

  /**
   * Calls a handler with its context, see {@linkcode HandlerRun.run}.
   *
   * @param handler The handler.
   * @param event The event.
   * @param around The context that it adds to: what all handlers of the event share, or the context of a router.
   */
  handle(handler: EventHandler, event: WebhookEvent, around: SharedContext): Promise<void> {
    const context = PLAN in handler ? this.#routersContext(around) : this.#contextIn(around);
    return this.run(() => handler(event, context));
  }

  #contextIn(around: SharedContext): HandlerContext {
    const context: HandlerContext & { readonly [RUN]: HandlerRun } = {
      ...around,
      ...this.stepContext(),
      [RUN]: this,
      // Not the same promise: an error that nobody awaits is one that nothing catches.
      step: async (name, fn, options) => await this.#tracked(this.#step(name, fn, options)),
      waitFor: (name, options) => this.#tracked(this.#waitForName(name, options)),
      ask: async (name, send, options) => await this.#tracked(this.#ask(name, send, options)),
      answer: async (name, value) => await this.#tracked(this.#answer(name, value)),
      sleep: async (name, ms) => void await this.#tracked(this.#sleep(name, ms)),
      cancel: around.store.cancel,
      takeNewer: async () => await this.#tracked(this.#takeNewer()),
    };
    return context;
  }

  /** Makes the context of a router, which only adds to it for its handlers. */
  #routersContext(around: SharedContext): HandlerContext {
    const context = { ...around, signal: this.limits.signal, [RUN]: this };
    return context as SharedContext as HandlerContext;
  }

  /** Makes the part of the context that a step has as well. */
  stepContext(): StepContext {
    return {
      signal: this.limits.signal,
      settleWith: (effects) => {
        this.#checkAdding("settle with effects");
        (this.#effects ??= []).push(effects);
      },
      emit: (
        source: OwnEvents<object> | string,
        type: string,
        payload: object,
        options?: EmitOptions,
      ) => {
        const emission = emissionOf(source, type, payload, options);
        this.#checkAdding("emit the event");
        this.#emit(emission);
      },
      wake: (name, value) => {
        this.#checkAdding("wake an event");
        this.#wakes = withWake(this.#wakes, givenWakeOf(name, value), this.#room);
      },
      state: (key, options) => this.#ownStates.open(key, options),
      take: this.#takes,
    };
  }

  get #takes(): Take {
    const take = (name: string, options: TakeOptions) => this.#take(name, options);
    // `Object.assign` takes several times as long, and this is done for each run.
    take.now = (name: string, options: TakeOptions) => this.#takeNow(name, options);
    take.later = async (name: string, options: LaterOptions) =>
      await this.#tracked(this.#closeLimit(name, options));
    return take;
  }

  async #take(name: string, options: TakeOptions): Promise<void> {
    this.#checkRunning("take part in a limit");
    checkTake(name, options);
    const bucket = this.#limit(name, options);
    const run = this.#stepAtHand ?? this;
    const count = this.#stillNeeded(name, options);
    if (count > 0 && bucket.takeNow(options, count) === undefined) {
      const waiting = waitForTokens(bucket, name, { ...options, count }, run.limits.signal);
      await this.#tracked(waiting).catch((error) => {
        throw error instanceof RetryLaterError ? run.#putOff(error, bucket, name, options) : error;
      });
    }
    run.#noteTaken(bucket, options.count ?? 1, options);
  }

  /** Counts the tokens that a call needs beside the one with which its event has begun. */
  #stillNeeded(name: string, options: TakeOptions): number {
    const { count = 1 } = options;
    const room = this.#roomUnder(name, options);
    return room?.handOver(options) ? count - 1 : count;
  }

  #roomUnder(name: string, { key = "" }: TakeOptions): RateRoom | undefined {
    return this.#root.limits.rooms?.find((room) => room.isUnder(name, String(key)));
  }

  #noteTaken(bucket: SharedBucket, count: number, rule: TokenRule): void {
    (this.#tokens ??= new TakenTokens()).note(bucket, count, rule);
  }

  /** Makes the error of a call of this run that has no room. */
  #putOff(
    error: RetryLaterError,
    bucket: SharedBucket,
    name: string,
    options: TakeOptions,
  ): Error {
    let taken = this.#roomUnder(name, options)?.isTaken ? 1 : 0;
    for (const run of this.#withAround()) taken += run.#tokens?.of(bucket, options) ?? 0;
    const never = neverRoom(name, options, taken);
    if (never) return never;
    // A call may have been made since the first room: then it is not known what the step has done.
    return this === this.#stepAtHand && !this.#tokens ? notBegun(error) : error;
  }

  async #takeNow(name: string, options: TakeOptions): Promise<boolean> {
    this.#checkRunning("take part in a limit");
    checkTake(name, options);
    const bucket = this.#limit(name, options);
    const run = this.#stepAtHand ?? this;
    const count = this.#stillNeeded(name, options);
    const hasRoom = count === 0 || bucket.takeNow(options, count) !== undefined ||
      await this.#tracked(takeIfRoom(bucket, { ...options, count }));
    // Another attempt can do without them.
    if (hasRoom) run.#noteTaken(bucket, 0, options);
    return hasRoom;
  }

  async #closeLimit(name: string, options: LaterOptions): Promise<void> {
    this.#checkRunning("close a limit");
    checkLater(name, options);
    const ms = Math.min(MAX_PUT_OFF_MS, (options.untilMs ?? 0) - Date.now());
    if (ms > 0) await this.#limit(name, options).closeFor(ms);
  }

  #limit(name: string, { key = "" }: LaterOptions | TakeOptions): SharedBucket {
    return this.#parts.store.tokens.of(name, String(key));
  }

  /** Leaves out the handlers of a router that have succeeded in an earlier attempt. */
  unfinished<T extends { readonly key: string }>(handlers: readonly T[]): readonly T[] {
    const { progress } = this.#lease.record;
    if (!progress) return handlers;
    return handlers.filter(({ key }) => !progress.includes(`${this.#prefix}${key}`));
  }

  /** Lists the handlers of a router, and those within them, that have succeeded in an earlier attempt. */
  get done(): readonly string[] {
    const prefix = this.#prefix;
    const { progress = [] } = this.#lease.record;
    return progress.filter((each) => each.startsWith(prefix)).map((each) =>
      each.slice(prefix.length)
    );
  }

  /** Refuses to emit events of sources, here and in the runs within this one. */
  refuseSources(names: ReadonlySet<string>): void {
    this.#refused = names;
  }

  /**
   * Calls the handler, and waits until all that it has begun has ended, and is known to be stored or not.
   *
   * @param call Calls the handler.
   * @throws {ParkedError} If the event has to wait for it.
   * @throws {unknown} If it fails.
   */
  async run(call: () => unknown): Promise<void> {
    let failure: { readonly error: unknown } | undefined;
    try {
      await call();
    } catch (error) {
      failure = { error };
    }
    if (this.#calls) await this.#callsEnded();
    this.#hasEnded = true;
    if (this.#parked) throw this.#parked;
    failure ??= this.#root.#untold;
    if (failure) throw failure.error;
    // Until it is known what was noted, the rest cannot be committed once and only once.
    const resolving = this.#root.#shared?.resolved();
    if (resolving) await resolving;
  }

  /** Calls the function of a step, whose run this is. */
  runStep(call: () => unknown): Promise<void> {
    return this.run(() => STEP.run(this, call));
  }

  async #callsEnded(): Promise<void> {
    let calls: Promise<unknown> | undefined;
    while (calls !== this.#calls) {
      calls = this.#calls;
      await calls;
      // What has waited for a call that has ended may begin another one.
      for (let turn = 0; turn < TURNS; turn++) await undefined;
    }
  }

  /** Notes the handler of a router as done, in a commit with what it has added. */
  note(): Promise<void> {
    return this.#note({ is: "handler", name: this.#name });
  }

  /** Stores the result of the step that this run is of, in a commit with what it has added. */
  async noteStep(json: string | undefined, keep: boolean | undefined): Promise<void> {
    const part = { is: "step", name: this.#name, json, keep } as const;
    try {
      await this.#noteInTurn(part);
    } catch (error) {
      // What was paid for is kept: only the change of the state is lost.
      if (error instanceof StateConflictError) await this.#noteInTurn(part, false);
      throw error;
    }
  }

  /** Notes a part as soon as the store permits, as long as the event is leased. */
  async #noteInTurn(part: HandledPart, hasCells?: boolean): Promise<void> {
    for (;;) {
      try {
        return await this.#note(part, hasCells);
      } catch (error) {
        if (!(error instanceof NoTurnError) || !this.#lease.isHeld) throw error;
      }
      await this.#lease.pause(NOTE_PAUSE_MS);
    }
  }

  /** Hands what the handler of a router has added over to the run around it. */
  handOver(): void {
    const around = this.#around!;
    around.#checkRunning("settle with effects");
    this.#states?.handOver();
    if (this.#effects) (around.#effects ??= []).push(...this.#effects);
    for (const emission of this.#emissions?.all ?? []) around.#emit(emission);
    for (const wake of this.#wakes ?? []) {
      around.#wakes = withWake(around.#wakes, wake, this.#room);
    }
  }

  /** True if the handler has asked for anything beside states. */
  get hasAny(): boolean {
    return (this.#effects ?? this.#emissions ?? this.#wakes ?? this.#calls) !== undefined;
  }

  /** The mutations that its commit takes; undefined for none. */
  get effects(): CommitEffects | undefined {
    return committing(this.#effects, this.#parts.store.awaitsEffects);
  }

  /** The changes of states that its commit takes; undefined for none. */
  get cells(): readonly CellChange[] | undefined {
    return this.#states?.cells;
  }

  /** The events that its commit stores; undefined for none. */
  get emits(): readonly Emission[] | undefined {
    return this.#emissions?.all;
  }

  /** The names that its commit wakes; undefined for none. */
  get wakes(): readonly Wake[] | undefined {
    return this.#wakes;
  }

  /** The wait that the event is to be parked for; undefined for none. */
  get wait(): Wait | undefined {
    return this.#root.#shared?.wait;
  }

  /** Forgets the wait: another handler of the event has failed, or another event waits for the name. */
  dropWait(): void {
    this.#root.#shared?.dropWait();
    for (const run of this.#withAround()) run.#parked = undefined;
  }

  /** Finds the reason why its commit has failed: a state that was changed, or the error. */
  async reasonOf(error: unknown): Promise<unknown> {
    return await this.#states?.conflictOr(error).catch(() => error) ?? error;
  }

  #emit(emission: Emission): void {
    this.#checkRunning("emit the event");
    for (const run of this.#withAround()) {
      if (run.#refused?.has(emission.source)) {
        throw platformRefused("emit the event", emission.source);
      }
    }
    const emissions = this.#emissions ?? new Emissions(this.#room);
    emissions.add(emission);
    this.#emissions = emissions;
  }

  /** Notes a part, with what was added here. */
  async #note(part: HandledPart, hasCells = true): Promise<void> {
    this.#around!.#checkRunning("note progress");
    const { effects, emits, wakes } = this;
    const cells = hasCells ? this.cells : undefined;
    try {
      await this.#progress.note({ part, effects, added: { cells, emits, wakes } });
    } catch (error) {
      throw hasCells ? await this.reasonOf(error) : error;
    }
  }

  #step<T>(
    name: string,
    fn: (context: StepContext) => T | Promise<T>,
    options?: StepOptions<T>,
    cells?: readonly CellChange[],
  ): Promise<T> {
    this.#checkRunning(`take the step ${met(name)}`);
    checkStep(name, fn, options);
    if (this.#steps?.has(name)) {
      throw new TypeError(
        `Cannot take the step ${
          met(name)
        }: this attempt has one of that name already. Give each its own`,
      );
    }
    (this.#steps ??= new Set()).add(name);
    const run = this.partOf(name, { ...this.limits, limit: undefined });
    return takeStep({ name, key: run.#name, fn, options, cells }, run, this.#progress);
  }

  /** Sends a question as a step, and waits for its answer. */
  async #ask<TValue, TSent>(
    name: string,
    send: (name: string, context: StepContext) => TSent | Promise<TSent>,
    options: AskOptions = {},
  ): Promise<Answer<TValue, TSent>> {
    this.#checkWaiting();
    checkQuestion(name, send, options);
    const { by, timeoutMs = DEFAULT_TIMEOUT_MS, unknown = "repeat" } = options;
    const { record } = this.#lease;
    const own = ownName(record, `ask/${this.#prefix}${name}`);
    // Nobody is asked whose answer could not be waited for.
    await this.#progress.checkCanWait(waitNameOf(own));
    const now = Date.now();
    const question = { eventId: record.id, run: record.keyRun, by, until: now + timeoutMs };
    // Before it is sent: the answer may come at once.
    const cells = [questionCell(own, question, now)];
    const sending = async (context: StepContext) => {
      const sent = await send(own, context);
      // What cannot be kept is not needed to wait.
      return canBeKept(sent) ? sent : undefined;
    };
    const sent = await this.#step(name, sending, { unknown }, cells) as TSent | undefined;
    const result = await this.#waitFor<Answered>(waitNameOf(own), { timeoutMs });
    if (result.timedOut) return { value: undefined, by: undefined, timedOut: true, sent };
    const { value, by: sender } = result.value ?? {};
    return { value: value as TValue, by: sender, timedOut: false, sent };
  }

  async #answer(name: string | undefined, value: unknown): Promise<AnswerResult> {
    this.#checkRunning("answer");
    const { store, leaseMs } = this.#parts;
    const { id: eventId } = this.#lease.record;
    const by = await this.#senderId();
    return await withDeadline(store.answer(name, value, { by, eventId }), leaseMs);
  }

  /** Finds the id of who has caused the event; undefined if that is not known, or a batch has several senders. */
  async #senderId(): Promise<number | undefined> {
    const { lease, record: { batch, sender } } = this.#lease;
    const { store, leaseMs } = this.#parts;
    const others = batch && batch.events > 1
      ? await withDeadline(store.members(lease), leaseMs)
      : [];
    return others.every((each) => each.sender?.id === sender?.id) ? sender?.id : undefined;
  }

  async #takeNewer(): Promise<WebhookEvent[]> {
    const doing = "take newer events";
    this.#checkRunning(doing);
    const { record } = this.#lease;
    if (record.newer?.mode !== "steer") {
      throw new TypeError(`Cannot ${doing}: its group must have newer: "steer"`);
    }
    if ([...this.#withAround()].some(({ isAmongOthers }) => isAmongOthers)) {
      throw new TypeError(
        `Cannot ${doing}: the event has several handlers, and the others would miss them`,
      );
    }
    const newer = await this.#progress.takeNewer(this.#parts.handlersOf);
    if (newer.length === 0) return [];
    const root = this.#root;
    root.#taken = [...this.taken, ...newer];
    try {
      return await loadMembers(this.#parts, newer, record.attempt);
    } catch (error) {
      // They are in the batch by now: without them, the attempt must not succeed.
      root.#untold = { error };
      throw error;
    }
  }

  async #sleep(name: string, ms: number): Promise<void> {
    checkSleep(name, ms);
    const own = ownName(this.#lease.record, `sleep/${this.#prefix}${name}`);
    await this.#waitFor(`sleep/${own}`, { timeoutMs: ms });
  }

  async #waitForName<TValue>(name: string, options?: WaitOptions): Promise<WaitResult<TValue>> {
    checkNoQuestion("wait for", name);
    return await this.#waitFor(name, options);
  }

  async #waitFor<TValue>(
    name: string,
    options: WaitOptions | undefined,
  ): Promise<WaitResult<TValue>> {
    this.#checkWaiting();
    try {
      return await this.#progress.resultOf<TValue>(waitOf(name, options));
    } catch (error) {
      if (error instanceof ParkedError) {
        for (const run of this.#withAround()) run.#parked = error;
      }
      throw error;
    }
  }

  #tracked<T>(call: Promise<T>): Promise<T> {
    for (const run of this.#withAround()) run.#calls = Promise.allSettled([run.#calls, call]);
    return call;
  }

  get #ownStates(): HandlerStates {
    if (this.#states) return this.#states;
    const { store, leaseMs } = this.#parts;
    return this.#states = new HandlerStates({
      read: (key, options) => withDeadline(store.state(key, options), leaseMs),
      room: this.#room,
      intake: this.#lease.record.intake,
      checkRunning: (doing) => this.#checkAdding(doing),
      around: this.#around && this.#around.#ownStates,
    });
  }

  get #room(): SettlementRoom {
    return this.#parts.store.room;
  }

  get #progress(): LeasedProgress {
    return this.#root.#shared ??= new LeasedProgress(this.#parts, this.#lease);
  }

  /** Its name in the record, with those of the runs around it in front. */
  get #name(): string {
    return this.#around ? this.#around.#prefix + this.#key : this.#key;
  }

  get #prefix(): string {
    return this.#around ? `${this.#name}/` : "";
  }

  get #root(): HandlerRun {
    return this.#around ? this.#around.#root : this;
  }

  /** Lists this run and those around it. */
  *#withAround(): Iterable<HandlerRun> {
    yield this;
    if (this.#around) yield* this.#around.#withAround();
  }

  /** Refuses what the function of a step adds with another context than the step's: an attempt that skips it loses that. */
  #checkAdding(doing: string): void {
    this.#checkRunning(doing);
    const step = this.#stepAtHand;
    if (!step || step === this) return;
    throw new TypeError(
      `Cannot ${doing} in the step ${
        met(step.#key)
      } with its handler's context: an attempt that skips ` +
        "the step would lose it. Use the context that the step is given, or do it after the step",
    );
  }

  #checkWaiting(): void {
    this.#checkRunning("wait");
    const step = this.#stepAtHand;
    if (!step) return;
    throw new TypeError(
      `Cannot wait in the step ${
        met(step.#key)
      }: it would begin anew after that. Wait outside of steps`,
    );
  }

  /** The run of the step of this event that the caller is a part of; undefined for none. */
  get #stepAtHand(): HandlerRun | undefined {
    const step = this.#root.#shared && STEP.getStore();
    return step && step.#root === this.#root ? step : undefined;
  }

  #checkRunning(doing: string): void {
    if (this.#hasEnded) throw new TypeError(`Cannot ${doing}: the handler has ended`);
    if (this.#around) this.#around.#checkRunning(doing);
  }
}

/**
 * Finds the run of a handler.
 *
 * @param context The handler's context, or a copy.
 * @returns The run; undefined if no worker has made the context.
 */
export function runOf(context: HandlerContext): HandlerRun | undefined {
  return (context as { readonly [RUN]?: HandlerRun })[RUN];
}

/** Makes the error of a step that has not begun, and is put off. */
function notBegun(error: RetryLaterError): NotDoneError {
  return new NotDoneError(error.message, { afterMs: error.afterMs, cause: error });
}

/** Joins effects. Asynchronous ones are refused where nobody awaits them: what they add later would be lost. */
function committing(
  effects: readonly CommitEffects[] | undefined,
  areAwaited: boolean,
): CommitEffects | undefined {
  if (effects && areAwaited) {
    const inTurn = async (tx: unknown) => {
      for (const each of effects) await each(tx);
    };
    return inTurn as unknown as CommitEffects;
  }
  return effects && ((commit) => {
    for (const each of effects) {
      const result: unknown = each(commit);
      // The methods of a commit return it, and it throws where a promise would be resolved with it.
      if (result === commit || !isPromise(result)) continue;
      throw new TypeError(
        "Cannot commit the effects: the function that adds them must be synchronous, got a promise. " +
          "Await before it is called, in the handler",
      );
    }
  });
}
