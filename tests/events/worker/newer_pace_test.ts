import { assert, assertEquals } from "@std/assert";
import { type HandlerContext, startWorker, type WebhookEvent } from "../../../events/mod.ts";
import { byLength, IS_LONG } from "../../_length.ts";
import { testWith } from "../../_permissions.ts";
import { delivery, later } from "../store/_events.ts";
import { IN_PROCESSES } from "../store/engines/mod.ts";
import { aborted, hearing, idsOf, urgent } from "./_newer.ts";
import { testSimulated, until } from "./_worker.ts";

testSimulated("a chat with a message each 300 ms is answered by a handler of 2 s", async (sut) => {
  const { store } = sut;
  const ids = Array.from({ length: 30 }, (_, i) => `m${i}`);
  const chatting = (async () => {
    for (const id of ids.slice(1)) {
      await later(300);
      await store.accept(urgent(id));
    }
  })();
  const answered: string[][] = [];
  await hearing(sut, ids, async (_run, event, context) => {
    await Promise.race([later(2_000), aborted(context)]);
    answered.push(idsOf(event));
  });
  await chatting;
  // The first run, and each of the ten that have been interrupted, has ended with one more message.
  assertEquals((await store.get("m0"))!.interrupted?.times, 10);
  assertEquals(answered[0], ids.slice(0, 11));
  assertEquals(answered.flat(), ids);
});

/** Messages whose way is measured, and bar of the slowest of a hundred, in milliseconds. */
const [MESSAGES, P99_MS] = [byLength(400, 100), 50] as const;

/** Time between two other events, in milliseconds: 200 a second. */
const OTHERS_MS = 5;

// Beside eight files of tests it would measure those.
for (const engine of IS_LONG ? IN_PROCESSES : []) {
  const [kind] = engine.kinds;
  const name = `a message aborts a handler of its process within ${P99_MS} ms, beside 200 a second`;
  testWith(kind.needs, `${name} [${engine.name}]`, async () => {
    await using place = await kind.open();
    const store = await place.open({ log: () => {} });
    const times: number[] = [];
    let abortedAt = 0;
    let isRunning = false;
    const handler = async ({ type, batch }: WebhookEvent, { signal }: HandlerContext) => {
      if (type !== "message" || batch.length > 1) return;
      isRunning = true;
      await aborted({ signal }).catch(() => abortedAt = performance.now());
      isRunning = false;
      signal.throwIfAborted();
    };
    const worker = startWorker(store, handler, { log: () => {} });
    const ending = new AbortController();
    const others = (async () => {
      const [start, sending]: [number, Promise<unknown>[]] = [performance.now(), []];
      // As many as are due by now, also if some take longer.
      while (!ending.signal.aborted) {
        const due = (performance.now() - start) / OTHERS_MS;
        while (sending.length < due) sending.push(store.accept(delivery(`other${sending.length}`)));
        await later(OTHERS_MS);
      }
      await Promise.all(sending);
    })();
    const message = (id: string, orderingKey: string) =>
      store.accept({ ...urgent(id, { orderingKey }), type: "message" });
    for (let i = 0; i < MESSAGES; i++) {
      await message(`first${i}`, `chat${i}`);
      await until(() => isRunning);
      await later(20 * Math.random());
      await message(`second${i}`, `chat${i}`);
      const acceptedAt = performance.now();
      await until(() => !isRunning);
      // It may be aborted before the call has returned.
      times.push(Math.max(0, abortedAt - acceptedAt));
    }
    ending.abort();
    await others;
    await worker.stop({ graceMs: 0 });
    place.close();
    const sorted = times.toSorted((a, b) => a - b);
    const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1]!;
    assert(p99 <= P99_MS, `p99 ${p99} ms`);
  }, kind.missing);
}
