import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type EventStore, openEventStore } from "../../webhook/mod.ts";
import { testWith } from "../_permissions.ts";
import { claimOne, delivery } from "../webhook/store/_events.ts";

const NEEDS = ["read", "write", "run"] as const;

interface Result {
  readonly code: number;
  readonly out: readonly string[];
  readonly err: string;
}

type Cli = (...args: string[]) => Promise<Result>;

/** Runs a test with the tool, and with a store of the same KV that stays open as an app's would. */
function testCli(name: string, fn: (cli: Cli, store: EventStore, kv: Deno.Kv) => Promise<void>) {
  testWith(NEEDS, name, async () => {
    const folder = await Deno.makeTempDir();
    const path = `${folder}/kv.db`;
    const kv = await Deno.openKv(path);
    try {
      const store = await openEventStore(kv, { namespace: "bot" });
      await fn((...args) => run("events", ...args, "--kv", path), store, kv);
    } finally {
      kv.close();
      await Deno.remove(folder, { recursive: true });
    }
  });
}

async function run(...args: string[]): Promise<Result> {
  const script = new URL("../../cli/main.ts", import.meta.url).href;
  const flags = ["--quiet", "--no-prompt", "--allow-read", "--allow-write", "--allow-env"];
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", ...flags, script, ...args],
    env: { NO_COLOR: "1" },
  });
  const { code, stdout, stderr } = await command.output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  return { code, out: out === "" ? [] : out!.split("\n"), err: err! };
}

async function bury(store: EventStore, id: string, error = new Error("no")): Promise<void> {
  await store.accept(delivery(id));
  await store.bury(await claimOne(store), error);
}

testCli("events list writes one line per event", async (cli, store) => {
  await bury(store, "d1", new Error("two\nlines \x1b[31mred"));
  await store.accept(delivery("d2"));
  const { code, out } = await cli("list");
  assertEquals([code, out.length], [0, 2]);
  assertStringIncludes(out[0]!, "dead       1  push  d1  Error: two lines  [31mred");
  assertStringIncludes(out[1]!, "queued     0  push  d2");
});

testCli("events list filters, limits and writes JSON", async (cli, store) => {
  for (const id of ["d1", "d2", "d3"]) await bury(store, id);
  await store.accept(delivery("d4"));
  const { out } = await cli("list", "--state", "dead", "--limit", "2", "--json");
  assertEquals(out.map((line) => JSON.parse(line).id), ["d1", "d2"]);
  assertEquals((await cli("list", "--type", "issues")).out, []);
  assertEquals((await cli("list", "--older-than", "1h")).out, []);
  assertEquals((await cli("list", "--newer-than", "1h")).out.length, 4);
});

testCli("events show writes the record and the payload", async (cli, store) => {
  await store.accept(delivery("d1", `{"text":"🙂"}`));
  const { code, out } = await cli("show", "d1");
  const { id, state, payload } = JSON.parse(out.join("\n"));
  assertEquals([code, id, state, payload], [0, "d1", "queued", { text: "🙂" }]);
  assertEquals(await cli("show", "d2"), { code: 1, out: ["There is no event d2"], err: "" });
});

testCli("events replay puts dead events back, and tells which it could not", async (cli, store) => {
  await bury(store, "d1");
  const { code, out } = await cli("replay", "d1", "d2");
  assertEquals([code, out], [1, ["1 replayed", "not replayed: d2"]]);
  assertEquals((await store.get("d1"))?.state, "queued");
});

testCli("events replay takes all that a filter lets through", async (cli, store) => {
  for (const id of ["d1", "d2"]) await bury(store, id);
  const { code, out } = await cli("replay", "--type", "push", "--json");
  assertEquals([code, out], [0, [`{"replayed":2,"left":[]}`]]);
});

testCli("events cancel gives up an event that waits", async (cli, store) => {
  await store.accept(delivery("d1"));
  assertEquals((await cli("cancel", "d1")).out, ["1 cancelled"]);
  assertEquals((await store.get("d1"))?.state, "dead");
});

testCli("events purge deletes what is settled", async (cli, store) => {
  await bury(store, "d1");
  await store.accept(delivery("d2"));
  assertEquals((await cli("purge", "--all")).out, ["1 purged"]);
  assertEquals([await store.get("d1"), (await store.get("d2"))?.id], [null, "d2"]);
});

testCli("events stats counts by state", async (cli, store) => {
  await store.accept(delivery("d1"));
  const { out } = await cli("stats");
  assertEquals(out.slice(0, 4), ["queued   1", "running  0", "done     0", "dead     0"]);
  assertEquals(JSON.parse((await cli("stats", "--json")).out[0]!).queued, 1);
});

testCli("events asks which store is meant where a KV holds several", async (cli, store, kv) => {
  await store.accept(delivery("d1"));
  await (await openEventStore(kv, { namespace: "other" })).accept(delivery("d2"));
  const { code, err } = await cli("list");
  assertEquals(code, 2);
  assertStringIncludes(err, "--namespace (bot, other)");
  assertEquals((await cli("list", "--namespace", "other")).out.length, 1);
});

const MISTAKES: readonly (readonly string[])[] = [
  ["listen"],
  ["constructor"],
  ["list", "--state", "asleep"],
  ["list", "--older-than", "soon"],
  ["list", "--limit", "0"],
  ["list", "--unknown"],
  ["show"],
  ["replay"],
  ["cancel"],
  ["purge"],
  ["purge", "d1", "--all"],
  ["purge", "--all", "--limit", "1"],
  ["replay", "d1", "--type", "push"],
  ["list", "d1"],
];

testCli("events explains a command line that it cannot understand", async (cli, store) => {
  await store.accept(delivery("d1"));
  for (const args of MISTAKES) {
    const { code, out, err } = await cli(...args);
    assertEquals([code, out], [2, []], args.join(" "));
    assert(err.endsWith("See --help") && !err.includes("    at "), err);
  }
  assertEquals((await store.get("d1"))?.state, "queued");
});

testWith(NEEDS, "events makes no KV where there is none", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const { code, err } = await run("events", "list", "--kv", `${folder}/typo.db`);
    assertEquals([code, err], [2, "There is no such KV file\nSee --help"]);
    assertEquals(await Array.fromAsync(Deno.readDir(folder)), []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

testWith(NEEDS, "events --help writes the commands", async () => {
  const { code, out } = await run("--help");
  assertEquals(code, 0);
  assertStringIncludes(out.join("\n"), "purge ");
});
