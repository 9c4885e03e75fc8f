import { checkBoolean, checkOptions } from "../../core/check_options.ts";
import type { StoreCore } from "./_core.ts";
import { foundAgain } from "./claims.ts";
import type { CellKey } from "./engine.ts";
import type { EventStore } from "./event_store.ts";
import { isCount, isTime, shape } from "./record_shape.ts";
import type { CheckedPage } from "./store_check.ts";

/** The outcome of a whole check. */
type CheckSummary = NonNullable<Awaited<ReturnType<EventStore["lastCheck"]>>>;

/** Key of the outcome of the last whole check. */
const CHECKED: CellKey = ["checked"];

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

async function* checked(
  { engine, local }: StoreCore,
  discard: boolean,
): AsyncGenerator<CheckedPage> {
  const counts = { read: 0, put_back: 0, unreadable: 0, discarded: 0 };
  for await (const page of engine.check({ discard, foundAgain })) {
    counts.read += page.read;
    for (const { is } of page.findings) counts[is]++;
    if (page.findings.some(({ is }) => is === "put_back")) local.listener?.wake();
    yield page;
  }
  const { read, put_back: putBack, unreadable } = counts;
  const after: CheckSummary = { at: engine.now(), read, putBack, unreadable };
  await engine.apply({ cells: [{ key: CHECKED, after }], urgency: "work" });
}

/** Reads the outcome of the last whole check; null if there is none that this version can read. */
export async function readLastCheck({ engine }: StoreCore): Promise<CheckSummary | null> {
  const [cell] = await engine.cells([CHECKED]);
  return isSummary(cell!.value) ? cell!.value : null;
}
