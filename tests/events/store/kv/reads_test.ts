import { assertEquals } from "@std/assert";
import { readAll, readNear } from "../../../../events/store/kv/_reads.ts";
import { countReads } from "./_keys.ts";
import { setValue } from "./_values.ts";

const COUNT = 60;

const keyOf = (i: number): Deno.KvKey => ["ns", "event", 1_000 + (i >> 2), `e${i}`];

/** A KV with values, some of which are not wanted, and others around them. */
async function filled(isThere: (i: number) => boolean = () => true): Promise<Deno.Kv> {
  const kv = await Deno.openKv(":memory:");
  await setValue(kv, ["ns", "event", 999, "before"], "before");
  await setValue(kv, ["ns", "event", 1_000 + COUNT, "after"], "after");
  for (let i = 0; i < COUNT; i++) if (isThere(i)) await setValue(kv, keyOf(i), { i });
  return kv;
}

const indices = (step = 1) => Array.from({ length: COUNT / step }, (_, i) => i * step);

const CASES: Record<string, [isThere: (i: number) => boolean, wanted: number[]]> = {
  "all that is there": [() => true, indices()],
  "in another order": [() => true, indices().toReversed()],
  "every second": [() => true, indices(2)],
  "every fourth": [() => true, indices(4)],
  "some of which are not there": [(i) => i % 7 !== 0, indices()],
  "of which none is there": [() => false, indices()],
  "few": [() => true, [3, 1, 2]],
  "none": [() => true, []],
};

for (const [what, [isThere, wanted]] of Object.entries(CASES)) {
  Deno.test(`readNear() reads what readAll() does: ${what}`, async () => {
    using kv = await filled(isThere);
    const keys = wanted.map(keyOf);
    assertEquals(await readNear(kv, keys), await readAll(kv, keys));
  });
}

Deno.test("readNear() reads once what lies together", async () => {
  using kv = await filled();
  const reads = countReads(kv);
  await readNear(kv, indices(2).map(keyOf));
  assertEquals([reads.list, reads.getMany], [1, 0]);
});

Deno.test("readNear() reads on its own only what is missing", async () => {
  using kv = await filled();
  const reads = countReads(kv);
  await readNear(kv, [...indices(4), COUNT - 1].map(keyOf));
  assertEquals([reads.list, reads.getMany], [1, 1]);
});

Deno.test("readNear() reads ids of any text", async () => {
  using kv = await Deno.openKv(":memory:");
  const ids = ["\uff5e", "\ud800", ...Array.from({ length: 12 }, (_, i) => `\u{1f600}${i}`)];
  const keys = ids.map((id): Deno.KvKey => ["ns", "event", 1_000, id]);
  for (const key of keys) await setValue(kv, key, key.at(-1));
  for (const some of [keys, keys.toReversed(), keys.filter((key) => key.at(-1) !== "\ud800")]) {
    assertEquals(await readNear(kv, some), await readAll(kv, some));
  }
});
