import { assertEquals, assertGreaterOrEqual, assertThrows } from "@std/assert";
import type { IntakeStore } from "../../webhook/intake.ts";
import { type EventRecord, openEventStore } from "../../events/mod.ts";
import { openSqlite } from "../_sqlite.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { claimOne } from "../events/store/_events.ts";
import { FORGE_SECRET, forgeDelivery, sign } from "../_deliveries.ts";
import { forgeIntake, type ForgeIntakeOptions, openIntake } from "./_intakes.ts";

const HOUR_MS = 3_600_000;

/** A forge's app with a window of an hour, and its store. */
async function createForge(options: Partial<ForgeIntakeOptions> = {}) {
  const sut = await openIntake((store) =>
    forgeIntake({ secrets: [FORGE_SECRET], store, replayWindowMs: HOUR_MS, ...options })
  );
  const events = () => Array.fromAsync(sut.store.list());
  return {
    ...{ ...sut, events },
    ids: async () => (await events()).map(({ id }) => id).sort(),
    post: async (body: string, headers: Record<string, string | null> = {}) => {
      const response = await sut.post(forgeDelivery(body, headers));
      return [response.status, await response.text()];
    },
  };
}

const id = (deliveryId: string | null) => ({ "X-Forge-Delivery": deliveryId });

Deno.test("replayWindowMs answers 200 to a document under another id, and makes no event", async () => {
  using forge = await createForge();
  assertEquals(await forge.post("{}", id("d1")), [200, "OK"]);
  assertEquals(await forge.post("{}", id("d2")), [200, "OK"]);
  assertEquals(await forge.ids(), ["forge:d1"]);
  const logged = forge.records.map(({ eventId, duplicate }) => [eventId, duplicate]);
  assertEquals(logged, [["forge:d1", false], ["forge:d1", true]]);
});

Deno.test("replayWindowMs is not deceived by another event type, or by no id", async () => {
  using forge = await createForge();
  await forge.post("{}", id("d1"));
  await forge.post("{}", { ...id("d2"), "X-Forge-Event": "issues" });
  await forge.post("{}", { ...id("d3"), "X-Forge-Event": null, "X-GitHub-Event": "push" });
  await forge.post("{}", id(null));
  assertEquals(await forge.ids(), ["forge:d1"]);
});

Deno.test("replayWindowMs is not deceived by a form around the document that is signed", async () => {
  using forge = await createForge();
  await forge.post("{}", id("d1"));
  const form = {
    "Content-Type": "application/x-www-form-urlencoded",
    "X-Hub-Signature-256": await sign("{}"),
  };
  assertEquals(await forge.post("payload=%7B%7D", { ...form, ...id("d2") }), [200, "OK"]);
  assertEquals(await forge.ids(), ["forge:d1"]);
});

Deno.test("replayWindowMs makes one event of 50 copies under 50 ids at once", async () => {
  using forge = await createForge();
  const copies = Array.from({ length: 50 }, (_, i) => forge.post("{}", id(`d${i}`)));
  assertEquals(new Set((await Promise.all(copies)).map(([status]) => status)), new Set([200]));
  assertEquals((await forge.ids()).length, 1);
});

Deno.test("replayWindowMs knows a document without an id again", async () => {
  using forge = await createForge();
  for (let i = 0; i < 3; i++) await forge.post("{}", id(null));
  assertEquals((await forge.ids()).length, 1);
});

Deno.test("replayWindowMs takes different documents, and the same delivery twice", async () => {
  using forge = await createForge();
  for (const [body, name] of [["{}", "d1"], ['{"a":1}', "d2"], ["{}", "d1"]] as const) {
    assertEquals(await forge.post(body, id(name)), [200, "OK"]);
  }
  assertEquals(await forge.ids(), ["forge:d1", "forge:d2"]);
});

Deno.test("without replayWindowMs equal documents under different ids are events each", async () => {
  using forge = await createForge({ replayWindowMs: undefined });
  for (const name of ["d1", "d2"]) await forge.post("{}", id(name));
  assertEquals(await forge.ids(), ["forge:d1", "forge:d2"]);
});

Deno.test("forge() hands the window to the store, and makes up no delivery id", async () => {
  const accepted: Parameters<IntakeStore["accept"]>[] = [];
  const store: IntakeStore = {
    maxPayloadBytes: 100_000_000,
    retentionMs: HOUR_MS,
    accept: (...args) => {
      accepted.push(args);
      return Promise.resolve({ id: "forge:d1", duplicate: false });
    },
  };
  const intake = forgeIntake({ secrets: [FORGE_SECRET], store, replayWindowMs: HOUR_MS });
  await intake.request("/webhook", await forgeDelivery("{}", id(null)));
  const [[delivery, options]] = accepted as [Parameters<IntakeStore["accept"]>];
  assertEquals([delivery.deliveryId, options], [undefined, { replayWindowMs: HOUR_MS }]);
});

Deno.test("replayWindowMs records no delivery id for a delivery without one", async () => {
  using forge = await createForge();
  await forge.post("{}", id(null));
  const [event] = await forge.events();
  assertEquals((event as EventRecord).deliveryId ?? undefined, undefined);
});

Deno.test("forge() refuses a replay window that makes no sense", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  for (const replayWindowMs of [0, -1, NaN, Infinity, 1e12]) {
    const create = () => forgeIntake({ secrets: [FORGE_SECRET], store, replayWindowMs });
    assertThrows(create, RangeError, "'replayWindowMs'");
  }
});

Deno.test("forge() refuses a replay window that outlasts what the store remembers", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { retentionMs: HOUR_MS });
  const createWith = (replayWindowMs: number) =>
    forgeIntake({ secrets: [FORGE_SECRET], store, replayWindowMs });
  createWith(HOUR_MS);
  assertThrows(() => createWith(HOUR_MS + 1), RangeError, "the store's 'retentionMs', got 3600001");
});

testWith(
  ["read", "write"],
  "a store remembers an event until the longest window is over",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      using kv = await Deno.openKv(path);
      const store = await openEventStore(kv, { retentionMs: HOUR_MS });
      using forge = await createForge({ store });
      assertEquals(await forge.post("{}", id("d1")), [200, "OK"]);
      await store.complete(await claimOne(store));
      // When the KV forgets what it holds, it tells nobody: its file does.
      using file = openSqlite(path, { readOnly: true });
      const select = "SELECT expiration_ms AS ms FROM kv WHERE instr(k, CAST(? AS BLOB)) > 0";
      const expiryOf = (room: string) => Number(file.database.prepare(select).get(room)?.ms);
      assertGreaterOrEqual(expiryOf("event\0"), expiryOf("content\0"));
      assertGreaterOrEqual(expiryOf("id\0"), expiryOf("content\0"));
    }),
);
