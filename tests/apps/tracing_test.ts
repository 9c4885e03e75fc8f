import { assert, assertEquals, assertLess } from "@std/assert";
import { foundIn } from "../_canaries.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type AppProcess, spawnApp } from "./_app.ts";
import { ANYWHERE, CANARIES, REQUESTS } from "./_canary_requests.ts";

/** What Deno's own tracing is told with. */
const tracing = (endpoint: string) => ({
  OTEL_DENO: "true",
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  OTEL_BSP_SCHEDULE_DELAY: "50",
});

const ENV = {
  FORGE_WEBHOOK_SECRET: CANARIES.forgeSecret,
  FORGE_WEBHOOK_SECRET_PREVIOUS: CANARIES.forgePrevious,
  FORGE_WEBHOOK_TOKEN: CANARIES.forgeToken,
  KV_URL: ":memory:",
};

/** A collector of traces, and all that it was sent. */
function startCollector() {
  const { promise: received, resolve } = Promise.withResolvers<void>();
  const traces: string[] = [];
  const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const server = Deno.serve(quiet, async (request) => {
    traces.push(await request.text());
    resolve();
    return Response.json({});
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  return { url, traces, received, [Symbol.asyncDispose]: () => server.shutdown() };
}

async function sendAll(app: AppProcess): Promise<number[]> {
  const statuses: number[] = [];
  for (const [path, init] of [...REQUESTS.forge, ...ANYWHERE]) {
    const response = await fetch(`${await app.url}${path}`, init);
    await response.body?.cancel();
    statuses.push(response.status);
  }
  return statuses;
}

/** Stops an app, which has to end in order within the grace. */
async function stop(app: AppProcess): Promise<void> {
  const start = performance.now();
  app.process.kill("SIGTERM");
  assertEquals((await app.process.status).code, 0);
  assertLess(performance.now() - start, 5_000);
}

testWith(APP_NEEDS, "traces hold no secret, signature or payload", async () => {
  await using collector = startCollector();
  await using app = spawnApp("forge", { ...ENV, ...tracing(collector.url) });
  await sendAll(app);
  await collector.received;
  await stop(app);
  const { query, ...others } = CANARIES;
  const traces = collector.traces.join("\n");
  assert(traces.includes("http.response.status_code"), traces);
  assertEquals(foundIn(traces, others), []);
  // Deno itself writes the whole URL, and nobody can change that: see the README. A test that fails here
  // tells that it does no longer.
  assertEquals(foundIn(traces, { query }), ["query"]);
});

testWith(APP_NEEDS, "a trace collector that is down has no effect", async () => {
  await using traced = spawnApp("forge", { ...ENV, ...tracing("http://127.0.0.1:9") });
  await using plain = spawnApp("forge", ENV);
  assertEquals(await sendAll(traced), await sendAll(plain));
  await stop(traced);
  assertEquals(traced.lines.filter(({ level }) => level === "error"), []);
});
