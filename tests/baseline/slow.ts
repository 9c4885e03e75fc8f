/** Faults that the baseline takes minutes to have: `deno task baseline:slow`. See `_rows.ts`. */
import { DatabaseSync } from "node:sqlite";
import { inFile, task, testRow } from "./_rows.ts";
import { pause } from "../../dev/harness/until.ts";

testRow({
  what: "a second process does not start what the first one handles",
  probe: inFile({}, async (first, again) => {
    await first.send(task("a", 60_000));
    await pause(6_000); // Deno's queue takes a message for lost when its handler has run for 5 s.
    const second = await again();
    await pause(2_000);
    return [...first.starts(), ...second.starts()];
  }),
  wanted: ["a"],
  baseline: ["a", "a"],
});

testRow({
  what: "a handler of minutes is started once",
  probe: inFile({}, async (subject) => {
    await subject.send(task("a", 600_000));
    await pause(130_000);
    return subject.starts();
  }),
  wanted: ["a"],
  baseline: ["a", "a", "a"],
});

/** Counts the rows of a KV's file, in all of its tables. */
function rowsIn(path: string): number {
  const file = new DatabaseSync(path, { readOnly: true });
  const count = (table: string) =>
    Number(file.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows);
  const rows = ["kv", "queue", "queue_running"].map(count).reduce((sum, each) => sum + each);
  file.close();
  return rows;
}

testRow({
  what: "an event whose handler always throws is not lost",
  probe: inFile({}, async (subject, _, path) => {
    await subject.send(task("a", 0, true));
    await pause(130_000);
    return rowsIn(path) > 0 ? "kept" : `lost after ${subject.starts().length} attempts`;
  }),
  wanted: "kept",
  baseline: "lost after 6 attempts",
});
