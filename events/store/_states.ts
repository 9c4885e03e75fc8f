import type { Cell, CellKey, Engine, Version } from "./engine.ts";
import type { EventOperations } from "./event_operations.ts";
import { stateChange, stateKey, statesOf } from "./state_cells.ts";
import { isUnnamed, nameOfCell, type StoreCore } from "./store_core.ts";
import {
  checkState,
  checkStateList,
  entryOf,
  isOver,
  type ListedState,
  readEntry,
  type SetStateOptions,
  type StateChange,
  type StateOptions,
  type StoredState,
  valueOf,
} from "./stored_state.ts";

/** The number of states that are read at a time: each takes up to 65,536 bytes. */
const AT_ONCE = 50;

type StateListOptions = NonNullable<Parameters<EventOperations["states"]>[0]>;

/** Reads a state. */
export async function readState<TValue>(
  { engine }: StoreCore,
  key: string,
  options: StateOptions = {},
): Promise<StoredState<TValue>> {
  checkState(key, options);
  const [cell] = await engine.cells([stateKey(options.intake ?? "", key)]);
  const { version, value } = cell!;
  return new CellState<TValue>(
    engine,
    cell!.key,
    version,
    valueOf(value, engine.now()) as TValue | undefined,
  );
}

/** Lists states in the order of their intakes and keys. */
export function listStates(
  core: StoreCore,
  options: StateListOptions = {},
): AsyncIterableIterator<ListedState> {
  checkStateList(options);
  return listed(core, options);
}

async function* listed(
  { engine }: StoreCore,
  { intake, prefix = "" }: StateListOptions,
): AsyncGenerator<ListedState> {
  const begin = statesOf(intake);
  const isOrdered = intake !== undefined && prefix !== "";
  const from = isOrdered ? stateKey(intake, prefix) : undefined;
  for await (const cell of engine.list(begin, { from, atOnce: AT_ONCE })) {
    if (isUnnamed(cell, begin) || nameOfCell(cell, begin).startsWith(prefix)) {
      const state = listedOf(engine, begin, cell);
      if (state) yield state;
    } else if (isOrdered) return;
  }
}

/** Reads a state that was listed; undefined if it has expired. */
function listedOf(engine: Engine, begin: CellKey, cell: Cell): ListedState | undefined {
  const entry = readEntry(cell.value);
  if (entry && isOver(entry, engine.now())) return undefined;
  const intake = isUnnamed(cell, begin) ? undefined : String(cell.key.at(-2)) || undefined;
  const state = new CellState(engine, cell.key, cell.version, undefined);
  return {
    ...{ intake, key: nameOfCell(cell, begin), version: cell.version! },
    ...{ value: entry?.value, expiresAt: entry?.until ?? undefined, isUnreadable: !entry },
    delete: () => state.delete(),
  };
}

class CellState<TValue> implements StoredState<TValue> {
  version: Version | null;
  value: TValue | undefined;
  readonly #engine: Engine;
  readonly #key: CellKey;

  constructor(
    engine: Engine,
    key: CellKey,
    version: Version | null,
    value: TValue | undefined,
  ) {
    this.#engine = engine;
    this.#key = key;
    this.version = version;
    this.value = value;
  }

  async set(value: TValue, options?: SetStateOptions): Promise<boolean> {
    return await this.#change(entryOf(value, options), value);
  }

  async delete(): Promise<boolean> {
    return await this.#change(null, undefined);
  }

  async #change(change: StateChange, value: TValue | undefined): Promise<boolean> {
    const cell = stateChange(this.#key, this.version, change, this.#engine.now());
    const result = await this.#engine.apply({ cells: [cell], urgency: "work" });
    if (!result.ok) return false;
    this.version = change ? result.version : null;
    this.value = value;
    return true;
  }
}
