import {
  assert,
  assertEquals,
  assertGreater,
  assertLess,
  assertMatch,
  assertRejects,
} from "@std/assert";
import { defineApp, forge, openEventStore, runApp } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { openSqlite } from "../_sqlite.ts";
import { assertWithin } from "../_within.ts";
import { APP_NEEDS, type OwnAppOptions, type RunningApp, spawnOwnApp } from "../apps/_app.ts";
import { deliver } from "../apps/_deliver.ts";
import { delivery } from "../events/store/_events.ts";
import { until } from "../../dev/harness/until.ts";

const own = defineApp({ name: "own", platform: forge() });

Deno.test("runApp() refuses options that make no sense, and opens nothing", async () => {
  for (const graceMs of [-1, NaN, Infinity, 2 ** 31]) {
    await assertRejects(() => runApp(own, { graceMs }), RangeError, "'graceMs'");
  }
});

/** Runs a script that runs an app and cannot start it, and returns what is said of that. */
async function failToStart(script: string): Promise<string> {
  const names = "defineApp, forge, required, runApp";
  const imports = `import { ${names} } from "${new URL("../../mod.ts", import.meta.url)}";`;
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--cached-only", "--quiet", "--unstable-kv", `${imports}\n${script}`],
    cwd: new URL("../..", import.meta.url),
  }).output();
  assertEquals(code, 1);
  return new TextDecoder().decode(stderr).trimEnd();
}

testWith(
  ["run"],
  "runApp() names all variables that are missing or wrong, however many",
  async () => {
    const said = await failToStart(`
      const env = Object.fromEntries(Array.from({ length: 30 }, (_, i) => ["OWN_VARIABLE_" + i, required]));
      await runApp(defineApp({ name: "own", platform: forge(), env }), { env: { LOG_FORMAT: "pretty" } });
    `);
    assertMatch(
      said,
      /^Cannot start own: FORGE_WEBHOOK_SECRET is not set; OWN_VARIABLE_0 is not set; /,
    );
    assertMatch(said, /OWN_VARIABLE_29 is not set; .*LOG_FORMAT must be auto, json or text$/);
  },
);

for (const part of ["resources", "routes"]) {
  testWith(["run"], `runApp() says where ${part}() has failed, on the same line`, async () => {
    const said = await failToStart(`
      const platform = forge({ secrets: ["It's a Secret to Everybody"] });
      const failing = () => {
        undefined.open();
      };
      const app = defineApp({ name: "own", platform, ${part}: failing }).on("push", () => {});
      await runApp(app, { env: { KV_URL: ":memory:" } });
    `);
    const reason = String.raw`Cannot read properties of undefined \(reading 'open'\)`;
    // The fifth line of the script, below the imports.
    assertMatch(said, new RegExp(String.raw`^Cannot start own: ${reason} \(at file:\S+:5:19\)$`));
  });
}

/** Runs an app with options of its own, on a file. */
function withOwnApp<T>(
  options: OwnAppOptions,
  fn: (app: RunningApp, kvPath: string) => Promise<T>,
): Promise<T> {
  return withFolder(async (folder) => {
    await using app = spawnOwnApp(options, { KV_URL: `${folder}/kv.db` });
    return await fn(app, `${folder}/kv.db`);
  });
}

function testOwnApp(
  name: string,
  options: OwnAppOptions,
  fn: (app: RunningApp, kvPath: string) => Promise<void>,
): void {
  testWith(APP_NEEDS, name, () => withOwnApp(options, fn));
}

const isMessage = (expected: string) => ({ message }: Record<string, unknown>) =>
  message === expected;

async function stateOf(kvPath: string, id: string): Promise<string | undefined> {
  using kv = await Deno.openKv(kvPath);
  return (await (await openEventStore(kv, { namespace: "own", notifier: "watch" })).get(id))?.state;
}

/** Puts an event under the name that an app had. */
async function leaveEvent(kvPath: string, namespace: string): Promise<void> {
  using kv = await Deno.openKv(kvPath);
  const store = await openEventStore(kv, { namespace, notifier: "watch" });
  await store.accept({ ...delivery("left"), intake: "forge" });
}

const isOther = isMessage("other events in the database");

testWith(
  APP_NEEDS,
  "runApp() warns of events that another name has left, and takes them over",
  () =>
    withFolder(async (folder) => {
      const kvPath = `${folder}/kv.db`;
      await leaveEvent(kvPath, "old");
      {
        await using renamed = spawnOwnApp({}, { KV_URL: kvPath });
        const { level, name, namespace, others, remedy } = await renamed.line(isOther);
        assertEquals([level, name, namespace, others], ["warn", "own", "own", ["old"]]);
        assertEquals(
          remedy,
          "if this app had another name, give defineApp the option 'namespace' with that name",
        );
        assertEquals(await renamed.stop(), 0);
      }
      await using app = spawnOwnApp({ namespace: "old" }, { KV_URL: kvPath });
      await app.line(isMessage("end"));
      assertEquals(await app.stop(), 0);
      assertEquals([app.count("start", "left"), app.count("other events in the database")], [1, 0]);
      using kv = await Deno.openKv(kvPath);
      const store = await openEventStore(kv, { namespace: "old", notifier: "watch" });
      const events = await Array.fromAsync(store.list());
      assertEquals(events.map(({ state }) => state), ["done"]);
    }),
);

testWith(
  APP_NEEDS,
  "runApp() warns of no others where it has events of its own, or there are none",
  () =>
    withFolder(async (folder) => {
      const kvPath = `${folder}/kv.db`;
      for (const namespace of ["own", "old"]) {
        await using app = spawnOwnApp({}, { KV_URL: kvPath });
        if (namespace === "old") await app.line(isMessage("end"));
        else await app.url;
        assertEquals(await app.stop(), 0);
        assertEquals(app.lines.filter(({ level }) => level === "warn"), []);
        for (const each of ["own", "old"]) await leaveEvent(kvPath, each);
      }
    }),
);

const twelve = { concurrency: 12, handlerMs: 60_000 };
testOwnApp("runApp() handles as many events at once as asked", twelve, async (app) => {
  for (let i = 0; i < 13; i++) assertEquals((await deliver(app, `d${i}`)).status, 200);
  await until(() => app.count("start") === 12, 20_000);
});

const leased = { leaseMs: 120_000, handlerMs: 60_000 };
testOwnApp("runApp() leases events for as long as asked", leased, async (app, kvPath) => {
  await deliver(app, "d1");
  await app.line(isMessage("start"));
  using kv = await Deno.openKv(kvPath);
  const store = await openEventStore(kv, { namespace: "own", notifier: "watch" });
  const remainingMs = (await store.get("forge:d1"))!.lease!.until - Date.now();
  assertGreater(remainingMs, 60_000);
  assertLess(remainingMs, 120_001);
});

const twice = { fails: true, retry: { minDelayMs: 1, maxAttempts: 2 } };
testOwnApp("runApp() tries failed events again as asked", twice, async (app, kvPath) => {
  await deliver(app, "d1");
  await app.line(isMessage("event failed for the last time, now dead"));
  assertEquals([app.count("start"), await stateOf(kvPath, "forge:d1")], [2, "dead"]);
});

const aDay = { retentionMs: 86_400_000 };
testOwnApp("runApp() remembers done events for as long as asked", aDay, async (app, kvPath) => {
  await deliver(app, "d1");
  await until(async () => await stateOf(kvPath, "forge:d1") === "done", 20_000);
  // When the KV forgets what it holds, it tells nobody: its file does.
  using file = openSqlite(kvPath, { readOnly: true });
  const rows = file.database.prepare("SELECT expiration_ms - ? AS ms FROM kv").all(Date.now());
  assert(rows.some(({ ms }) => Math.abs(Number(ms) - aDay.retentionMs) < 10_000));
});

const briefly = { graceMs: 400, handlerMs: 60_000 };
testWith(
  APP_NEEDS,
  "runApp() gives handlers the grace that was asked",
  () =>
    assertWithin(20_000, () =>
      withOwnApp(briefly, async (app, kvPath) => {
        await deliver(app, "d1");
        await app.line(isMessage("start"));
        const start = performance.now();
        assertEquals(await app.stop(), 0);
        const ms = performance.now() - start;
        assert(ms >= 400, `It took ${ms} ms`);
        assertEquals(await stateOf(kvPath, "forge:d1"), "queued");
        return ms;
      })),
);

for (const leaves of ["promise", "timer"] as const) {
  const name =
    `runApp() logs an error that nothing catches, of a ${leaves}, and ends in order with 1`;
  testOwnApp(name, { leaves: [leaves], handlerMs: 1_000 }, async (app, kvPath) => {
    await deliver(app, "d1");
    await app.line(isMessage("stopping"));
    const ready = await fetch(`${await app.url}/health/ready`);
    assertEquals([ready.status, await ready.json()], [503, { error: "Service Unavailable" }]);
    assertEquals([(await app.process.status).code, await app.ended], [1, ""]);
    const { error, ...line } = await app.line(isMessage("uncaught error, stopping"));
    assertEquals((error as Error).message, "Nobody waits for this");
    assertEquals([line.level, line.name], ["error", "own"]);
    assertEquals(await stateOf(kvPath, "forge:d1"), "done");
  });
}

const leaving = { leaves: ["promise", "timer"], handlerMs: 1_000 } as const;
const second =
  "runApp() goes on stopping when another error comes that nothing catches, or a signal";
testOwnApp(second, leaving, async (app, kvPath) => {
  await deliver(app, "d1");
  await app.line(isMessage("stopping"));
  app.process.kill("SIGTERM");
  assertEquals([(await app.process.status).code, await app.ended], [1, ""]);
  assertEquals([app.count("uncaught error, stopping"), app.count("stopping")], [2, 1]);
  assertEquals(await stateOf(kvPath, "forge:d1"), "done");
});

testOwnApp(
  "runApp() does not start with routes that come too late",
  { isAsync: true },
  async (app) => {
    assertEquals([(await app.process.status).code, await app.ended], [
      1,
      "Cannot start own: Cannot open the app: 'routes' must not be async, since it adds routes too late\n",
    ]);
  },
);

testOwnApp(
  "runApp() does not lend the store's queue to an app",
  { enqueues: true },
  async (app) => {
    const [{ code }, error] = await Promise.all([app.process.status, app.ended]);
    assertEquals(code, 1);
    assertMatch(
      error,
      /^Cannot start own: Cannot enqueue in the KV of the event store: .*"watch"\n$/,
    );
  },
);

const marked = { mark: "own", fails: true };
testOwnApp("runApp() reports where it was told to", marked, async (app) => {
  await deliver(app, "d1");
  await app.line(isMessage("event failed, to be tried again"));
  await app.stop();
  const written = app.lines.filter(({ mark }) => mark === "own").map(({ message }) => message);
  assertEquals(written.toSorted(), [
    ...["event failed, to be tried again", "listening", "request", "stopping"],
  ]);
});

for (
  const [where, env, byConsole] of [
    ["to its standard output", {}, undefined],
    ["through the console on Deno Deploy, which listens to that", { DENO_DEPLOY: "1" }, true],
  ] as const
) {
  testWith(APP_NEEDS, `runApp() logs ${where}`, async () => {
    await using app = spawnOwnApp({ marksConsole: true }, { KV_URL: ":memory:", ...env });
    const line = await app.line(isMessage("listening"));
    assertEquals(line.byConsole, byConsole);
  });
}
