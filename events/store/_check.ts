import { checkBoolean, checkOptions } from "../../core/check_options.ts";
import { isCount, isTime, shape } from "../../core/shape.ts";
import { deletingLeft } from "./_steps.ts";
import { foundAgain } from "./arrival.ts";
import { type CellKey, type CheckedPage, type StoredKind, UNNAMED } from "./engine.ts";
import type { EventStore } from "./event_store.ts";
import { isUnnamed, type StoreCore } from "./store_core.ts";
import { isTokenBucket } from "./token_bucket.ts";

/** Key of the outcome of the last whole check. */
const CHECKED: CellKey = ["checked"];

/** The cells that are checked, by their kinds. */
const CELLS: readonly (readonly [StoredKind, CellKey])[] = [
  ["name", ["waiter"]],
  ["state", ["state"]],
  ["schedule", ["cron"]],
  ["kept payload", ["kept"]],
  ["step", ["step"]],
  ["question", ["question"]],
  ["limit", ["limit"]],
];

/** Checks of whole values. Of the other kinds, only what cannot be decoded is found. */
const SHAPES: Partial<Record<StoredKind, (value: unknown) => boolean>> = { limit: isTokenBucket };

/** The number of cells read at a time: a remote KV takes hardly more time for 500 than for 100. */
const PAGE = 500;

/** The outcome of a whole check. */
type CheckSummary = NonNullable<Awaited<ReturnType<EventStore["lastCheck"]>>>;

const isSummary = shape<CheckSummary>({
  at: isTime,
  read: isCount,
  putBack: isCount,
  unreadable: isCount,
});

/** Checks the store page by page, and notes the outcome at the end. */
export function checkStore(
  core: StoreCore,
  options: Parameters<EventStore["check"]>[0] = {},
): AsyncIterableIterator<CheckedPage> {
  checkOptions("check the store", options, { discard: checkBoolean });
  return checked(core, options.discard ?? false);
}

async function* checked(core: StoreCore, discard: boolean): AsyncGenerator<CheckedPage> {
  const { engine } = core;
  const counts = { read: 0, put_back: 0, unreadable: 0, discarded: 0 };
  for await (const page of pagesOf(core, discard)) {
    counts.read += page.read;
    for (const { is } of page.findings) counts[is]++;
    yield page;
  }
  const { read, put_back: putBack, unreadable } = counts;
  const after: CheckSummary = { at: engine.now(), read, putBack, unreadable };
  await engine.apply({ cells: [{ key: CHECKED, after }], urgency: "work" });
}

/** Checks the cells, and then the events: these get back what they lose by a discarded cell. */
async function* pagesOf(core: StoreCore, discard: boolean): AsyncGenerator<CheckedPage> {
  for (const [kind, begin] of CELLS) yield* checkedCells(core, kind, begin, discard);
  yield* core.engine.check({ discard, foundAgain });
}

async function* checkedCells(
  core: StoreCore,
  kind: StoredKind,
  begin: CellKey,
  discard: boolean,
): AsyncGenerator<CheckedPage> {
  const { engine } = core;
  let read = 0;
  const tidy = kind === "step" ? deletingLeft(core) : undefined;
  for await (const cell of engine.list(begin, { atOnce: PAGE })) {
    read++;
    if (cell.value !== undefined && SHAPES[kind]?.(cell.value) !== false) {
      await tidy?.(cell);
      continue;
    }
    const { key, version } = cell;
    const isDeleted = discard && !isUnnamed(cell, begin) &&
      (await engine.apply({ cells: [{ key, version, after: null }], urgency: "work" })).ok;
    const is = isDeleted ? "discarded" : "unreadable";
    const name = isUnnamed(cell, begin) ? UNNAMED : key.slice(begin.length).join("/");
    yield { read, findings: [{ is, kind, name, at: key }] };
    read = 0;
  }
  if (read > 0) yield { read, findings: [] };
}

/** Reads the outcome of the last whole check; null if there is none that this version can read. */
export async function readLastCheck({ engine }: StoreCore): Promise<CheckSummary | null> {
  const [cell] = await engine.cells([CHECKED]);
  return isSummary(cell!.value) ? cell!.value : null;
}
