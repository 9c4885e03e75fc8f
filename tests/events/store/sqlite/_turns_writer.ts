/** Writes into a SQLite file without a pause, with eight changes at a time, and tells how that went. */
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";

/** Outcome of a writer. */
export interface Written {
  readonly changes: number;
  /** Longest time of a change, in milliseconds. */
  readonly longestMs: number;
  /** The first error. */
  readonly error?: string | undefined;
}

const [path, beginsAt, forMs] = Deno.args;
const file = await openSqliteFile(path!, { log: () => {} });
const store = createEventStore(openSqliteEngine(file), { log: () => {} });
let [changes, longestMs] = [0, 0];
let error: string | undefined;
await new Promise((resolve) => setTimeout(resolve, Number(beginsAt) - Date.now()));
const end = performance.now() + Number(forMs);
await Promise.all(Array.from({ length: 8 }, async () => {
  while (performance.now() < end) {
    const since = performance.now();
    try {
      await store.emit("jobs", "item", {});
      changes++;
    } catch (thrown) {
      error ??= String(thrown);
    }
    longestMs = Math.max(longestMs, performance.now() - since);
  }
}));
await file.close();
console.log(JSON.stringify({ changes, longestMs, error } satisfies Written));
