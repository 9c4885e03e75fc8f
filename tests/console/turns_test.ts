import { assert, assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { ActCounts } from "../../console/_act_steps.ts";
import { ConsoleData } from "../../console/_console_data.ts";
import { exported } from "../../console/_export.ts";
import { Refusal } from "../../console/_http.ts";
import type { Visit } from "../../console/_layout.ts";
import { Turns } from "../../console/_turns.ts";
import { until } from "../../dev/harness/until.ts";
import type { EventStore } from "../../events/mod.ts";
import { buryAll } from "../events/store/_events.ts";
import { openData } from "./_data.ts";

/** Longest wait for what has only to be done, in milliseconds. */
const WITHIN_MS = 20_000;

/** A store that lists as another one, once it is let go on, and notes how many lists are read at the same time. */
function slowed(store: EventStore) {
  const gone = Promise.withResolvers<void>();
  const reads = { most: 0, now: 0, lists: 0 };
  /** Lists as the store does, and later. */
  function list(options: Parameters<EventStore["list"]>[0]) {
    const events = store.list(options);
    const { next } = events;
    reads.lists++;
    events.next = async () => {
      reads.most = Math.max(reads.most, ++reads.now);
      await gone.promise;
      try {
        return await next.call(events);
      } finally {
        reads.now--;
      }
    };
    return events;
  }
  return { reads, goOn: gone.resolve, store: { ...store, list } as EventStore };
}

Deno.test("turns are taken a few at a time, in their order, and given on after an error", async () => {
  const turns = new Turns(2);
  const [begun, ends]: [number[], PromiseWithResolvers<void>[]] = [[], []];
  const all = [0, 1, 2, 3].map((number) =>
    turns.take(() => {
      begun.push(number);
      return (ends[number] = Promise.withResolvers<void>()).promise;
    })
  );
  assertEquals(begun, [0, 1]);
  ends[1]!.reject(new Error("no"));
  await assertRejects(() => all[1]!, Error, "no");
  await until(() => begun.length === 3, WITHIN_MS);
  assertEquals(begun, [0, 1, 2]);
  ends[0]!.resolve();
  await until(() => begun.length === 4, WITHIN_MS);
  for (const { resolve } of ends) resolve();
  await Promise.all([all[0], all[2], all[3]]);
});

Deno.test("a turn whose work never ends is given on, once", async () => {
  using time = new FakeTime();
  const turns = new Turns(1);
  const stuck = Promise.withResolvers<void>();
  const never = turns.take(() => stuck.promise);
  const begun: number[] = [];
  const ends = [1, 2].map(() => Promise.withResolvers<void>());
  const others = ends.map(({ promise }, i) =>
    turns.take(() => {
      begun.push(i);
      return promise;
    })
  );
  await time.tickAsync(29_999);
  assertEquals(begun, []);
  await time.tickAsync(1);
  assertEquals(begun, [0]);
  stuck.resolve();
  await never;
  await time.tickAsync(1);
  assertEquals(begun, [0]);
  for (const { resolve } of ends) resolve();
  await Promise.all(others);
  assertEquals(begun, [0, 1]);
});

Deno.test("of many who search at once some are refused, and nothing is read for those who have gone", async () => {
  using time = new FakeTime();
  const turns = new Turns(1, 2);
  const begun: number[] = [];
  const search = (number: number, ms: number) =>
    turns.take(async () => {
      begun.push(number);
      await new Promise((resolve) => setTimeout(resolve, ms));
    });
  const first = search(0, 25_000);
  const others = [1, 2].map((number) => assertRejects(() => search(number, 1), Refusal));
  const { status, headers } = await assertRejects(() => search(3, 1), Refusal);
  assertEquals([status, headers], [503, { "Retry-After": "3" }]);
  await time.tickAsync(25_000);
  await Promise.all([first, ...others]);
  const last = search(4, 1);
  await time.tickAsync(1);
  await last;
  assertEquals(begun, [0, 4]);
});

Deno.test("each of many counts at once ends, for whoever has begun it", async () => {
  await using sut = await openData();
  await buryAll(sut.store, ["a", "b"]);
  const { reads, goOn, store } = slowed(sut.store);
  const counts = new ActCounts(store);
  const queries = Array.from({ length: 7 }, (_, i) => ({ state: "dead", type: `t${i}` } as const));
  try {
    const first = await Promise.all(queries.map((query) => counts.look("purge", query, false)));
    assert(first.every(({ isMore }) => isMore));
    assertEquals(reads.now, 4);
    goOn();
    for (const [i, query] of queries.entries()) {
      let count = first[i]!;
      await until(async () => !(count = await counts.look("purge", query, true)).isMore, WITHIN_MS);
      assertEquals(count.askedAt, first[i]!.askedAt);
    }
    assertEquals([reads.most, reads.lists], [4, 7]);
  } finally {
    await counts.stop();
  }
});

Deno.test("files are read for two at a time, however many are downloaded", async () => {
  await using sut = await openData();
  await buryAll(sut.store, ["a", "b"]);
  const { reads, goOn, store } = slowed(sut.store);
  const data = new ConsoleData(store, () => {});
  const visit = {
    ...{ data, parameters: new URLSearchParams({ format: "jsonl" }) },
    context: { hidesPayloads: false },
  } as unknown as Visit;
  const files = Array.from({ length: 5 }, () => exported(visit));
  const stuck = exported(visit);
  const texts = Promise.all(files.map((file) => file.text()));
  await until(() => reads.now === 2, WITHIN_MS);
  goOn();
  // Nobody reads the last one.
  for (const text of await texts) assertEquals(text.trimEnd().split("\n").length, 2);
  assertEquals(reads.most, 2);
  await stuck.body!.cancel();
  await data.stop();
});

Deno.test("for a file that nobody reads, or reads any more, nothing is read", async () => {
  await using sut = await openData();
  await buryAll(sut.store, ["a", "b"]);
  const { reads, goOn, store } = slowed(sut.store);
  const data = new ConsoleData(store, () => {});
  const visit = {
    ...{ data, parameters: new URLSearchParams({ format: "csv", type: "nothing" }) },
    context: { hidesPayloads: false },
  } as unknown as Visit;
  // As of an answer to HEAD.
  const files = [1, 2, 3].map(() => exported(visit));
  const file = exported(visit).body!.getReader();
  const reading = file.read();
  await until(() => reads.now > 0, WITHIN_MS);
  assertEquals(reads.now, 1);
  const cancelled = file.cancel();
  goOn();
  await Promise.all([reading, cancelled]);
  await Promise.all([1, 2].map(() => data.exports.take(() => Promise.resolve())));
  assertEquals([reads.now, reads.most], [0, 1]);
  await Promise.all(files.map(({ body }) => body!.cancel()));
  await data.stop();
});

Deno.test("searches that take long are made two at a time", async () => {
  await using sut = await openData();
  await buryAll(sut.store, ["a", "b"]);
  const { reads, goOn, store } = slowed(sut.store);
  const data = new ConsoleData(store, () => {});
  const pages = Promise.all(
    [1, 2, 3, 4, 5].map(() => data.search({ q: "nothing" }, undefined, true)),
  );
  await until(() => reads.now === 2, WITHIN_MS);
  goOn();
  for (const { events, cursor } of await pages) assertEquals([events, cursor], [[], undefined]);
  assertEquals(reads.most, 2);
  await data.stop();
});
