import { assert, assertEquals, assertGreater, assertLess, assertNotEquals } from "@std/assert";
import { FORGE_SECRET, forgeDelivery } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnApp, spawnOwnApp } from "./_app.ts";
import { type Collector, type Span, startCollector, telemetryOf, totalOf } from "./_collector.ts";
import { confine } from "./_confined.ts";
import { deliver } from "./_deliver.ts";

const ENV = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: ":memory:" };

/** The trace of W3C's example. */
const SENDERS_TRACE = "0af7651916cd43dd8448eb211c80319c";

/** The kinds of spans, as OTLP numbers them. */
const [SERVER, PRODUCER, CONSUMER] = [2, 4, 5];

const spawnForge = ({ url }: Collector) => spawnApp("forge", { ...ENV, ...telemetryOf(url) });

/** Sends a request, and returns its status. */
async function send(app: RunningApp, path: string, init: RequestInit = {}): Promise<number> {
  const response = await fetch(`${await app.url}${path}`, init);
  await response.body?.cancel();
  return response.status;
}

const ofKind = ({ spans }: Collector, kind: number) =>
  spans.filter((span) => span.kind === kind && !span.name.startsWith("http"));

const childrenOf = ({ spans }: Collector, { spanId }: Span) =>
  spans.filter(({ parentSpanId }) => parentSpanId === spanId);

testWith(APP_NEEDS, "a delivery, its storing and its handling are one trace", async () => {
  await using collector = startCollector();
  await using app = spawnForge(collector);
  assertEquals((await deliver(app, "d-1")).status, 200);
  await collector.until(() => ofKind(collector, CONSUMER).length === 1);
  await collector.until(() => ofKind(collector, SERVER).length === 1);
  const [server] = ofKind(collector, SERVER);
  const [stored] = childrenOf(collector, server!);
  const [handled] = childrenOf(collector, stored!);
  assertEquals([server?.name, stored?.name, handled?.name], [
    "POST /webhook",
    "send forge",
    "process forge",
  ]);
  assertEquals([stored?.kind, handled?.kind], [PRODUCER, CONSUMER]);
  assertEquals(new Set(collector.spans.map(({ traceId }) => traceId)).size, 1);
  assertEquals(handled?.attributes["messaging.message.id"], "forge:d-1");
  assertEquals(handled?.attributes["edge_base.event.outcome"], "handled");
  assertEquals(handled?.status.code, 0);
});

/** Delivers with a sender's trace, and returns the trace that the event is handled in. */
async function continued(env: Record<string, string>): Promise<string | undefined> {
  await using collector = startCollector();
  await using app = spawnApp("forge", { ...ENV, ...telemetryOf(collector.url), ...env });
  const traceparent = `00-${SENDERS_TRACE}-b7ad6b7169203331-01`;
  assertEquals(await send(app, "/webhook", forgeDelivery("{}", { traceparent })), 200);
  await collector.until(() => ofKind(collector, CONSUMER).length === 1);
  return ofKind(collector, CONSUMER)[0]?.traceId;
}

testWith(APP_NEEDS, "a trace that the sender has begun goes on, unless it shall not", async () => {
  assertEquals(await continued({}), SENDERS_TRACE);
  assertNotEquals(await continued({ OTEL_PROPAGATORS: "none" }), SENDERS_TRACE);
});

testWith(
  APP_NEEDS,
  "an event stored before a restart is handled in its delivery's trace",
  async () => {
    await withFolder(async (folder) => {
      await using collector = startCollector();
      const env = { KV_URL: `${folder}/kv.db`, ...telemetryOf(collector.url) };
      const retry = { minDelayMs: 500 };
      await using first = spawnOwnApp({ fails: true, retry }, env);
      await deliver(first, "d-1");
      await collector.until(() => ofKind(collector, CONSUMER).length === 1);
      await first.line(({ message }) => String(message).includes("to be tried again"));
      // Deno can hang while it exports at its end, which is not the point here.
      await first[Symbol.asyncDispose]();
      await using second = spawnOwnApp({}, env);
      await second.line(({ message }) => message === "end");
      await collector.until(() => ofKind(collector, CONSUMER).length === 2);
      const [failed, handled] = ofKind(collector, CONSUMER);
      assertEquals(handled?.traceId, failed?.traceId);
      assertEquals(handled?.parentSpanId, failed?.parentSpanId);
      assertEquals(handled?.attributes["edge_base.event.attempt"], "2");
    });
  },
);

testWith(
  APP_NEEDS,
  "each attempt has a span, which tells the error's name and no more",
  async () => {
    await using collector = startCollector();
    await using app = spawnOwnApp(
      { fails: true, retry: { minDelayMs: 10, maxAttempts: 2 } },
      { KV_URL: ":memory:", ...telemetryOf(collector.url) },
    );
    await deliver(app, "d-1");
    await collector.until(() => ofKind(collector, CONSUMER).length === 2);
    const attempts = ofKind(collector, CONSUMER);
    const own = ["edge_base.event.outcome", "error.type"];
    const error = { code: 2, message: "" };
    assertEquals(attempts.map(({ attributes }) => own.map((name) => attributes[name])), [
      ["retried", "Error"],
      ["dead", "Error"],
    ]);
    assertEquals(attempts.map(({ status }) => status), [error, error]);
    assertEquals(collector.bodies.traces.join().includes("was told to fail"), false);
    assertEquals(new Set(attempts.map(({ traceId }) => traceId)).size, 1);
    // What the handler logs, and what is logged of it, is in its span.
    const ofLine = (text: string) =>
      collector.logs.filter(({ body }) => body.stringValue.includes(text)).map(({ spanId }) =>
        spanId
      );
    await collector.until(() => ofLine("now dead").length === 1);
    const [first, last] = attempts.map(({ spanId }) => spanId);
    assertEquals(ofLine(`"message":"start"`), [first, last]);
    assertEquals([ofLine("to be tried again"), ofLine("now dead")], [[first], [last]]);
    // It is counted by its outcome, and timed only once it is handled.
    const of = (outcome: string) =>
      totalOf(collector, "messaging.client.consumed.messages", {
        "edge_base.event.outcome": outcome,
        "error.type": "Error",
      });
    await collector.until(() => of("dead") === 1);
    assertEquals([of("retried"), totalOf(collector, "edge_base.event.duration")], [1, 0]);
  },
);

testWith(APP_NEEDS, "spans have the route where there is one, and no path as name", async () => {
  await using collector = startCollector();
  await using app = spawnForge(collector);
  await send(app, "/health/live");
  await send(app, "/no/route");
  await send(app, "/webhook", { method: "DELETE" });
  await send(app, "/webhook", { method: "POST" });
  await send(app, "/health", { method: "STRANGER" });
  await collector.until(() => ofKind(collector, SERVER).length === 5);
  const named = ofKind(collector, SERVER).map(({ name, attributes }) => [
    name,
    attributes["http.route"],
  ]);
  named.sort(([a], [b]) => a! < b! ? -1 : 1);
  assertEquals(named, [
    ["DELETE", undefined],
    ["GET", undefined],
    ["GET /health/live", "/health/live"],
    ["HTTP", undefined],
    ["POST /webhook", "/webhook"],
  ]);
  // Deno's own metrics have methods as they are sent. Nobody can change that, and 2,000 series are the most: see
  // docs/limits.md. A test that fails here tells that Deno does no longer.
  const labels = { "http.request.method": "STRANGER" };
  await collector.until(() => totalOf(collector, "http.server.request.duration", labels) === 1);
});

testWith(APP_NEEDS, "deliveries are counted by what became of them", async () => {
  await using collector = startCollector();
  await using app = spawnForge(collector);
  for (const id of ["d-1", "d-1", "d-2"]) await deliver(app, id);
  await send(app, "/webhook", { method: "POST", body: "{}" });
  await send(app, "/webhook", forgeDelivery("{}", { "X-Hub-Signature-256": "sha256=00" }));
  const of = (outcome: string, code?: string) =>
    totalOf(collector, "edge_base.deliveries", {
      "messaging.destination.name": "forge",
      "edge_base.delivery.outcome": outcome,
      ...(code && { "error.type": code }),
    });
  await collector.until(() => of("rejected") === 2);
  assertEquals([of("accepted"), of("duplicate")], [2, 1]);
  assertEquals([of("rejected", "MISSING_SIG"), of("rejected", "INVALID_SIG")], [1, 1]);
  assertEquals(totalOf(collector, "messaging.client.operation.duration"), 3);
});

testWith(APP_NEEDS, "handled events are counted and timed", async () => {
  await using collector = startCollector();
  await using app = spawnOwnApp({ handlerMs: 100 }, {
    KV_URL: ":memory:",
    ...telemetryOf(collector.url),
  });
  const start = performance.now();
  await deliver(app, "d-1");
  await collector.until(() => totalOf(collector, "edge_base.event.duration") === 1);
  const maxS = (performance.now() - start) / 1000;
  const handled = { "edge_base.event.outcome": "handled", "edge_base.event.type": "push" };
  assertEquals(totalOf(collector, "messaging.client.consumed.messages", handled), 1);
  for (const name of ["messaging.process.duration", "edge_base.event.duration"]) {
    const { unit, points } = collector.metrics.get(name)!;
    assertEquals([unit, points.length, points[0]?.value], ["s", 1, 1]);
    assertGreater(points[0]!.sum, 0.09);
    assertLess(points[0]!.sum, maxS);
  }
});

testWith(APP_NEEDS, "the age of the event that waits the longest is reported", async () => {
  await using collector = startCollector();
  const options = { handlerMs: 60_000, concurrency: 1 };
  await using app = spawnOwnApp(options, { KV_URL: ":memory:", ...telemetryOf(collector.url) });
  const age = () => collector.metrics.get("edge_base.events.oldest_due.age")?.points[0]?.value;
  await collector.until(() => age() === 0);
  // The first is handled, some are held by the worker for it, and the others wait.
  for (let i = 0; i < 50; i++) await deliver(app, `d-${i}`);
  await collector.until(() => (age() ?? 0) > 0.5);
  assertEquals(collector.metrics.get("edge_base.events.oldest_due.age")?.unit, "s");
});

testWith(APP_NEEDS, "labels are bounded whatever a stranger sends", async () => {
  await using collector = startCollector();
  await using app = spawnForge(collector);
  for (let i = 0; i < 150; i++) {
    const verified = forgeDelivery("{}", { "X-Forge-Event": `stranger-${i}` });
    assertEquals(await send(app, "/webhook", verified), 200);
    const path = `/stranger/${i}?stranger=${i}`;
    await send(app, path, { headers: { Host: `stranger-${i}`, "User-Agent": `stranger-${i}` } });
    await send(app, "/webhook", {
      method: "POST",
      headers: { "X-Forge-Event": `unverified-${i}` },
    });
  }
  await collector.until(() => totalOf(collector, "messaging.client.consumed.messages") === 150);
  const points = [...collector.metrics].flatMap(([, metric]) => metric.points);
  const labels = points.flatMap((point) => Object.entries(point.labels).map((each) => each.join()));
  const own = labels.filter((label) => label.includes("stranger"));
  assert(own.every((label) => label.startsWith("edge_base.event.type,")), String(own));
  assertEquals(new Set(own).size, 100);
  assert(labels.includes("edge_base.event.type,_OTHER"));
  assertEquals(labels.filter((label) => label.includes("unverified")), []);
});

testWith(APP_NEEDS, "an app reports under its own permissions, to its end", async () => {
  await withFolder(async (folder) => {
    await using collector = startCollector();
    const { start } = await confine("forge", folder);
    await using app = start({
      ...telemetryOf(collector.url),
      OTEL_METRIC_EXPORT_INTERVAL: "60000",
      OTEL_BSP_SCHEDULE_DELAY: "60000",
    });
    await deliver(app, "d-1");
    await app.line(({ message }) => message === "event handled");
    // Deno 2.5 does not export what is reported right before the end.
    if (ON_DENO_2_5) await new Promise((resolve) => setTimeout(resolve, 1_500));
    assertEquals([await app.stop(), await app.ended], [0, ""]);
    await collector.until(() => ofKind(collector, CONSUMER).length === 1);
    await collector.until(() => totalOf(collector, "edge_base.deliveries") === 1);
  });
});
