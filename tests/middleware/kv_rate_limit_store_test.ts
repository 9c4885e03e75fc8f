import { assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { repeating } from "../../dev/harness/faulty_kv.ts";
import { KvRateLimitStore, type LogRecord } from "../../middleware/mod.ts";
import { testKv } from "../_kvs.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import { assertMedianWithin, assertWithin } from "../_within.ts";

/** A window that does not end while a test runs: windows follow the clock. */
const LONG_MS = 100 * 365 * 86_400_000;

/** A store that reports to nobody. */
const storeIn = (kv: Deno.Kv, options: ConstructorParameters<typeof KvRateLimitStore>[1] = {}) =>
  new KvRateLimitStore(kv, { log: () => {}, ...options });

/** A store that waits for a busy machine, and does not count in memory meanwhile. */
const patientIn = (kv: Deno.Kv) => storeIn(kv, { timeoutMs: 60_000 });

/** The counts. Marks of commits, whose keys do not go on with a number, come before them. */
const keysIn = (kv: Deno.Kv) =>
  Array.fromAsync(kv.list({ prefix: ["rate-limits"], start: ["rate-limits", 0] }));

/** A KV that counts the commits, and can be made to fail or to hang. */
function watched(kv: Deno.Kv) {
  const state = { commits: 0, mode: "pass" as "pass" | "fail" | "hang" };
  const pass = <T>(call: () => T): T => {
    if (state.mode === "fail") throw new Error("connect 10.0.0.7");
    return state.mode === "hang" ? new Promise(() => {}) as T : call();
  };
  const atomic = () => {
    const operation = kv.atomic();
    const commit = operation.commit.bind(operation);
    operation.commit = () => (state.commits++, pass(commit));
    return operation;
  };
  const get = (key: Deno.KvKey) => pass(() => kv.get(key));
  const list: Deno.Kv["list"] = (...args) => kv.list(...args);
  return { state, kv: { atomic, get, list } as Deno.Kv };
}

testKv("KvRateLimitStore counts up, each key and window length by itself", async (kv) => {
  const store = patientIn(kv);
  for (const key of ["a", "a", "b"]) await store.increment(key, LONG_MS);
  assertEquals((await store.get("a", LONG_MS)).count, 2);
  assertEquals((await store.get("b", LONG_MS)).count, 1);
  assertEquals((await store.get("a", 2 * LONG_MS)).count, 0);
  assertEquals((await store.increment("a", LONG_MS)).count, 3);
});

testKv("KvRateLimitStore counts for all instances together, and loses none", async (kv, other) => {
  const options = { timeoutMs: 60_000 };
  const kvs = [kv, await other(), await other()];
  const stores = kvs.map((each) => storeIn(each, options));
  const counting = Array.from({ length: 90 }, (_, i) => stores[i % 3]!.increment("a", LONG_MS));
  const counts = (await Promise.all(counting)).map(({ count }) => count);
  assertEquals(Math.max(...counts), 90);
  assertEquals((await stores[0]!.get("a", LONG_MS)).count, 90);
});

testKv("KvRateLimitStore counts a request once if its commit is repeated", async (kv) => {
  const store = patientIn(repeating(kv));
  for (let count = 1; count <= 3; count++) {
    assertEquals((await store.increment("a", LONG_MS)).count, count);
  }
  const counting = Array.from({ length: 20 }, () => store.increment("b", LONG_MS));
  const counts = (await Promise.all(counting)).map(({ count }) => count);
  assertEquals(Math.max(...counts), 20);
});

testKv("KvRateLimitStore tells how long the window goes on", async (kv) => {
  const { resetMs } = await patientIn(kv).increment("a", LONG_MS);
  assertGreater(resetMs, 0);
  assertLessOrEqual(resetMs, LONG_MS);
});

testKv("KvRateLimitStore takes one commit for a count, however many there are", async (kv) => {
  const { state, kv: counted } = watched(kv);
  const store = patientIn(counted);
  await store.increment("a", LONG_MS);
  await Promise.all(Array.from({ length: 50 }, () => store.increment("a", LONG_MS)));
  assertEquals(state.commits, 51);
});

Deno.test("KvRateLimitStore starts anew when the window is over, and deletes the old counts", async () => {
  using time = new FakeTime("2026-01-02T03:04:05.678Z");
  using kv = await Deno.openKv(":memory:");
  const store = storeIn(kv);
  for (let i = 0; i < 25; i++) await store.increment(`old ${i}`, 1_000);
  assertEquals((await store.increment("old 0", 1_000)).resetMs, 322);
  time.tick(400);
  assertEquals((await store.increment("a", 1_000)).count, 1);
  assertEquals((await keysIn(kv)).length, 16); // 10 deleted for each new count.
  for (const key of ["b", "c"]) await store.increment(key, 1_000);
  assertEquals((await keysIn(kv)).length, 3);
});

Deno.test("KvRateLimitStore keeps counts of windows that are not over", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = storeIn(kv);
  for (let i = 0; i < 25; i++) await store.increment(String(i), LONG_MS);
  assertEquals((await keysIn(kv)).length, 25);
});

Deno.test("KvRateLimitStore keeps limiters of different prefixes apart", async () => {
  using kv = await Deno.openKv(":memory:");
  await storeIn(kv, { prefix: ["a"] }).increment("x", LONG_MS);
  assertEquals((await storeIn(kv, { prefix: ["b"] }).get("x", LONG_MS)).count, 0);
});

Deno.test("KvRateLimitStore writes no key in plain, and takes one of any length", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = storeIn(kv);
  for (const key of ["", "api-key-of-ada", "x".repeat(100_000)]) {
    assertEquals((await store.increment(key, LONG_MS)).count, 1);
  }
  const parts = (await keysIn(kv)).map(({ key }) => key.at(-1) as Uint8Array);
  assertEquals(parts.map(({ byteLength }) => byteLength), [16, 16, 16]);
});

for (const mode of ["fail", "hang"] as const) {
  Deno.test(`KvRateLimitStore counts in memory while its KV does ${mode}, and says so once`, async () => {
    await assertWithin(10_000, async () => {
      using kv = await Deno.openKv(":memory:");
      const [{ state, kv: failing }, records] = [watched(kv), [] as LogRecord[]];
      const store = storeIn(failing, { timeoutMs: 20, log: (record) => records.push(record) });
      state.mode = mode;
      const start = performance.now();
      for (let i = 1; i <= 100; i++) assertEquals((await store.increment("a", LONG_MS)).count, i);
      assertEquals((await store.get("a", LONG_MS)).count, 100);
      const ms = performance.now() - start;
      assertEquals(records.map(({ level, message }) => [level, message]), [
        ["error", "rate limits counted in memory"],
      ]);
      return ms;
    });
  });
}

Deno.test("KvRateLimitStore counts in its KV again once that has recovered", async () => {
  using clock = new MonotonicClock();
  using kv = await Deno.openKv(":memory:");
  const { state, kv: failing } = watched(kv);
  const store = storeIn(failing, { recoveryMs: 10 });
  state.mode = "fail";
  await store.increment("a", LONG_MS);
  state.mode = "pass";
  clock.advance(10);
  await store.increment("a", LONG_MS);
  assertEquals((await storeIn(kv).get("a", LONG_MS)).count, 1);
});

Deno.test("KvRateLimitStore takes under 3 ms for a count in the median", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = storeIn(kv);
  await assertMedianWithin(3, () => store.increment("a", LONG_MS));
});
