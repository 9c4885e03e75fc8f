/** Two versions of a bot on one store, while one replaces the other. */
import { assertEquals } from "@std/assert";
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { envOf } from "../_stores.ts";
import { deliver } from "../apps/_deliver.ts";
import { openAt } from "../events/store/engines/mod.ts";
import { type SharedStore, testShared } from "./_shared.ts";

const IDS = ["a", "b", "c", "d", "e", "f"];

function start({ at: { engine }, place: { path } }: SharedStore, ...types: string[]): RunningApp {
  const script = new URL("./_versions.ts", import.meta.url);
  const env = { STORE: engine, ...envOf(path!), FORGE_WEBHOOK_SECRET: FORGE_SECRET };
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

testShared(
  "two versions side by side leave events to the one that handles them",
  async (shared) => {
    await using older = start(shared, "push");
    await older.url;
    await using newer = start(shared, "push", "star");
    await newer.url;
    for (const id of IDS) await deliverStar(older, id);
    await until(() => handledBy(newer).length === IDS.length, 60_000);
    assertEquals([handledBy(older), handledBy(newer)], [[], firstAttempts(IDS)]);
    const { store, close } = await openAt(shared.at, { namespace: "rolling" });
    const processes = await store.processes();
    assertEquals(
      processes.map((each) => "isUnreadable" in each ? null : each.version).sort(),
      ["push", "push+star"],
    );
    await older.stop();
    assertEquals((await store.processes()).length, 1);
    close();
  },
);

testShared("a version that was killed gets its events when it is started again", async (shared) => {
  await using newer = start(shared, "push", "star");
  await newer.url;
  newer.process.kill("SIGKILL");
  await newer.process.status;
  await using older = start(shared, "push");
  for (const id of IDS) await deliverStar(older, id);
  await until(() => older.count("event put off") >= IDS.length, 30_000);
  await older.stop();
  await using next = start(shared, "push", "star");
  await until(() => handledBy(next).length === IDS.length, 60_000);
  assertEquals([handledBy(older), handledBy(next)], [[], firstAttempts(IDS)]);
});
