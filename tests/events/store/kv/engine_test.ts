import { assertEquals } from "@std/assert";
import type { Applied, CellChange, Change } from "../../../../events/store/engine.ts";
import { type KvEngine, openKvEngine } from "../../../../events/store/kv/kv_engine.ts";

/** An engine on a KV of its own. */
async function openEngine(): Promise<Disposable & { engine: KvEngine; kv: Deno.Kv }> {
  const kv = await Deno.openKv(":memory:");
  const engine = await openKvEngine(kv, { notifier: "watch" });
  return { engine, kv, [Symbol.dispose]: () => kv.close() };
}

function work(change: Omit<Change<Deno.AtomicOperation>, "urgency">) {
  return { ...change, urgency: "work" } as const;
}

function setCells({ engine }: { engine: KvEngine }, ...cells: CellChange[]): Promise<Applied> {
  return engine.apply(work({ cells }));
}

Deno.test("a cell is set, read and deleted", async () => {
  using opened = await openEngine();
  const key = ["state", "forge", "a"] as const;
  const set = await setCells(opened, { key, version: null, after: { n: 1 } });
  const [cell] = await opened.engine.cells([key]);
  assertEquals(cell, { key, value: { n: 1 }, version: set.ok ? set.version : "" });
  await setCells(opened, { key, version: cell!.version, after: null });
  assertEquals(await opened.engine.cells([key]), [{ key, value: null, version: null }]);
});

Deno.test("a change is refused if a cell has another version", async () => {
  using opened = await openEngine();
  const key = ["cron", "nightly"] as const;
  await setCells(opened, { key, after: 1 });
  const other = { key: ["cron", "other"], after: 2 } as const;
  const refused = await setCells(opened, { key, version: null, after: 2 }, other);
  assertEquals(refused, { ok: false, why: "cell" });
  assertEquals((await opened.engine.cells([other.key]))[0]!.value, null);
});

Deno.test("of two changes that want the same bytes in a key to be new, one is made", async () => {
  using opened = await openEngine();
  const claim = () =>
    setCells(opened, {
      key: ["content", "forge", new Uint8Array([1, 2])],
      version: null,
      after: 1,
    });
  const made = await Promise.all([claim(), claim()]);
  assertEquals(made.map(({ ok }) => ok).sort(), [false, true]);
});

Deno.test("a sum is added to, taken from and set", async () => {
  using opened = await openEngine();
  const key = ["keptBytes"] as const;
  const read = async () => (await opened.engine.cells([key]))[0]!.value;
  await opened.engine.apply(work({ sums: [{ key, by: 5 }, { key, by: -7 }] }));
  assertEquals(await read(), -2);
  await opened.engine.apply(work({ sums: [{ key, to: 9 }] }));
  assertEquals(await read(), 9);
});

Deno.test("cells are listed in the order of their keys", async () => {
  using opened = await openEngine();
  const keys = [1, 2, 10, 20].map((at) => ["kept", at, "id"] as const);
  await setCells(opened, ...keys.map((key) => ({ key, after: key[1] })));
  await setCells(opened, { key: ["state", "", "x"], after: 1 });
  const listed = async (options?: Parameters<KvEngine["list"]>[1]) =>
    (await Array.fromAsync(opened.engine.list(["kept"], options))).map(({ value }) => value);
  assertEquals(await listed(), [1, 2, 10, 20]);
  assertEquals(await listed({ from: ["kept", 2], before: ["kept", 20] }), [2, 10]);
  assertEquals(await listed({ before: ["kept", 10, "id"], isReverse: true }), [2, 1]);
  assertEquals(await listed({ from: ["kept", 10], atOnce: 1 }), [10, 20]);
});
