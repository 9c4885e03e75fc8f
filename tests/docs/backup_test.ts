import { assertEquals } from "@std/assert";
import { run } from "../../dev/harness/run.ts";
import { openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith, unlessInstalled } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "../apps/_app.ts";
import { deliver } from "../apps/_deliver.ts";
import { blocks, read } from "./_documents.ts";

/** Runs the commands that the guide shows, on the file of the test, and returns their output. */
async function follow(kind: "backup" | "restore", cwd: string): Promise<string> {
  const [shown] = blocks(await read("docs/storage.md"), `sh ${kind}`);
  const commands = shown!.replaceAll("data/triage.db", "data/kv.db");
  const { code, stdout, stderr } = await run("sh", ["-euc", commands], { cwd });
  assertEquals([code, stderr], [0, ""]);
  return stdout;
}

/** The ids of the events in a KV, each with its payload. */
async function idsIn(path: string): Promise<Set<string>> {
  using kv = await Deno.openKv(path);
  const store = await openEventStore(kv, { namespace: "own" });
  const ids = new Set<string>();
  for await (const { id } of store.list()) {
    const record = await store.get(id);
    assertEquals((await store.load({ record: record! })).byteLength, 2);
    ids.add(record!.deliveryId!);
  }
  return ids;
}

/** Delivers one after the other until told to stop. */
function keepDelivering(app: RunningApp): () => Promise<void> {
  let ends = false;
  const delivering = (async () => {
    for (let i = 0; !ends; i++) assertEquals((await deliver(app, `d-${i}`)).status, 200);
  })();
  return () => {
    ends = true;
    return delivering;
  };
}

const backsUp = "docs/storage.md backs a KV up that is written to, and goes back to it";
testWith(APP_NEEDS, backsUp, async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/data/kv.db`;
    await Deno.mkdir(`${folder}/data`, { recursive: true });
    {
      const retry = { minDelayMs: 3_600_000 };
      await using app = spawnOwnApp({ fails: true, retry }, { KV_URL: path });
      assertEquals((await deliver(app, "before")).status, 200);
      const stop = keepDelivering(app);
      assertEquals(await follow("backup", folder), "ok");
      assertEquals((await deliver(app, "after")).status, 200);
      await stop();
    }
    const all = await idsIn(path);
    await follow("restore", folder);
    const restored = await idsIn(path);
    assertEquals([restored.has("before"), restored.has("after")], [true, false]);
    assertEquals([all.has("after"), restored.isSubsetOf(all)], [true, true]);
  });
}, unlessInstalled("sqlite3"));
