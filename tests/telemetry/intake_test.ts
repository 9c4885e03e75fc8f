import { assert, assertEquals } from "@std/assert";
import { createBaseApp } from "../../app/base_app.ts";
import type { CountedDelivery } from "../../telemetry/telemetry.ts";
import type { IntakeStore } from "../../webhook/intake.ts";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { memoryStore } from "../events/store/kv/_stores.ts";
import { recordTelemetry } from "./_recording.ts";
import { forgeIntake, messengerIntake, type MessengerIntakeOptions } from "../webhook/_intakes.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const update = { update_id: 1, message: { from: { id: 42 }, text: "hi" } };

/** A store that takes nothing. */
const FULL: IntakeStore = {
  maxPayloadBytes: 1e9,
  retentionMs: 1e9,
  accept: () => Promise.reject(new Error("The disk is full")),
};

/** Counts of a messenger's intake for an update of a user who is not allowed. */
async function counted(options: Partial<MessengerIntakeOptions>): Promise<CountedDelivery[]> {
  const telemetry = recordTelemetry();
  const app = createBaseApp({ name: "bot", logger: { log: () => {} } });
  const secrets = [MESSENGER_SECRET];
  app.route("/", messengerIntake({ secrets, store: FULL, telemetry, ...options }));
  await app.request("/webhook", messengerUpdate(update));
  return telemetry.deliveries;
}

Deno.test("an intake keeps the trace of a delivery in its event's record", async () => {
  const { kv, store } = await memoryStore();
  using _ = kv;
  const telemetry = recordTelemetry(TRACEPARENT);
  const app = createBaseApp({ name: "bot", logger: false });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store, telemetry }));
  await app.request("/webhook", forgeDelivery("{}", { "X-Forge-Delivery": "d-1" }));
  assertEquals((await store.get("forge:d-1"))?.traceparent, TRACEPARENT);
  assertEquals(telemetry.deliveries, [
    { platform: "forge", intake: "forge", outcome: "accepted", type: "push" },
  ]);
});

Deno.test("an intake without telemetry keeps no trace, whatever the sender says", async () => {
  const { kv, store } = await memoryStore();
  using _ = kv;
  const app = createBaseApp({ name: "bot", logger: false });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store }));
  const headers = { "X-Forge-Delivery": "d-1", traceparent: TRACEPARENT };
  await app.request("/webhook", forgeDelivery("{}", headers));
  assertEquals("traceparent" in (await store.get("forge:d-1"))!, false);
});

Deno.test("an intake counts users who are not allowed, as rejected or ignored", async () => {
  const [rejected, ignored] = [await counted({}), await counted({ unauthorized: "ignore" })];
  const of = { platform: "messenger", intake: "messenger" };
  const [{ request, ...counts }] = rejected as [CountedDelivery];
  assertEquals(counts, { ...of, outcome: "rejected", code: "AUTH_001", verified: true });
  assert(request!().headers.has("Content-Type"));
  assertEquals(ignored, [{ ...of, outcome: "ignored" }]);
});

Deno.test("an intake counts what the store does not take, and what it stumbles over", async () => {
  const [unstored] = await counted({ isAuthorized: () => true });
  assertEquals(unstored?.code, "QUEUE_UNAVAILABLE");
  const [failed] = await counted({ isAuthorized: () => Promise.reject(new Error("no")) });
  assertEquals(failed?.code, "INTERNAL");
});

Deno.test("an intake tells a delivery that was not verified from one that was, and is none", async () => {
  const { kv, store } = await memoryStore();
  using _ = kv;
  const telemetry = recordTelemetry();
  const app = createBaseApp({ name: "bot", logger: { log: () => {} } });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store, telemetry }));
  const signature = `sha256=${"0".repeat(64)}`;
  await app.request("/webhook", forgeDelivery("{}", { "X-Hub-Signature-256": signature }));
  await app.request("/webhook", forgeDelivery("no JSON"));
  assertEquals(telemetry.deliveries.map(({ code, verified }) => [code, verified]), [
    ["INVALID_SIG", false],
    ["INVALID_BODY", true],
  ]);
});
