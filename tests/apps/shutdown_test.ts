import { assert, assertEquals } from "@std/assert";
import { sign } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { envOf } from "../_stores.ts";
import { assertWithin } from "../_within.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import type { EngineUnderTest } from "../events/store/engines/_engine.ts";
import { ENGINES, openAt } from "../events/store/engines/mod.ts";
import { telemetryOf } from "./_collector.ts";
import { APP_NEEDS, type OwnAppOptions, type RunningApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

const isMessage = (expected: string) => ({ message }: Record<string, unknown>) =>
  message === expected;

/** Test with an app, and with the state of an event in its store. */
type WithApp<T> = (
  app: RunningApp,
  stateOf: (id: string) => Promise<string | undefined>,
) => Promise<T>;

/** Runs an app whose handler takes a time of its own, with a grace that is its own or the default. */
async function withSlowApp<T>(
  { name: engine, shared }: EngineUnderTest,
  options: Pick<OwnAppOptions, "handlerMs" | "graceMs">,
  fn: WithApp<T>,
): Promise<T> {
  await using place = await shared.open();
  await using app = spawnOwnApp({ ...options, engine }, envOf(place.path!));
  return await fn(app, async (id) => {
    const { store, close } = await openAt({ engine, address: place.address! }, {
      namespace: "own",
    });
    const record = await store.get(`forge:${id}`);
    await close();
    return record?.state;
  });
}

function testSlowApp(name: string, handlerMs: number, fn: WithApp<void>): void {
  for (const engine of ENGINES) {
    const test = () => withSlowApp(engine, { handlerMs, graceMs: 30_000 }, fn);
    testWith(APP_NEEDS, `${name} [${engine.name}]`, test, engine.shared.missing);
  }
}

/** Tests that an app whose handler takes a minute ends in time: `fn` returns how long it took. */
function testEnd(name: string, limitMs: number, fn: WithApp<number>, graceMs = 4_000): void {
  const options = { handlerMs: 60_000, graceMs };
  for (const engine of ENGINES) {
    const test = () => assertWithin(limitMs, () => withSlowApp(engine, options, fn));
    testWith(APP_NEEDS, `${name} [${engine.name}]`, test, engine.shared.missing);
  }
}

/** Delivers an event, and waits until its handler runs. */
async function startHandling(app: RunningApp, id: string): Promise<void> {
  assertEquals((await deliver(app, id)).status, 200);
  await app.line(isMessage("start"));
}

async function assertNotReady(app: RunningApp): Promise<void> {
  const ready = await fetch(`${await app.url}/health/ready`);
  assertEquals([ready.status, await ready.json()], [503, { error: "Service Unavailable" }]);
}

const waits = "runApp() waits for a handler, not ready meanwhile, and ends with 0";
testSlowApp(waits, 3_000, async (app, stateOf) => {
  await startHandling(app, "d1");
  app.process.kill("SIGTERM");
  await app.line(isMessage("stopping"));
  await assertNotReady(app);
  const { level } = await app.line(isMessage("request failed"));
  assertEquals(level, "info");
  assertEquals((await app.process.status).code, 0);
  assertEquals(await stateOf("d1"), "done");
});

testSlowApp("runApp() stops in order when its terminal is closed", 60_000, async (app, stateOf) => {
  if (Deno.build.os === "windows") return;
  await startHandling(app, "d1");
  app.process.kill("SIGHUP");
  const { signal } = await app.line(isMessage("stopping"));
  assertEquals(signal, "SIGHUP");
  app.process.kill("SIGHUP");
  await app.line(isMessage("second signal, ending at once"));
  assertEquals((await app.process.status).code, 1);
  assertEquals(await stateOf("d1"), "running");
});

const silent = "runApp() ends although its collector accepts and never answers";
testWith(APP_NEEDS, silent + (ON_DENO_2_5 ? " (Deno 2.5 does not)" : ""), async () => {
  if (ON_DENO_2_5) return;
  using collector = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const env = {
    ...telemetryOf(`http://127.0.0.1:${collector.addr.port}`),
    ...{ KV_URL: ":memory:", OTEL_EXPORTER_OTLP_TIMEOUT: "200" },
  };
  // Without the limit it took 29 s.
  await assertWithin(10_000, async () => {
    await using app = spawnOwnApp({ graceMs: 1_000 }, env);
    await startHandling(app, "d1");
    const start = performance.now();
    assertEquals(await app.stop(), 0);
    return performance.now() - start;
  });
});

for (const signal of [undefined, "SIGTERM"] as const) {
  const whatever = signal ? ", also if it is told to stop meanwhile" : "";
  testWith(
    APP_NEEDS,
    `runApp() ends with 1 when no handler ends any more${whatever}`,
    () =>
      withFolder(async (folder) => {
        const options = { handlerMs: 60_000, concurrency: 2, timeoutMs: 100, graceMs: 1_000 };
        await using app = spawnOwnApp(options, { KV_URL: `${folder}/kv.db` });
        for (const id of ["d1", "d2"]) await deliver(app, id);
        await app.line(isMessage("handlers do not end, stopping"));
        if (signal) {
          app.process.kill(signal);
          await app.line(isMessage("stopping"));
        }
        assertEquals((await app.process.status).code, 1);
        const messages = ["handler still running", "event failed, to be tried again"];
        assertEquals(messages.map((message) => app.count(message)), [2, 2]);
      }),
  );
}

const gives = "runApp() gives back what a handler holds past the grace";
testEnd(gives, 5_000, async (app, stateOf) => {
  await startHandling(app, "d1");
  const start = performance.now();
  app.process.kill("SIGINT");
  assertEquals((await app.process.status).code, 0);
  const ms = performance.now() - start;
  assertEquals([app.count("aborted"), await stateOf("d1")], [1, "queued"]);
  return ms;
});

const second = "runApp() ends at once on a second signal";
testEnd(second, 10_000, async (app) => {
  await startHandling(app, "d1");
  app.process.kill("SIGTERM");
  await app.line(isMessage("stopping"));
  const start = performance.now();
  app.process.kill("SIGTERM");
  assertEquals((await app.process.status).code, 1);
  return performance.now() - start;
}, 30_000);

for (const busy of [true, false]) {
  const when = busy ? "a handler runs" : "nothing else runs";
  const name = `runApp() answers a request whose body still arrives, when ${when}`;
  testSlowApp(name, 3_000, async (app, stateOf) => {
    if (busy) await startHandling(app, "d1");
    const { hostname, port } = new URL(await app.url);
    using peer = await Deno.connect({ hostname, port: Number(port) });
    const send = (text: string) => peer.write(new TextEncoder().encode(text));
    const head = [
      ...["POST /webhook HTTP/1.1", "Host: x", "Connection: close", "Content-Length: 2"],
      ...["Content-Type: application/json", "X-Forge-Event: push", "X-Forge-Delivery: d2"],
      ...[`X-Hub-Signature-256: ${sign("{}")}`, "", "{"],
    ];
    await send(head.join("\r\n"));
    // The app has no sign to show that it waits for the rest of a body.
    await new Promise((resolve) => setTimeout(resolve, 100));
    app.process.kill("SIGTERM");
    await app.line(isMessage("stopping"));
    await assertNotReady(app);
    await new Promise((resolve) => setTimeout(resolve, 700));
    await send("}");
    const answer = await new Response(peer.readable).text();
    assert(answer.startsWith("HTTP/1.1 200 OK"), answer);
    assertEquals((await app.process.status).code, 0);
    assertEquals(await stateOf("d2"), "queued");
  });
}
