import { checkOptions, checkWellFormed, type OptionCheck } from "../../core/check_options.ts";
import { untilDone } from "../../core/tries.ts";
import type { Cell, CellKey } from "./engine.ts";
import { isUnnamed, nameOfCell, type StoreCore } from "./store_core.ts";
import {
  bucketAt,
  EMPTY,
  isTokenBucket,
  keptMs,
  opening,
  takenFrom,
  type TokenBucket,
} from "./token_bucket.ts";

/** Kind of the cells of limits. */
const LIMIT = "limit";

/**
 * A limit of a service that all processes share, as a list has it. It is listed from the first call on, and for a
 * minute after all of it is free again.
 *
 * @category Flows
 */
export interface ListedLimit {
  /** Its name. */
  readonly name: string;
  /** The part that is counted alone, such as a chat; an empty text for none. */
  readonly key: string;
  /** The largest number of calls in any time of the length `perMs`, by the last call; undefined before the first one. */
  readonly limit: number | undefined;
  /** The length of that time, in milliseconds; undefined before the first call. */
  readonly perMs: number | undefined;
  /**
   * The number of calls that there is room for now: 0 while it is closed, and undefined before the first call. Room that a
   * process has taken for calls that it has not made yet is not free.
   */
  readonly free: number | undefined;
  /** The time up to which it is closed, milliseconds since the epoch; undefined if it is open. */
  readonly closedUntil: number | undefined;
  /** Set if another version wrote it, or it is damaged. */
  readonly isUnreadable: boolean;
}

/** Options of listing limits. */
interface LimitListOptions {
  readonly name?: string | undefined;
}

/** Makes the key of the cell of a limit. */
export function limitKey(name: string, key: string): CellKey {
  return [LIMIT, name, key];
}

const checkKey: OptionCheck = (doing, name, value) => {
  if (typeof value !== "number") checkWellFormed(doing, name, value);
};

/** Opens a limit that is closed. */
export async function reopenLimit(
  { engine }: StoreCore,
  name: string,
  options: { readonly key?: string | number | undefined } = {},
): Promise<boolean> {
  checkWellFormed("reopen the limit", "name", name);
  checkOptions("reopen the limit", options, { key: checkKey });
  const key = limitKey(name, String(options.key ?? ""));
  return await untilDone(async () => {
    const [cell] = await engine.cells([key]);
    const now = engine.now();
    const after = isTokenBucket(cell!.value) ? opening(cell!.value, now) : undefined;
    if (!after) return false;
    const change = { key, version: cell!.version, after, forMs: keptMs(after, now) };
    return (await engine.apply({ cells: [change], urgency: "work" })).ok ? true : undefined;
  });
}

/** Lists limits in the order of their names and keys. */
export function listLimits(
  core: StoreCore,
  options: LimitListOptions = {},
): AsyncIterableIterator<ListedLimit> {
  checkOptions("list the limits", options, { name: checkWellFormed });
  return listed(core, options);
}

async function* listed(
  { engine }: StoreCore,
  { name }: LimitListOptions,
): AsyncGenerator<ListedLimit> {
  const begin: CellKey = name === undefined ? [LIMIT] : [LIMIT, name];
  for await (const cell of engine.list(begin)) yield listedOf(cell, begin, engine.now());
}

function listedOf(cell: Cell, begin: CellKey, now: number): ListedLimit {
  const key = nameOfCell(cell, begin);
  const name = isUnnamed(cell, begin) ? begin[1] ?? key : cell.key[1];
  const bucket = isTokenBucket(cell.value) ? cell.value : undefined;
  const { limit, perMs, closedUntil = now } = bucket ?? EMPTY;
  const isClosed = closedUntil > now;
  return {
    ...{ name: String(name), key, limit, perMs },
    free: isClosed && limit !== undefined ? 0 : freeIn(bucket ?? EMPTY, now),
    closedUntil: isClosed ? closedUntil : undefined,
    isUnreadable: !bucket,
  };
}

/** Counts the tokens that are free at a time; undefined if nobody has taken any yet. */
function freeIn(bucket: TokenBucket, now: number): number | undefined {
  const { limit, perMs } = bucket;
  if (limit === undefined || perMs === undefined) return undefined;
  return Math.max(0, limit - takenFrom(bucketAt(bucket, { limit, perMs }, now)));
}
