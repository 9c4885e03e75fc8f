import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import { type EventRecord, openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { byLength } from "../_length.ts";
import { testWith } from "../_permissions.ts";
import { killSending, untilSettled } from "./_kills.ts";
import { startProcess } from "./_process.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const KILLS = byLength(12, 3);
const EMITS = 3;

/** Each delivery makes five events. */
const CONNECTIONS = byLength(4, 2);

testWith(NEEDS, `no emitted event is lost or doubled over ${KILLS} kills`, async () => {
  await withFolder(async (folder) => {
    const options = { kv: `${folder}/kv.db`, leaseMs: 4_000, emits: EMITS };
    const [sent, acknowledged] = [new Set<string>(), new Set<string>()];
    for (let kills = 0; kills < KILLS; kills++) {
      await killSending(options, sent, acknowledged, CONNECTIONS);
    }
    await using _app = await startProcess(options);
    using kv = await Deno.openKv(options.kv);
    const store = await openEventStore(kv, { notifier: "watch" });
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
    for await (const { key, value } of kv.list<Deno.KvU64>({ prefix: ["handled"] })) {
      assertEquals(value.value, 1n, String(key[1]));
      expected.delete(String(key[1]));
    }
    assertEquals(expected.size, 0);
  });
});
