import { assertEquals, assertMatch } from "@std/assert";
import { run } from "../../dev/harness/run.ts";
import { type EventStore, openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith, UNLESS_LINUX, unlessInstalled } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "../apps/_app.ts";
import { deliver } from "../apps/_deliver.ts";
import { runHere } from "../cli/_cli.ts";
import { delivery } from "../events/store/_events.ts";
import { SQLITE } from "../events/store/engines/sqlite.ts";
import { blocks, read } from "./_documents.ts";

/** Runs commands of the shell that the guide shows, on a file of a folder, and returns their output. */
async function follow(kind: "kv" | "restore", cwd: string, file: string): Promise<string> {
  const [shown] = blocks(await read("docs/storage.md"), `sh ${kind}`);
  const commands = shown!.replaceAll("data/triage.db", `data/${file}`);
  const { code, stdout, stderr } = await run("sh", ["-euc", commands], { cwd });
  assertEquals([code, stderr], [0, ""]);
  return stdout;
}

/** Runs the command of the tool that the guide shows, in a folder. */
async function backUp(folder: string): Promise<void> {
  const [shown] = blocks(await read("docs/storage.md"), "sh backup");
  const [, command] = /^deno task (events backup .*)\n$/.exec(shown!)!;
  const args = command!.replaceAll(/(?<=[ :])(?=backup\.db|data\/)/g, `${folder}/`).split(" ");
  const { code, out, err } = await runHere(args);
  assertEquals(code, 0, err.join("\n"));
  assertMatch(out.join("\n"), /^\d+ bytes copied to /);
}

/** The ids of the events in a store, each with its payload. */
async function idsIn(store: EventStore): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const { id } of store.list()) {
    const record = await store.get(id);
    assertEquals((await store.load({ record: record! })).byteLength, 2);
    ids.add(record!.deliveryId!);
  }
  return ids;
}

/** The same of a KV. */
async function idsInKv(path: string): Promise<Set<string>> {
  using kv = await Deno.openKv(path);
  return await idsIn(await openEventStore(kv, { namespace: "own" }));
}

/** Delivers one after the other until told to stop. */
function keepDelivering(deliver: (id: string) => Promise<unknown>): () => Promise<void> {
  let ends = false;
  const delivering = (async () => {
    for (let i = 0; !ends; i++) await deliver(`d-${i}`);
  })();
  return () => {
    ends = true;
    return delivering;
  };
}

/** Expects what came before the backup to be there again, and what came after it to be missing. */
function assertRestored(restored: ReadonlySet<string>, all: ReadonlySet<string>): void {
  assertEquals([restored.has("before"), restored.has("after")], [true, false]);
  assertEquals([all.has("after"), [...restored].every((id) => all.has(id))], [true, true]);
}

async function deliverTo(app: RunningApp, id: string): Promise<void> {
  assertEquals((await deliver(app, id)).status, 200);
}

const backsUp = (what: string) =>
  `docs/storage.md backs ${what} up that is written to, and goes back to it`;

testWith(APP_NEEDS, backsUp("a KV"), async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/data/kv.db`;
    await Deno.mkdir(`${folder}/data`, { recursive: true });
    {
      const retry = { minDelayMs: 3_600_000 };
      await using app = spawnOwnApp({ fails: true, retry }, { KV_URL: path });
      await deliverTo(app, "before");
      const stop = keepDelivering((id) => deliverTo(app, id));
      assertEquals(await follow("kv", folder, "kv.db"), "ok");
      await deliverTo(app, "after");
      await stop();
    }
    const all = await idsInKv(path);
    await follow("restore", folder, "kv.db");
    assertRestored(await idsInKv(path), all);
  });
}, unlessInstalled("sqlite3"));

testWith(["read", "write", "run"], backsUp("a SQLite file"), async () => {
  await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/data`);
    const open = () => SQLITE.openAt(`${folder}/data/triage.db`, { namespace: "triage" });
    const { store, close } = await open();
    await store.accept(delivery("before", "{}"));
    const stop = keepDelivering((id) => store.accept(delivery(id, "{}")));
    await backUp(folder);
    await store.accept(delivery("after", "{}"));
    await stop();
    const all = await idsIn(store);
    await close();
    await follow("restore", folder, "triage.db");
    const restored = await open();
    assertRestored(await idsIn(restored.store), all);
    await restored.close();
  });
}, UNLESS_LINUX);
