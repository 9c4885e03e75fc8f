import { assert, assertEquals, assertLess } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { sign } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

const isMessage = (expected: string) => ({ message }: Record<string, unknown>) =>
  message === expected;

/** Runs an app whose handler takes a time of its own. */
function testSlowApp(
  name: string,
  handlerMs: number,
  fn: (app: RunningApp, stateOf: (id: string) => Promise<string | undefined>) => Promise<void>,
): void {
  testWith(APP_NEEDS, name, async () => {
    await withFolder(async (folder) => {
      const kvPath = `${folder}/kv.db`;
      await using app = spawnOwnApp({ handlerMs }, { KV_URL: kvPath });
      await fn(app, async (id) => {
        using kv = await Deno.openKv(kvPath);
        const store = await openEventStore(kv, { namespace: "own", notifier: "watch" });
        return (await store.get(`forge:${id}`))?.state;
      });
    });
  });
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
testSlowApp(waits, 1_000, async (app, stateOf) => {
  await startHandling(app, "d1");
  app.process.kill("SIGTERM");
  await app.line(isMessage("stopping"));
  await assertNotReady(app);
  assertEquals((await app.process.status).code, 0);
  assertEquals(await stateOf("d1"), "done");
});

const gives = "runApp() gives back what a handler holds past the grace";
testSlowApp(gives, 60_000, async (app, stateOf) => {
  await startHandling(app, "d1");
  const start = performance.now();
  app.process.kill("SIGINT");
  assertEquals((await app.process.status).code, 0);
  assertLess(performance.now() - start, 5_000);
  assertEquals([app.count("aborted"), await stateOf("d1")], [1, "queued"]);
});

testSlowApp("runApp() ends at once on a second signal", 60_000, async (app) => {
  await startHandling(app, "d1");
  app.process.kill("SIGTERM");
  await app.line(isMessage("stopping"));
  const start = performance.now();
  app.process.kill("SIGTERM");
  assertEquals((await app.process.status).code, 1);
  assertLess(performance.now() - start, 1_000);
});

for (const busy of [true, false]) {
  const when = busy ? "a handler runs" : "nothing else runs";
  const name = `runApp() answers a request whose body still arrives, when ${when}`;
  testSlowApp(name, 1_000, async (app, stateOf) => {
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
