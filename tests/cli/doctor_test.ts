import { assertEquals } from "@std/assert";
import { delivery } from "../events/store/_events.ts";
import { testCli } from "./_cli.ts";

async function keysOf(kv: Deno.Kv, kind: string): Promise<Deno.KvKey[]> {
  return await Array.fromAsync(kv.list({ prefix: ["bot", kind] }), ({ key }) => key);
}

testCli("events doctor puts back what nothing leads to", async ({ cli, store, kv }) => {
  for (const id of ["d1", "d2"]) await store.accept(delivery(id));
  for (const key of await keysOf(kv, "due")) await kv.delete(key);
  const { code, out } = await cli("doctor");
  assertEquals([code, out.slice(0, 2)], [0, ["put back: d1", "put back: d2"]]);
  assertEquals(out[2], "4 values read, 2 events put back, 0 groups repaired");
  assertEquals((await keysOf(kv, "due")).length, 2);
  const again = await cli("doctor", "--json");
  const counts = { read: 6, groups: 0, put_back: 0, unreadable: 0, discarded: 0 };
  assertEquals([again.code, again.out], [0, [JSON.stringify(counts)]]);
});

testCli("events doctor names what cannot be read, and says what to do", async (sut) => {
  const { cli, store, kv } = sut;
  await (await store.state("chat:1")).set(1);
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
  const [position] = await keysOf(kv, "place");
  const [state] = await keysOf(kv, "state");
  for (const key of [position!, state!]) await kv.set(key, new Uint8Array([99]));
  const { code, out } = await cli("doctor");
  assertEquals([code, out.slice(0, 2)], [1, [
    "unreadable: state /chat:1",
    `unreadable: position key/${String(position!.at(-1))}`,
  ]]);
  assertEquals(out.some((line) => line.includes("--discard-unreadable")), true);
  assertEquals((await cli("doctor", "--discard-unreadable")).code, 2);
  const discarded = await cli("doctor", "--discard-unreadable", "--yes");
  assertEquals([discarded.code, discarded.out.slice(0, 2)], [0, [
    "discarded: state /chat:1",
    `discarded: position key/${String(position!.at(-1))}`,
  ]]);
  const ids = [];
  for (;;) {
    const [lease] = await store.claim({ limit: 1, owner: "o", leaseMs: 30_000 });
    if (!lease) break;
    ids.push(lease.record.id);
    await store.complete(lease);
  }
  assertEquals(ids.toSorted(), ["d1", "d2"]);
  assertEquals((await cli("doctor")).code, 0);
});
