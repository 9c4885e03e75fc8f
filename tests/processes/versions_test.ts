/** Two versions of a bot on one store, while one replaces the other. */
import { assertEquals } from "@std/assert";
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { deliver } from "../apps/_deliver.ts";
import { testWith } from "../_permissions.ts";
import type { EngineUnderTest } from "../events/store/engines/_engine.ts";
import { addressOf } from "../events/store/engines/kv.ts";
import { ENGINES } from "../events/store/engines/mod.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

/** A file that apps have their store in. */
interface StoreFile {
  readonly engine: EngineUnderTest;
  readonly path: string;
}

/** Registers a test for each engine. */
function testEngines(name: string, fn: (file: StoreFile) => Promise<void>): void {
  for (const engine of ENGINES) {
    testWith(NEEDS, `${name} [${engine.name}]`, async () => {
      await withFolder((folder) => fn({ engine, path: `${folder}/store.db` }));
    });
  }
}

const IDS = ["a", "b", "c", "d", "e", "f"];

function start({ engine: { name }, path }: StoreFile, ...types: string[]): RunningApp {
  const script = new URL("./_versions.ts", import.meta.url);
  const env = { STORE: name, KV_URL: path, SQLITE_FILE: path, FORGE_WEBHOOK_SECRET: FORGE_SECRET };
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

testEngines("two versions side by side leave events to the one that handles them", async (file) => {
  await using older = start(file, "push");
  await older.url;
  await using newer = start(file, "push", "star");
  await newer.url;
  for (const id of IDS) await deliverStar(older, id);
  await until(() => handledBy(newer).length === IDS.length, 60_000);
  assertEquals([handledBy(older), handledBy(newer)], [[], firstAttempts(IDS)]);
  const address = file.engine.name === "kv" ? addressOf(file.path, "watch") : file.path;
  const { store, close } = await file.engine.openAt(address, { namespace: "rolling" });
  const processes = await store.processes();
  assertEquals(
    processes.map((each) => "isUnreadable" in each ? null : each.version).sort(),
    ["push", "push+star"],
  );
  await older.stop();
  assertEquals((await store.processes()).length, 1);
  close();
});

testEngines("a version that was killed gets its events when it is started again", async (file) => {
  await using newer = start(file, "push", "star");
  await newer.url;
  newer.process.kill("SIGKILL");
  await newer.process.status;
  await using older = start(file, "push");
  for (const id of IDS) await deliverStar(older, id);
  await until(() => older.count("event put off") >= IDS.length, 30_000);
  await older.stop();
  await using next = start(file, "push", "star");
  await until(() => handledBy(next).length === IDS.length, 60_000);
  assertEquals([handledBy(older), handledBy(next)], [[], firstAttempts(IDS)]);
});
