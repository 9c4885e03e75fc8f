import { assertEquals } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { until } from "../../dev/harness/until.ts";
import { APP_NEEDS, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

/** Deliveries, and how many at once: without an ordering key, with one, and of several commits each. */
const KINDS: readonly [kind: string, count: number, body: string][] = [
  ["small", 200, "{}"],
  ["ordered", 200, `{"repository":{"id":1}}`],
  ["large", 20, JSON.stringify({ text: "a".repeat(900_000) })],
];

for (const [kind, count, body] of KINDS) {
  const name = `an app makes one event of ${count} identical ${kind} deliveries in parallel`;
  testWith(APP_NEEDS, name, async () => {
    await withFolder(async (folder) => {
      const kvPath = `${folder}/kv.db`;
      await using app = spawnOwnApp({}, { KV_URL: kvPath });
      // As a sender does, again after a 503: a busy machine may not store them in time.
      const accepted = async () => {
        const { status, text } = await deliver(app, "d1", body);
        if (status !== 503) assertEquals([status, text], [200, "OK"]);
        return status === 200;
      };
      await Promise.all(Array.from({ length: count }, () => until(accepted, 60_000)));
      using kv = await Deno.openKv(kvPath);
      const store = await openEventStore(kv, { namespace: "own", notifier: "watch" });
      await until(async () => (await store.stats()).done === 1, 60_000);
      assertEquals(await Array.fromAsync(store.list(), ({ id }) => id), ["forge:d1"]);
      assertEquals(app.count("start"), 1);
    });
  });
}
