/** Steps of processes that are killed at any moment: what is stored is not called again. */
import { assertEquals } from "@std/assert";
import { pause, until } from "../../dev/harness/until.ts";
import { delivery } from "../events/store/_events.ts";
import { byLength } from "../_length.ts";
import { untilSettled } from "./_kills.ts";
import { testShared } from "./_shared.ts";
import { Calls, LEASE_MS, STEPS } from "./_step_calls.ts";
import { Herd } from "./_step_service.ts";

const KILLS = byLength(200, 5);

/** Events that are open at a time while processes are killed. */
const OPEN = 16;

testShared(
  `each of ${STEPS} steps is called once but for ${KILLS} kills in the midst`,
  async ({ at, place }) => {
    const calls = new Calls();
    const store = await place.open({ log: () => {} });
    const ids: string[] = [];
    await using herd = new Herd({ at, leaseMs: LEASE_MS, steps: STEPS }, calls.answer);
    for (let kills = 0; kills < KILLS; kills++) {
      const { queued, running } = await store.stats();
      for (let open = queued + running; open < OPEN; open++) {
        ids.push(`e${ids.length}`);
        await store.accept(delivery(ids.at(-1)!));
      }
      const before = calls.count;
      await until(() => calls.count > before, 60_000);
      await pause(Math.random() * 60);
      await herd.kill(herd.running[0]!);
      await calls.look(store, ids.slice(-2 * OPEN));
    }
    await untilSettled(store);
    calls.assertOnce(ids, herd.killed, await place.effects.all("result"));
    assertEquals((await place.contents()).results, 0);
  },
);
