import { assertEquals } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { until } from "../processes/_process.ts";
import { APP_NEEDS, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

const DELIVERIES = 200;

/** Deliveries: without an ordering key, with one, and of a size that takes several commits. */
const BODIES: readonly [string, string][] = [
  ["small", "{}"],
  ["ordered", `{"repository":{"id":1}}`],
  ["large", JSON.stringify({ text: "a".repeat(900_000) })],
];

for (const [kind, body] of BODIES) {
  const name = `an app makes one event of ${DELIVERIES} identical ${kind} deliveries in parallel`;
  testWith(APP_NEEDS, name, async () => {
    await withFolder(async (folder) => {
      const kvPath = `${folder}/kv.db`;
      await using app = spawnOwnApp({}, { KV_URL: kvPath });
      const answers = await Promise.all(
        Array.from({ length: DELIVERIES }, () => deliver(app, "d1", body)),
      );
      const expected = Array.from({ length: DELIVERIES }, () => [200, "OK"]);
      assertEquals(answers.map(({ status, text }) => [status, text]), expected);
      using kv = await Deno.openKv(kvPath);
      const store = await openEventStore(kv, { namespace: "own", bell: "watch" });
      await until(async () => (await store.stats()).done === 1, 10_000);
      assertEquals(await Array.fromAsync(store.list(), ({ id }) => id), ["d1"]);
      assertEquals(app.count("start"), 1);
    });
  });
}
