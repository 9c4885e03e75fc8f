import type { CellChange, SettlementRoom } from "../store/engine.ts";
import type { HandlerState, SetStateOptions, StateOptions, StoredState } from "../store/mod.ts";
import { StateConflictError } from "../store/mod.ts";
import {
  checkState,
  entryOf,
  type StateChange,
  stateChange,
  stateKey,
} from "../store/stored_state.ts";

/** Reads a state of the event's store. */
type ReadState = <TValue>(
  key: string,
  options?: StateOptions,
) => Promise<StoredState<TValue>>;

/** Options of {@linkcode HandlerStates}. */
interface StatesOptions {
  readonly read: ReadState;
  /** The room of the store. */
  readonly room: SettlementRoom;
  /** The intake of the event. */
  readonly intake: string | undefined;
  /** Throws once the handler has ended. */
  readonly checkRunning: (doing: string) => void;
  /** The states of the handler around this one. */
  readonly around: HandlerStates | undefined;
}

/**
 * The states that a handler has opened. The changed ones become a part of the commit that settles
 * its event: each is written, and its version checked, so of two that change the same one the second fails.
 * A state that is only read is not checked.
 *
 * Each handler of a router has its own states. What a handler changes is committed when that
 * handler is noted as done. The last one hands its changes to the states of the whole event, which settle
 * with it; there they meet the states of a handler that has called the router.
 */
export class HandlerStates {
  readonly #options: StatesOptions;
  readonly #states = new Map<string, OpenState>();
  /** The states that are being read, by the same names. */
  readonly #opening = new Map<string, Promise<OpenState>>();

  constructor(options: StatesOptions) {
    this.#options = options;
  }

  /** Opens a state: the same one each time. */
  async open<TValue>(
    key: string,
    options: StateOptions = {},
  ): Promise<HandlerState<TValue>> {
    this.#options.checkRunning("read the state");
    checkState(key, options);
    const { intake = this.#options.intake } = options;
    const name = nameOf(key, intake);
    if (!this.#opening.has(name)) {
      this.#checkCount();
      const opening = this.#open(key, { intake }, name);
      this.#opening.set(name, opening);
      opening.catch(() => this.#opening.delete(name));
    }
    return (await this.#opening.get(name)!) as HandlerState<unknown> as HandlerState<TValue>;
  }

  /** The changes of their cells; undefined if nothing was changed. */
  get cells(): readonly CellChange[] | undefined {
    const changed = this.#changed;
    return changed.length === 0 ? undefined : changed.map((state) => state.cell);
  }

  /** Hands what was changed to the states of the handler around this one, to settle with them. */
  handOver(): void {
    const { around } = this.#options;
    if (!around) return;
    for (const [name, state] of this.#states) {
      if (state.change !== undefined) around.#adopt(name, state);
    }
  }

  /**
   * Finds the state that was changed by somebody else, once a commit has failed.
   *
   * @param error The error of the commit.
   * @returns The error that names it, or else the same one.
   */
  async conflictOr(error: unknown): Promise<unknown> {
    for (const state of this.#changed) {
      const { version } = await this.#options.read(state.key, state.options);
      if (version === state.version) continue;
      const conflict = new StateConflictError(state.key);
      conflict.cause = error;
      return conflict;
    }
    return error;
  }

  get #changed(): OpenState[] {
    return [...this.#states.values()].filter(({ change }) => change !== undefined);
  }

  async #open(key: string, options: StateOptions, name: string): Promise<OpenState> {
    const pending = this.#pending(name);
    const base = pending ?? await this.#options.read<unknown>(key, options);
    const state = new OpenState(key, options, base, this.#options);
    this.#states.set(name, state);
    return state;
  }

  /** Finds a state that a handler around this one has changed already. */
  #pending(name: string): OpenState | undefined {
    const { around } = this.#options;
    if (!around) return undefined;
    const state = around.#states.get(name);
    return state?.change === undefined ? around.#pending(name) : state;
  }

  /** Checks that there is room for another state. */
  #checkCount(): void {
    const { states: max } = this.#options.room;
    const count = this.#opening.size + 1;
    if (count <= max) return;
    throw new RangeError(
      `Cannot read the state: an event can have up to ${max}, got ${count}. The store's commits take no more`,
    );
  }

  #adopt(name: string, changed: OpenState): void {
    const own = this.#states.get(name);
    if (!own) {
      this.#checkCount();
      const state = changed.copy(this.#options);
      this.#states.set(name, state);
      this.#opening.set(name, Promise.resolve(state));
    } else if ((own.change ?? own.base) !== changed.base || own.version !== changed.version) {
      throw new StateConflictError(own.key);
    } else own.become(changed);
  }
}

/** The parts of its handler that a state needs. */
type StateParts = Pick<StatesOptions, "checkRunning" | "room">;

/** Beginning of a state: what is stored, or what a handler around has made of it. */
type Base = Pick<StoredState<unknown>, "version" | "value"> & {
  readonly change?: StateChange | undefined;
};

/** A state that was opened, and its change. */
class OpenState implements HandlerState<unknown> {
  readonly key: string;
  readonly options: StateOptions;
  version: string | null;
  value: unknown;
  /** The change that it is to get; undefined for none. */
  change: StateChange | undefined;
  /** The change of the handler around that this one has begun with. */
  base: StateChange | undefined;
  readonly #parts: StateParts;

  constructor(
    key: string,
    options: StateOptions,
    { version, value, change }: Base,
    parts: StateParts,
  ) {
    this.key = key;
    this.options = options;
    this.version = version;
    this.value = value;
    this.base = change;
    this.#parts = parts;
  }

  set(value: unknown, options?: SetStateOptions): void {
    this.#parts.checkRunning("set the state");
    this.change = entryOf(value, options, this.#parts.room);
    this.value = value;
  }

  delete(): void {
    this.#parts.checkRunning("delete the state");
    this.change = null;
    this.value = undefined;
  }

  /** Makes the same state of another handler. */
  copy(parts: StateParts): OpenState {
    const state = new OpenState(this.key, this.options, this, parts);
    state.change = this.change;
    state.base = this.base;
    return state;
  }

  /** Takes the change of the same state of another handler. */
  become({ version, value, change }: OpenState): void {
    this.version = version;
    this.value = value;
    this.change = change;
  }

  /** The change of its cell. */
  get cell(): CellChange {
    const key = stateKey(this.options.intake ?? "", this.key);
    return stateChange(key, this.version, this.change ?? null, Date.now());
  }
}

function nameOf(key: string, intake = ""): string {
  return JSON.stringify([intake, key]);
}
