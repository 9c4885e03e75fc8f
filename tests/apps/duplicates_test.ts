import { assertEquals } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { envOf } from "../_stores.ts";
import { openAt } from "../events/store/engines/mod.ts";
import { testShared } from "../across_processes/_shared.ts";
import { spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

/** Deliveries, and how many at once: without an ordering key, with one, and of several commits each. */
const KINDS: readonly [kind: string, count: number, body: string][] = [
  ["small", 200, "{}"],
  ["ordered", 200, `{"repository":{"id":1}}`],
  ["large", 20, JSON.stringify({ text: "a".repeat(900_000) })],
];

for (const [kind, count, body] of KINDS) {
  const name = `an app makes one event of ${count} identical ${kind} deliveries in parallel`;
  testShared(name, async ({ at, place }) => {
    await using app = spawnOwnApp({ engine: at.engine }, envOf(place.path!));
    // As a sender does, again after a 503: a busy machine may not store them in time.
    const accepted = async () => {
      const { status, text } = await deliver(app, "d1", body);
      if (status !== 503) assertEquals([status, text], [200, "OK"]);
      return status === 200;
    };
    await Promise.all(Array.from({ length: count }, () => until(accepted, 60_000)));
    const { store, close } = await openAt(at, { namespace: "own" });
    await until(async () => (await store.stats()).done === 1, 60_000);
    assertEquals(await Array.fromAsync(store.list(), ({ id }) => id), ["forge:d1"]);
    assertEquals(app.count("start"), 1);
    await close();
  });
}
