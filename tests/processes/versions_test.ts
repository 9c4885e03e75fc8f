/** Two versions of a bot on one KV, while one replaces the other. */
import { assertEquals } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { deliver } from "../apps/_deliver.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const IDS = ["a", "b", "c", "d", "e", "f"];

function start(path: string, ...types: string[]): RunningApp {
  const script = new URL("./_versions.ts", import.meta.url);
  const env = { KV_URL: path, FORGE_WEBHOOK_SECRET: FORGE_SECRET };
  return startApp({ script, args: types, env });
}

async function deliverStar(app: RunningApp, id: string): Promise<void> {
  const { status, text } = await deliver(app, id, "{}", { "X-Forge-Event": "star" });
  assertEquals([status, text], [200, "OK"]);
}

const handledBy = (app: RunningApp) =>
  app.lines.filter(({ message }) => message === "handled")
    .map(({ id, attempt }) => `${String(id).slice(-1)}${attempt}`).sort();

const firstAttempts = (ids: readonly string[]) => ids.map((id) => `${id}1`);

testWith(NEEDS, "two versions side by side leave events to the one that handles them", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/kv.db`;
    await using older = start(path, "push");
    await older.url;
    await using newer = start(path, "push", "star");
    await newer.url;
    for (const id of IDS) await deliverStar(older, id);
    await until(() => handledBy(newer).length === IDS.length, 60_000);
    assertEquals([handledBy(older), handledBy(newer)], [[], firstAttempts(IDS)]);
    using kv = await Deno.openKv(path);
    const store = await openEventStore(kv, { namespace: "rolling", notifier: "watch" });
    const processes = await store.processes();
    assertEquals(
      processes.map((each) => "isUnreadable" in each ? null : each.version).sort(),
      ["push", "push+star"],
    );
    await older.stop();
    assertEquals((await store.processes()).length, 1);
  });
});

testWith(NEEDS, "a version that was killed gets its events when it is started again", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/kv.db`;
    await using newer = start(path, "push", "star");
    await newer.url;
    newer.process.kill("SIGKILL");
    await newer.process.status;
    await using older = start(path, "push");
    for (const id of IDS) await deliverStar(older, id);
    await until(() => older.count("event put off") >= IDS.length, 30_000);
    await older.stop();
    await using next = start(path, "push", "star");
    await until(() => handledBy(next).length === IDS.length, 60_000);
    assertEquals([handledBy(older), handledBy(next)], [[], firstAttempts(IDS)]);
  });
});
