import { checkFunction, isPromise } from "../../core/check_options.ts";
import { untilDone } from "../../core/tries.ts";
import type { EmissionPut, Emitter } from "./_emit.ts";
import { type Name, readToWake, wakeAll } from "./_waits.ts";
import { emissionOf, Emissions, type EmitOptions, type OwnEvents } from "./emission.ts";
import type { Change, Stored } from "./engine.ts";
import type { EventStore, TransactionActions } from "./event_store.ts";
import { givenWakeOf } from "./questions.ts";
import type { StoreCore } from "./store_core.ts";
import { type Wake, withWake } from "./waits.ts";

/** The number of calls of a function that may each wake a name which none before has woken. */
const MAX_CALLS = 5;

const DOING = "make the transaction";

type Work = (tx: unknown, actions: TransactionActions) => unknown;

/** Thrown to take back a call that needs what has not been read yet. */
class NotReadError extends Error {}

/**
 * Makes the method that gives a function a transaction of its own.
 *
 * The function is called while the transaction is open, when nothing else of the store can be read. So if it wakes a
 * name that has not been read, or emits events of a source that has not been looked at, that call is taken back. Once
 * these have been read, the function is called again.
 */
export function transacting(core: StoreCore, emitter: Emitter): EventStore["transact"] {
  const transact = async (work: Work) => {
    checkFunction(DOING, "work", work);
    const call = await untilDone(() => tryOnce(core, emitter, work));
    return call.result;
  };
  return transact as EventStore["transact"];
}

/** Tries once. Returns the call whose transaction was committed; undefined if a name has changed meanwhile. */
async function tryOnce(core: StoreCore, emitter: Emitter, work: Work): Promise<Call | undefined> {
  const names = new Map<string, Name>();
  for (let calls = 0; calls < MAX_CALLS; calls++) {
    let call = new Call(core, emitter, names);
    const applied = await core.engine.transact((tx) => {
      // If another change has failed the transaction, the function is called again: the last call counts.
      call = new Call(core, emitter, names);
      return call.changeOf(work, tx);
    });
    if (applied.ok) {
      call.made(applied.written);
      return call;
    }
    if (applied.why !== "effects") return undefined;
    if (!(applied.error instanceof NotReadError)) throw applied.error;
    await call.readMissing();
  }
  throw new Error(`Cannot ${DOING}: the function wakes other names each time that it is called`);
}

/** A call of a function, with what it adds to its transaction. */
class Call {
  /** The result of the function. */
  result: unknown;
  readonly #core: StoreCore;
  readonly #emitter: Emitter;
  readonly #names: Map<string, Name>;
  readonly #emissions: Emissions;
  /** The puts of the events, by their ids. */
  readonly #puts = new Map<string, EmissionPut>();
  #wakes: Wake[] = [];
  #hasEnded = false;

  constructor(core: StoreCore, emitter: Emitter, names: Map<string, Name>) {
    this.#core = core;
    this.#emitter = emitter;
    this.#names = names;
    this.#emissions = new Emissions(core.engine.limits.room);
  }

  /** Calls the function, and makes the change of what it adds. */
  changeOf(work: Work, tx: unknown): Change | Promise<Change> {
    if (this.#core.engine.awaitsEffects) return this.#changeOfAwaited(work, tx);
    try {
      const result = work(tx, { emit: this.#emit, wake: this.#wake });
      // The methods of a commit return it, and it throws where a promise would be resolved with it.
      this.result = result === tx ? undefined : result;
    } finally {
      this.#hasEnded = true;
    }
    if (isPromise(this.result)) {
      throw new TypeError(`Cannot ${DOING}: the function must be synchronous, got a promise`);
    }
    return this.#change();
  }

  async #changeOfAwaited(work: Work, tx: unknown): Promise<Change> {
    try {
      this.result = await work(tx, { emit: this.#emit, wake: this.#wake });
    } finally {
      this.#hasEnded = true;
    }
    return this.#change();
  }

  #change(): Change {
    if (this.#isMissing) throw new NotReadError();
    const { cells, moves, announce } = wakeAll(this.#core, this.#wakes, this.#names);
    const isDue = this.#emissions.all.some(({ delayMs }) => delayMs === 0);
    const puts = [...this.#puts.values()];
    return { puts, cells, moves, announce: announce || isDue, urgency: "work" };
  }

  /** Reads what the function needs before its next call. */
  async readMissing(): Promise<void> {
    for (const { source } of this.#emissions.all) await this.#emitter.checkSource(source);
    for (const { name } of this.#wakes) this.#names.set(name, await readToWake(this.#core, name));
  }

  /** Reports that the transaction was committed. */
  made(written: readonly (Stored | null)[]): void {
    this.#emitter.made([...this.#puts.values()], written);
  }

  get #isMissing(): boolean {
    return this.#wakes.some(({ name }) => !this.#names.has(name)) ||
      this.#emissions.all.some(({ source }) => !this.#emitter.isFree(source));
  }

  readonly #emit = (
    source: OwnEvents<object> | string,
    type: string,
    payload: object,
    options?: EmitOptions,
  ): string => {
    this.#checkRunning("emit the event");
    const emission = emissionOf(source, type, payload, options);
    this.#emissions.add(emission);
    const put = this.#emitter.putOwn(emission);
    const { id } = put.before;
    // Of two events with one id the first one is stored.
    if (!this.#puts.has(id)) this.#puts.set(id, put);
    return id;
  };

  readonly #wake = (name: string, value?: unknown): void => {
    this.#checkRunning("wake an event");
    this.#wakes = withWake(this.#wakes, givenWakeOf(name, value), this.#core.engine.limits.room);
  };

  #checkRunning(doing: string): void {
    if (this.#hasEnded) throw new TypeError(`Cannot ${doing}: the transaction has ended`);
  }
}
