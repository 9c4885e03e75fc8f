import { assert, assertEquals, assertLess } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { FORGE_SECRET, forgeDelivery, sign } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { until } from "../processes/_process.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

/** An app by `runApp` whose handler takes as long as it is told to. */
interface SlowApp extends AsyncDisposable {
  readonly process: Deno.ChildProcess;
  readonly url: string;
  readonly kv: string;
  logged(message: string): boolean;
}

async function startSlowApp(folder: string, handlerMs: number): Promise<SlowApp> {
  const kv = `${folder}/kv.db`;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "-A", new URL("./_slow_app.ts", import.meta.url).href, `${handlerMs}`],
    env: { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: kv, PORT: "0", HOST: "127.0.0.1" },
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let output = "";
  const following = (async () => {
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) output += text;
  })();
  await until(() => /"port":(\d+)/.test(output), 5_000);
  return {
    process,
    url: `http://127.0.0.1:${/"port":(\d+)/.exec(output)![1]}`,
    kv,
    logged: (message) => output.includes(`"message":"${message}"`),
    [Symbol.asyncDispose]: async () => {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended already.
      }
      await Promise.all([process.status, following]);
    },
  };
}

async function deliver(app: SlowApp, id: string): Promise<number> {
  const init = await forgeDelivery("{}", { "X-Forge-Delivery": id });
  const response = await fetch(`${app.url}/webhook`, init);
  await response.body?.cancel();
  return response.status;
}

async function stateOf(app: SlowApp, id: string): Promise<string | undefined> {
  using kv = await Deno.openKv(app.kv);
  return (await (await openEventStore(kv, { namespace: "slow", bell: "watch" })).get(id))?.state;
}

testWith(NEEDS, "runApp() waits for a handler, not ready meanwhile, and ends with 0", async () => {
  await withFolder(async (folder) => {
    await using app = await startSlowApp(folder, 1_000);
    assertEquals(await deliver(app, "d1"), 200);
    await until(() => app.logged("start"), 2_000);
    app.process.kill("SIGTERM");
    await until(() => app.logged("stopping"), 1_000);
    const ready = await fetch(`${app.url}/health/ready`);
    assertEquals([ready.status, await ready.json()], [503, { error: "Service Unavailable" }]);
    assertEquals((await app.process.status).code, 0);
    assertEquals(await stateOf(app, "d1"), "done");
  });
});

testWith(NEEDS, "runApp() gives back what a handler holds past the grace", async () => {
  await withFolder(async (folder) => {
    await using app = await startSlowApp(folder, 60_000);
    assertEquals(await deliver(app, "d1"), 200);
    await until(() => app.logged("start"), 2_000);
    const start = performance.now();
    app.process.kill("SIGINT");
    assertEquals((await app.process.status).code, 0);
    assertLess(performance.now() - start, 5_000);
    assert(app.logged("aborted"));
    assertEquals(await stateOf(app, "d1"), "queued");
  });
});

testWith(NEEDS, "runApp() ends at once on a second signal", async () => {
  await withFolder(async (folder) => {
    await using app = await startSlowApp(folder, 60_000);
    assertEquals(await deliver(app, "d1"), 200);
    await until(() => app.logged("start"), 2_000);
    app.process.kill("SIGTERM");
    await until(() => app.logged("stopping"), 1_000);
    const start = performance.now();
    app.process.kill("SIGTERM");
    assertEquals((await app.process.status).code, 1);
    assertLess(performance.now() - start, 1_000);
  });
});

for (const busy of [true, false]) {
  const when = busy ? "a handler runs" : "nothing else runs";
  testWith(NEEDS, `runApp() answers a request whose body still arrives, when ${when}`, async () => {
    await withFolder(async (folder) => {
      await using app = await startSlowApp(folder, 1_000);
      if (busy) {
        assertEquals(await deliver(app, "d1"), 200);
        await until(() => app.logged("start"), 2_000);
      }
      const { hostname, port } = new URL(app.url);
      using peer = await Deno.connect({ hostname, port: Number(port) });
      const send = (text: string) => peer.write(new TextEncoder().encode(text));
      const head = [
        ...["POST /webhook HTTP/1.1", "Host: x", "Content-Type: application/json"],
        ...[
          "X-Forge-Event: push",
          "X-Forge-Delivery: d2",
          "Connection: close",
          "Content-Length: 2",
        ],
        ...[`X-Hub-Signature-256: ${await sign("{}")}`, "", "{"],
      ];
      await send(head.join("\r\n"));
      // The app has no sign to show that it waits for the rest of a body.
      await new Promise((resolve) => setTimeout(resolve, 100));
      app.process.kill("SIGTERM");
      await until(() => app.logged("stopping"), 1_000);
      const ready = await fetch(`${app.url}/health/ready`);
      await ready.body?.cancel();
      assertEquals(ready.status, 503);
      await new Promise((resolve) => setTimeout(resolve, 700));
      await send("}");
      const answer = await new Response(peer.readable).text();
      assert(answer.startsWith("HTTP/1.1 200 OK"), answer);
      assertEquals((await app.process.status).code, 0);
      assertEquals(await stateOf(app, "d2"), "queued");
    });
  });
}
