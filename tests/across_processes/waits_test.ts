import { assertEquals } from "@std/assert";
import { byLength } from "../_length.ts";
import { until } from "../../dev/harness/until.ts";
import { startProcess } from "./_process.ts";
import { testShared } from "./_shared.ts";

const KILLS = byLength(12, 3);
const EVENTS = byLength(2_000, 300);
const LEASE_MS = 2_000;

testShared(
  `each wait has one result over ${KILLS} kills between park and wake`,
  async ({ at, place }) => {
    const options = { at, leaseMs: LEASE_MS, waits: true };
    const store = await place.open({ log: () => {} });
    const ids = Array.from({ length: EVENTS }, (_, i) => `e${i}`);
    const [unsent, unanswered] = [new Set(ids), new Set(ids)];
    const woken = new Map<string, string>();
    const answer = async () => {
      for (const id of [...unanswered].filter((id) => !unsent.has(id)).slice(0, 100)) {
        const value = crypto.randomUUID();
        const { outcome } = await store.wake(`answer:${id}`, value);
        // Of a wake whose answer is lost, nobody knows: the next one is late then.
        if (outcome !== "late") woken.set(id, value);
        unanswered.delete(id);
      }
    };
    for (let kills = 0; kills < KILLS || unanswered.size > 0; kills++) {
      await using app = await startProcess(options);
      const killed = new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 700));
      let isGone = false;
      const sending = (async () => {
        for (const id of [...unsent]) {
          if (isGone || unsent.size < (EVENTS / KILLS) * (KILLS - kills - 1)) return;
          if (await app.deliver(id) === 200) unsent.delete(id);
        }
      })();
      const answering = (async () => {
        while (!isGone) {
          await answer();
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })();
      await killed;
      app.signal("SIGKILL");
      isGone = true;
      await Promise.all([sending, answering]);
    }
    await using _app = await startProcess(options);
    // Each kill costs what was handled an attempt: on a slow machine there are more, and longer backoffs.
    await until(async () => (await store.stats()).done === EVENTS, 300_000).catch(async (cause) => {
      const open = await Array.fromAsync(store.list(), (event) => event);
      const left = open.filter(({ state }) => state !== "done").slice(0, 5);
      throw new Error(`Not done: ${JSON.stringify(left)}`, { cause });
    });
    const results = await place.effects.all("result");
    assertEquals([...results].sort(), [...woken].sort());
    assertEquals((await store.stats()).parked, 0);
    assertEquals((await place.contents()).names, 0);
  },
);
