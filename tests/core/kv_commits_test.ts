import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { CommitMarks } from "../../core/kv_commits.ts";
import { changedKv, failingOnce, repeating } from "../../dev/harness/faulty_kv.ts";
import { testKv } from "../_kvs.ts";

const PREFIX = ["marks"];

/** Adds one to a number that nobody else changes, and tells whether that was made. */
async function addOne(kv: Deno.Kv, marks: CommitMarks): Promise<boolean> {
  const entry = await kv.get<number>(["n"]);
  const operation = kv.atomic().set(["n"], (entry.value ?? 0) + 1);
  return (await marks.commit(operation, [entry])).ok;
}

const marksIn = (kv: Deno.Kv) => Array.fromAsync(kv.list({ prefix: PREFIX }));

testKv("CommitMarks tells of a commit that is repeated that it was made", async (kv) => {
  const marks = new CommitMarks(kv, PREFIX);
  const repeatingKv = repeating(kv);
  for (let n = 1; n <= 3; n++) {
    assertEquals(await addOne(repeatingKv, marks), true);
    assertEquals((await kv.get(["n"])).value, n);
  }
});

testKv("CommitMarks tells so although others have deleted what it wrote", async (kv) => {
  const marks = new CommitMarks(kv, PREFIX);
  assertEquals(await addOne(repeating(kv, () => kv.delete(["n"])), marks), true);
  // Another process, whose commits have the same numbers.
  const other = new CommitMarks(kv, PREFIX);
  assertEquals(await addOne(repeating(kv, async () => void await addOne(kv, other)), marks), true);
});

testKv("CommitMarks gives the version of what was written", async (kv) => {
  const marks = new CommitMarks(kv, PREFIX);
  const check = { key: ["n"], versionstamp: null };
  const result = await marks.commit(repeating(kv).atomic().set(["n"], 1), [check]);
  assertEquals(result.ok && result.versionstamp, (await kv.get(["n"])).versionstamp);
});

testKv(
  "CommitMarks tells of a commit whose check does not hold that it was refused",
  async (kv) => {
    const marks = new CommitMarks(kv, PREFIX);
    const wrong = { key: ["n"], versionstamp: "00000000000000000001" };
    for (const each of [kv, repeating(kv)]) {
      assertEquals((await marks.commit(each.atomic().set(["n"], 1), [wrong])).ok, false);
    }
    assertEquals((await kv.get(["n"])).value, null);
  },
);

testKv("CommitMarks makes once what others delete before it is repeated", async (kv) => {
  const marks = new CommitMarks(kv, PREFIX);
  const repeatingKv = repeating(kv, () => kv.delete(["n"]));
  const check = { key: ["n"], versionstamp: null };
  for (let i = 0; i < 3; i++) {
    assert((await marks.commit(repeatingKv.atomic().set(["n"], 1), [check])).ok);
    assertEquals((await kv.get(["n"])).versionstamp, null);
  }
});

testKv("CommitMarks makes once what checks nothing", async (kv) => {
  const marks = new CommitMarks(kv, PREFIX);
  for (let n = 1n; n <= 3n; n++) {
    assert((await marks.commit(repeating(kv).atomic().sum(["n"], 1n), [])).ok);
    assertEquals((await kv.get<Deno.KvU64>(["n"])).value?.value, n);
  }
});

Deno.test("CommitMarks uses no mark that the KV may have expired", async () => {
  using time = new FakeTime();
  using kv = await Deno.openKv(":memory:");
  const marks = new CommitMarks(kv, PREFIX);
  for (const ms of [0, 80_000_000, 90_000_000, 0]) {
    time.tick(ms);
    if (ms > 86_400_000) { for (const { key } of await marksIn(kv)) await kv.delete(key); }
    assert((await marks.commit(kv.atomic().sum(["n"], 1n), [])).ok);
  }
  assertEquals((await marksIn(kv)).map(({ key }) => key.at(-1)), [1]);
});

testKv("CommitMarks uses as few marks as commits are under way at once", async (kv) => {
  const marks = new CommitMarks(kv, PREFIX);
  for (let i = 0; i < 10; i++) await addOne(kv, marks);
  assertEquals((await marksIn(kv)).length, 1);
  const numbers = [1, 2, 3, 4];
  await Promise.all(numbers.map((i) => marks.commit(kv.atomic().set(["own", i], i), [])));
  assertEquals((await marksIn(kv)).length, 4);
});

testKv("CommitMarks writes the mark of a commit no more whose outcome is not known", async (kv) => {
  const { kv: failing, arm } = failingOnce(kv, "after");
  const marks = new CommitMarks(kv, PREFIX);
  arm();
  await assertRejects(() => addOne(failing, marks), Error, "connection lost");
  assertEquals(await addOne(kv, marks), true);
  assertEquals((await marksIn(kv)).map(({ key }) => key.at(-1)), [0, 1]);
});

testKv("CommitMarks fails if it cannot find out whether a refused commit was made", async (kv) => {
  const get = () => Promise.reject(new Error("connection lost"));
  const marks = new CommitMarks(changedKv(kv, { get }), PREFIX);
  await assertRejects(() => addOne(repeating(kv), marks), Error, "connection lost");
});
