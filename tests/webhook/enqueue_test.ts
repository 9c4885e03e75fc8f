import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { createBaseApp } from "../../app/base_app.ts";
import { HttpError, type LogRecord } from "../../middleware/mod.ts";
import type { Delivery } from "../../events/mod.ts";
import { enqueueDelivery } from "../../webhook/intake.ts";

import { type EventStore, openEventStore } from "../../events/mod.ts";
import { FORGE_SECRET, forgeDelivery } from "../_deliveries.ts";
import { forgeIntake } from "./_intakes.ts";

const body = new TextEncoder().encode('{"ref":"refs/heads/main"}');

const delivery = (deliveryId?: string): Delivery => ({
  platform: "forge",
  source: "github",
  type: "push",
  deliveryId,
  body,
  payload: {},
});

async function closedStore(): Promise<EventStore> {
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  kv.close();
  return store;
}

/** A store that does not answer: a KV cannot be made to hang. */
const hangingStore = { accept: () => new Promise(() => {}) } as unknown as EventStore;

async function postTo(store: EventStore, records: LogRecord[] = []): Promise<Response> {
  const app = createBaseApp({ name: "forge", logger: { log: (record) => records.push(record) } });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store }));
  return await app.request("/webhook", await forgeDelivery("{}"));
}

Deno.test("enqueueDelivery() returns once the event is stored", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  assertEquals(await enqueueDelivery(store, delivery("a")), { id: "a", duplicate: false });
  assertEquals((await store.get("a"))?.state, "queued");
});

Deno.test("enqueueDelivery() stores what the delivery says, and the request's id", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const { id } = await enqueueDelivery(store, { ...delivery(), requestId: "request-1" });
  const { platform, source, type, requestId } = (await store.get(id))!;
  assertEquals([platform, source, type, requestId], ["forge", "github", "push", "request-1"]);
});

Deno.test("enqueueDelivery() tells a duplicate", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  await enqueueDelivery(store, delivery("a"));
  assertEquals(await enqueueDelivery(store, delivery("a")), { id: "a", duplicate: true });
});

Deno.test("enqueueDelivery() rejects with 503 and Retry-After when the store fails", async () => {
  const store = await closedStore();
  const error = await assertRejects(() => enqueueDelivery(store, delivery()), HttpError);
  assertEquals([error.status, error.code], [503, "QUEUE_UNAVAILABLE"]);
  assertEquals(error.headers, { "Retry-After": "5" });
  assert(error.cause instanceof Error);
});

Deno.test("enqueueDelivery() rejects with 503 when the store throws", async () => {
  const store = {
    accept: () => {
      throw new Error("thrown");
    },
  } as unknown as EventStore;
  const error = await assertRejects(() => enqueueDelivery(store, delivery()), HttpError);
  assertEquals(error.status, 503);
});

Deno.test("enqueueDelivery() rejects with 503 when the store takes over 5 s", async () => {
  using time = new FakeTime();
  let settled: unknown;
  const result = enqueueDelivery(hangingStore, delivery()).catch((error) => settled = error);
  await time.tickAsync(4_999);
  assertEquals(settled, undefined);
  await time.tickAsync(1);
  assert(await result instanceof HttpError);
  assertEquals((settled as HttpError).status, 503);
});

Deno.test("forge() answers 503 when the store fails", async () => {
  const response = await postTo(await closedStore());
  assertEquals(response.status, 503);
  assertEquals(response.headers.get("X-Error-Code"), "QUEUE_UNAVAILABLE");
  assertEquals(response.headers.get("Retry-After"), "5");
  assertEquals(await response.json(), { error: "Service Unavailable" });
});

Deno.test("forge() logs once why the store failed, with the request's id", async () => {
  const records: LogRecord[] = [];
  const response = await postTo(await closedStore(), records);
  const [failure, ...others] = records.filter(({ error }) => error !== undefined);
  assertEquals(others, []);
  assertEquals([failure?.level, failure?.["code"]], ["error", "QUEUE_UNAVAILABLE"]);
  assertEquals(failure?.requestId, response.headers.get("X-Request-Id"));
  assert((failure?.["error"] as Error).cause instanceof Error);
});

Deno.test("forge() answers 401 and not 503 to an unverified request when the store fails", async () => {
  const app = createBaseApp({ name: "forge", logger: { log: () => {} } });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store: await closedStore() }));
  const unsigned = await forgeDelivery("{}", { "X-Hub-Signature-256": null });
  assertEquals((await app.request("/webhook", unsigned)).status, 401);
});
