import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { openEventStore } from "../../events/mod.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { contentOf, storeAll } from "../events/store/_moving.ts";
import { bury, makeNewer, type Result, runHere, testCli } from "./_cli.ts";

const encoder = new TextEncoder();

/** Runs an import with something on the standard input. */
function importing(text: string, ...args: string[]): Promise<Result> {
  const input = () => ReadableStream.from([encoder.encode(text)]);
  return runHere(["events", "import", ...args], { input });
}

const NEEDED = ["--kv", "--namespace"] as const;

/** Options for a KV beside another one, made for an app of some name. */
const besides = (path: string) => [NEEDED[0], `${path}.new`, NEEDED[1], "new", "--create"];

testCli("events export and import move all events into another KV", async (sut) => {
  const { cli, store, path } = sut;
  await storeAll(store);
  const file = `${path}.ndjson`;
  assertEquals(await cli("export", "--file", file), { code: 0, out: ["11 exported"], err: [] });
  const args = ["events", "import", "--file", file, ...besides(path)];
  const { code, out, err } = await runHere(args);
  assertEquals([code, out], [0, ["11 imported"]]);
  assertEquals(err, []);
  const again = await runHere([...args, "--json"]);
  const none = { imported: 0, known: 0, expired: 0 };
  const entries = { states: none, answers: none, questions: none, schedules: none };
  const result = { imported: 0, known: 11, expired: 0, ...entries, failed: 0, failures: [] };
  assertEquals([again.code, again.out], [0, [JSON.stringify(result)]]);
  using kv = await Deno.openKv(`${path}.new`);
  const moved = await openEventStore(kv, { namespace: "new" });
  assertEquals(await contentOf(moved), await contentOf(store));
});

testCli(
  "events export and import count what moves beside the events",
  async ({ cli, store, path }) => {
    await store.accept(delivery("d1"));
    await (await store.state("chat:1")).set("a");
    await store.wake("early");
    const { out, err } = await cli("export");
    const beside = "2 states, answers, questions and notes of schedules exported with them";
    assertEquals([out.length, err], [3, ["1 exported", beside]]);
    const first = await importing(out.join("\n"), ...besides(path));
    const second = await importing(out.join("\n"), ...besides(path));
    assertEquals(first.out, ["1 imported", "1 states imported", "1 answers imported"]);
    assertEquals(second.out, [
      ...["0 imported", "1 left as they are: this database has them already"],
      "0 states imported, 1 left as they are",
      "0 answers imported, 1 left as they are",
    ]);
  },
);

testCli("events export writes to the standard output, and its number elsewhere", async (sut) => {
  const { cli, store, path } = sut;
  await storeAll(store);
  const { code, out, err } = await cli("export");
  assertEquals([code, out.length, err], [0, 11, ["11 exported"]]);
  const imported = await importing(out.join("\n"), ...besides(path));
  assertEquals([imported.code, imported.out, imported.err], [0, ["11 imported"], []]);
  assertEquals((await cli("export", "--json")).err, [`{"exported":11,"entries":0,"left":[]}`]);
});

testCli("events export takes ids and filters, and names what is missing", async (sut) => {
  const { cli, store } = sut;
  for (const id of ["d1", "d2"]) await bury(store, id);
  await store.accept(delivery("d3"));
  assertEquals((await cli("export", "--state", "dead")).out.length, 2);
  const { code, out, err } = await cli("export", "d3", "d4");
  assertEquals([code, out.length], [1, 1]);
  assertEquals(err, ["1 exported", "not exported: d4 (there is no such event)"]);
  const { err: report } = await cli("export", "d3", "d4", "--json");
  assertEquals(report, [`{"exported":1,"entries":0,"left":["d4"]}`]);
});

testCli("events export leaves out what it cannot read, and says so", async (sut) => {
  const { cli, store, kv } = sut;
  for (const id of ["d1", "d2"]) await store.accept(delivery(id));
  await makeNewer(kv, "d1");
  const { code, out, err } = await cli("export");
  assertEquals([code, out.length], [1, 1]);
  assertEquals(err, ["not exported: d1 (this version cannot read its record)", "1 exported"]);
});

testCli("events export writes a file for its owner alone, and over none", async (sut) => {
  const { cli, store, path } = sut;
  await store.accept(delivery("d1"));
  const file = `${path}.ndjson`;
  await cli("export", "--file", file);
  if (Deno.build.os !== "windows") assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);
  const { code, err } = await cli("export", "--file", file);
  assertEquals([code, err], [2, [`The file ${file} exists: give the name of a new one`]]);
});

testCli("events import needs the name of an app that has no events yet", async (sut) => {
  const { cli, store, path } = sut;
  await store.accept(delivery("d1"));
  const { out } = await cli("export");
  const empty = `${path}.none`;
  (await Deno.openKv(empty)).close();
  const text = out.join("\n");
  const nameless = await importing(text, "--kv", empty);
  const message = "The database holds no events yet: give the app's name with --namespace";
  assertEquals([nameless.code, nameless.err], [2, [message]]);
  const missing = await importing(text, "--kv", `${path}.x`, "--namespace", "a");
  assertEquals([missing.code, missing.err], [2, [`There is no KV file ${path}.x`]]);
  assertEquals((await importing(text, "--kv", empty, "--namespace", "a")).out, ["1 imported"]);
  // Now there is only one app that can be meant.
  assertEquals((await importing(text, "--kv", empty)).out[0], "0 imported");
});

testCli("events import says what it is not given before it makes anything", async ({ path }) => {
  const to = besides(path);
  const mistakes: readonly [readonly string[], string][] = [
    [to, "Give --file, or the events on the standard input"],
    [[...to, "--file", `${path}.x`], `There is no file ${path}.x`],
    [[...to, "--file", "."], ". is a folder"],
    [["--create", "--kv", path], "--create needs --store or --kv, and --namespace"],
    [["d1"], "events import takes no ids (events show does)"],
    [[...to, "--retention", "a"], "--retention must be an age such as 30s, 15m, 12h or 7d, got a"],
    [[...to, "--state", "dead"], "events import has no --state"],
  ];
  for (const [args, message] of mistakes) {
    const { code, err } = await runHere(["events", "import", ...args]);
    assertEquals([code, err], [2, [message]]);
  }
  assertEquals(await Deno.stat(`${path}.new`).catch(() => "missing"), "missing");
});

testCli("events import names lines that are no events, and other files at once", async (sut) => {
  const { cli, store, path } = sut;
  await store.accept(delivery("d1"));
  const [line] = (await cli("export")).out;
  const lines = [line, "{}", line!.replace(`"d1"`, `"d2"`).replace("push", "issues"), "x"];
  const { code, out } = await importing(lines.join("\n"), "--kv", path);
  assertEquals([code, out], [1, [
    "1 imported",
    "1 left as they are: this database has them already",
    "not imported: line 2 (Cannot read the event: the line is no exported one)",
    "not imported: line 4 (Cannot read the event: the line is not JSON)",
  ]]);
  const other = await runHere(["events", "import", "--kv", path, "--file", path]);
  assertEquals([other.code, other.out], [2, []]);
  assertStringIncludes(other.err[0]!, "Cannot import events: this is no export of events");
});

testCli("events import forgets done events by the app's retention", async (sut) => {
  const { cli, store, path } = sut;
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store));
  const [line] = (await cli("export")).out;
  const settledAt = Date.now() - 10 * 86_400_000;
  const old = line!.replace(/"settledAt":\d+/, `"settledAt":${settledAt}`).replace("d1", "d2");
  const first = await importing(old, "--kv", path);
  const forgotten = "1 forgotten: done for longer than the retention";
  assertEquals([first.code, first.out], [0, ["0 imported", forgotten]]);
  const second = await importing(old, "--kv", path, "--retention", "30d");
  assertEquals(second.out, ["1 imported"]);
});

testCli("Ctrl-C ends an export and an import, which tell how far they came", async (sut) => {
  const { store, path } = sut;
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id));
  const onInterrupt = (listener: () => void) => {
    listener();
    return () => {};
  };
  const exported = await runHere(["events", "export", "--kv", path], { onInterrupt });
  assertEquals([exported.code, exported.err], [130, ["1 exported, interrupted"]]);
  const input = () => ReadableStream.from([encoder.encode(exported.out[0])]);
  const args = ["events", "import", "--kv", path];
  const imported = await runHere(args, { onInterrupt, input });
  assertEquals([imported.code, imported.out], [130, ["0 imported, interrupted"]]);
});

testCli("an export that nobody reads to its end has failed", async (sut) => {
  const { store, path } = sut;
  await store.accept(delivery("d1"));
  const out = () => {
    throw new Deno.errors.BrokenPipe("Broken pipe");
  };
  const { code, err } = await runHere(["events", "export", "--kv", path], { out });
  assertEquals([code, err], [1, ["0 exported, then: nobody reads on"]]);
  assert((await store.stats()).queued === 1);
});
