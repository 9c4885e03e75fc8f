import type { EventOperations } from "../event_operations.ts";
import type { ListedState, StoredState } from "../stored_state.ts";
import {
  bytesFromNow,
  checkState,
  checkStateList,
  entryOf,
  isOver,
  readEntry,
  type SetStateOptions,
  type StateChange,
  type StateOptions,
  valueOf,
} from "../stored_state.ts";
import type { StoreParts } from "./_parts.ts";
import { isGap, list, type ListedEntry, nameIn, read } from "./_reads.ts";

/** The number of states that are read at a time: each takes up to 65,536 bytes. */
const BATCH_SIZE = 50;

type StateListOptions = NonNullable<Parameters<EventOperations["states"]>[0]>;

/** Reads a state. */
export async function readState<TValue>(
  parts: StoreParts,
  key: string,
  options: StateOptions = {},
): Promise<StoredState<TValue>> {
  checkState(key, options);
  const { kv, keys } = parts;
  const kvKey = keys.state(options.intake ?? "", key);
  const { value, versionstamp } = await read(kv, kvKey);
  return new KvState<TValue>(parts, kvKey, versionstamp, valueOf(value) as TValue | undefined);
}

/** Lists states in the order of their intakes and keys. */
export function listStates(
  parts: StoreParts,
  options: StateListOptions = {},
): AsyncIterableIterator<ListedState> {
  checkStateList(options);
  return statesOf(parts, options);
}

async function* statesOf(
  parts: StoreParts,
  { intake, prefix = "" }: StateListOptions,
): AsyncGenerator<ListedState> {
  const { kv, keys } = parts;
  const all = keys.states(intake);
  const isOrdered = intake !== undefined && prefix !== "";
  const selector = isOrdered ? { ...all, start: [...all.prefix, prefix] } : all;
  for await (const entry of list(kv, selector, { batchSize: BATCH_SIZE })) {
    const key = nameIn(entry);
    if (isGap(entry) || key.startsWith(prefix)) {
      const state = listedOf(parts, key, entry);
      if (state) yield state;
    } else if (isOrdered) return;
  }
}

/** Reads a state that was listed; undefined if it has expired. */
function listedOf(
  parts: StoreParts,
  key: string,
  listed: ListedEntry,
): ListedState | undefined {
  const { key: kvKey, value, versionstamp } = listed;
  const intake = isGap(listed) ? undefined : String(kvKey.at(-2)) || undefined;
  const entry = readEntry(value);
  if (entry && isOver(entry)) return undefined;
  const state = new KvState(parts, kvKey, versionstamp, undefined);
  return {
    ...{ intake, key, kvKey, versionstamp },
    ...{ value: entry?.value, expiresAt: entry?.until ?? undefined, isUnreadable: !entry },
    delete: () => state.delete(),
  };
}

class KvState<TValue> implements StoredState<TValue> {
  readonly kvKey: Deno.KvKey;
  versionstamp: string | null;
  value: TValue | undefined;
  readonly #parts: StoreParts;

  constructor(
    parts: StoreParts,
    kvKey: Deno.KvKey,
    versionstamp: string | null,
    value: TValue | undefined,
  ) {
    this.#parts = parts;
    this.kvKey = kvKey;
    this.versionstamp = versionstamp;
    this.value = value;
  }

  async set(value: TValue, options?: SetStateOptions): Promise<boolean> {
    return await this.#change(entryOf(value, options), value);
  }

  async delete(): Promise<boolean> {
    return await this.#change(null, undefined);
  }

  async #change(change: StateChange, value: TValue | undefined): Promise<boolean> {
    const { kvKey: key, versionstamp } = this;
    const { kv, marks } = this.#parts;
    const operation = kv.atomic();
    if (change) operation.set(key, bytesFromNow(change), expiring(change.expireIn));
    else operation.delete(key);
    const result = await marks.commit(operation, [{ key, versionstamp }]);
    if (!result.ok) return false;
    this.versionstamp = change ? result.versionstamp : null;
    this.value = value;
    return true;
  }
}

function expiring(expireIn: number | undefined): { expireIn?: number } {
  return expireIn === undefined ? {} : { expireIn };
}
