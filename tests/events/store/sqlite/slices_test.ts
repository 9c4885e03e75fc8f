import { assert, assertEquals } from "@std/assert";
import { withFolder } from "../../../_folder.ts";
import { testWith } from "../../../_permissions.ts";
import { deleteParts } from "../../../../events/store/sqlite/_change.ts";
import { openIn, sized } from "./_open.ts";

/** Counts the turns that others have while something is done. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await work();
  clearInterval(timer);
  return turns;
}

testWith(
  ["read", "write"],
  "others have their turns while 25 MiB are stored and read",
  () =>
    withFolder(async (folder) => {
      await using opened = await openIn(`${folder}/a.db`);
      const { store } = opened;
      const large = sized("large", 25 * 1024 * 1024);
      assert(await turnsDuring(() => store.accept(large)) > 5);
      const [lease] = await store.claim({ limit: 1, owner: "test", leaseMs: 30_000 });
      assert(
        await turnsDuring(async () => {
          assertEquals(
            await opened.engine.payload(lease!.record.payload!, lease!.record),
            large.body,
          );
        }) > 2,
      );
      assert(await turnsDuring(() => store.complete(lease!)) > 5);
      assertEquals(opened.file.db.one("select count(*) as n from payload"), { n: 0 });
    }),
);

testWith(
  ["read", "write"],
  "others have their turns while an upload of 25 MiB is deleted, or what a crash has left of one",
  () =>
    withFolder(async (folder) => {
      await using opened = await openIn(`${folder}/a.db`);
      const { engine, file: { db, commits } } = opened;
      const { body } = sized("large", 25 * 1024 * 1024);
      for (const id of ["whole", "rest", "small"]) {
        await engine.upload(
          { id, size: body.byteLength },
          id === "small" ? body.slice(0, 9) : body,
        );
      }
      await commits.run({ isIntake: false, run: () => deleteParts(db, "rest") });
      const deleted: number[] = [];
      const tidy = async (olderThanMs: number) =>
        void deleted.push((await engine.tidy({ uploadsOlderThanMs: olderThanMs })).uploads);
      assert(await turnsDuring(() => tidy(60_000)) > 5);
      assertEquals(db.all("select distinct id from payload order by 1").map(({ id }) => id), [
        ...["small", "whole"],
      ]);
      assert(await turnsDuring(() => tidy(-1)) > 5);
      assertEquals(deleted, [1, 2]);
      assertEquals(db.one("select count(*) as n from payload"), { n: 0 });
    }),
);

testWith([], "others have their turns while many events are counted and scanned", async () => {
  await using opened = await openIn(":memory:");
  const { engine, store, file: { db } } = opened;
  await store.accept(sized("d", 10));
  db.run(`with recursive n(n) as (select 1 union all select n + 1 from n where n < 100000)
    insert into event (id, received_at, state, version, record)
    select 'e' || n, n, 'dead', 'v', json_set(record, '$.id', 'e' || n, '$.receivedAt', n)
    from n, event where id = 'd'`);
  assert(await turnsDuring(() => engine.count(1_000_000)) > 0);
  assertEquals((await engine.count(1_000_000)).dead, { count: 100_000, isMore: false });
  assertEquals((await engine.count(100_000)).dead, { count: 100_000, isMore: false });
  assertEquals((await engine.count(99_999)).dead, { count: 99_999, isMore: true });
  assertEquals((await engine.count(0)).dead, { count: 0, isMore: true });
  let scanned = 0;
  const turns = await turnsDuring(async () => {
    for await (const _ of engine.scan({ filter: {} })) scanned++;
  });
  assertEquals(scanned, 100_001);
  assert(turns > 20, `only ${turns} turns`);
});
