import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import type { EventRecord } from "../../mod.ts";
import { byLength } from "../_length.ts";
import { killSending, untilSettled } from "./_kills.ts";
import { startProcess } from "./_process.ts";
import { testShared } from "./_shared.ts";

const KILLS = byLength(12, 3);
const EMITS = 3;

/** Each delivery makes five events. */
const CONNECTIONS = byLength(4, 2);

testShared(`no emitted event is lost or doubled over ${KILLS} kills`, async ({ at, place }) => {
  const options = { at, leaseMs: 4_000, emits: EMITS };
  const [sent, acknowledged] = [new Set<string>(), new Set<string>()];
  for (let kills = 0; kills < KILLS; kills++) {
    await killSending(options, sent, acknowledged, CONNECTIONS);
  }
  await using _app = await startProcess(options);
  const store = await place.open();
  await untilSettled(store);
  const [expected, stored] = [new Set<string>(), new Set<string>()];
  for await (const event of store.list({ state: "done" })) {
    const { id, deliveryId, platform } = event as EventRecord;
    if (platform === "events") stored.add(id);
    else {
      for (let i = 1; i <= EMITS; i++) expected.add(`jobs:${id}/${String(i).padStart(4, "0")}`);
      expected.add(`jobs:${deliveryId}`);
    }
  }
  assertGreaterOrEqual(expected.size, acknowledged.size * (EMITS + 1));
  assertEquals(stored.symmetricDifference(expected), new Set());
  for (const [id, times] of await place.effects.all("handled")) {
    assertEquals(times, 1, id);
    expected.delete(id);
  }
  assertEquals(expected.size, 0);
});
