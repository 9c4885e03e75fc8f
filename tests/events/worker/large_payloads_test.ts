/** One event that is very large keeps no other event waiting. */
import { assertEquals } from "@std/assert";
import { startWorker, type StoreListener } from "../../../events/mod.ts";
import { until } from "./_worker.ts";
import { delivery } from "../store/_events.ts";
import { type StoreUnderTest, testStoreOnce } from "../store/contract/_contract.ts";

const MB = 1_000_000;

const textOf = (bytes: number) => JSON.stringify("a".repeat(bytes));

/** A promise that is waited for, but not for ever. */
function soon<T>(promise: Promise<T>): Promise<T | "not within 5 s"> {
  const { promise: late, resolve } = Promise.withResolvers<"not within 5 s">();
  const timer = setTimeout(() => resolve("not within 5 s"), 5_000);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Takes a small event in as another process does: a worker here has to claim it. */
async function acceptElsewhere({ place }: StoreUnderTest): Promise<void> {
  const store = await place.open({ log: () => {} });
  await store.accept(delivery("small"));
}

for (const [what, count, bytes] of [["one of 17", 1, 17], ["nine of 2", 9, 2]] as const) {
  testStoreOnce(`a worker claims events while it handles ${what} MB`, async (sut) => {
    const [hold, claimed] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    let running = 0;
    const worker = startWorker(sut.store, ({ body }) => {
      if (body.byteLength < MB) return claimed.resolve("handled");
      running++;
      return hold.promise;
    }, { log: () => {}, pollMs: 20 });
    for (let i = 0; i < count; i++) {
      await sut.store.accept(delivery(`large${i}`, textOf(bytes * MB)));
    }
    await until(() => running === count);
    await acceptElsewhere(sut);
    assertEquals(await soon(claimed.promise), "handled");
    hold.resolve();
    await worker.stop();
  });
}

testStoreOnce(
  "a worker with free handlers claims events while it waits for a large one to be stored",
  async (sut) => {
    const claimed = Promise.withResolvers<string>();
    const { store } = sut;
    let reserve: StoreListener["reserve"];
    const listen = store.listen.bind(store);
    store.listen = (listener) => {
      reserve = listener.reserve;
      return listen({ ...listener, reserve: undefined });
    };
    const worker = startWorker(store, () => claimed.resolve("handled"), {
      log: () => {},
      pollMs: 20,
    });
    const storing = reserve!(25 * MB)!;
    await acceptElsewhere(sut);
    assertEquals(await soon(claimed.promise), "handled");
    storing.cancel();
    await worker.stop();
  },
);
