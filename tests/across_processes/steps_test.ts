/** Steps of processes that are killed after each of them: what is stored is not called again. */
import { assertEquals } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { delivery } from "../events/store/_events.ts";
import { IS_LONG } from "../_length.ts";
import { untilSettled } from "./_kills.ts";
import { testShared } from "./_shared.ts";
import { Calls, LEASE_MS, STEPS } from "./_step_calls.ts";
import { Herd } from "./_step_service.ts";

const idsOf = (count: number) => Array.from({ length: count }, (_, i) => `e${i}`);

testShared(
  `each of ${STEPS} steps is called once if its process is killed after it`,
  async ({ at, place }) => {
    const calls = new Calls();
    const store = await place.open({ log: () => {} });
    // In the short test each event is killed once, and all of them at different steps.
    const ids = idsOf(IS_LONG ? 5 : STEPS);
    for (const [i, id] of ids.entries()) {
      const numbers = IS_LONG ? idsOf(STEPS).map((_, step) => step + 1) : [i + 1];
      for (const number of numbers) calls.killsAfter.add(`${id}/${number}`);
    }
    for (const id of ids) await store.accept(delivery(id));
    await using herd = new Herd({ at, leaseMs: LEASE_MS, steps: STEPS }, calls.answer);
    await until(() => calls.killsAfter.size === 0, 600_000);
    await untilSettled(store);
    calls.assertOnce(ids, herd.killed, await place.effects.all("result"));
    assertEquals((await place.contents()).results, 0);
  },
);
