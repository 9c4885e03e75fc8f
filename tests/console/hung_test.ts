import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openEventStore, startWorker } from "../../events/mod.ts";
import type { EventStore } from "../../events/mod.ts";
import type { ProcessNote } from "../../events/store/mod.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import { type BoardUnderTest, claim, delivery, openBoard, OPERATOR, VIEWER } from "./_board.ts";
import { until } from "./_data.ts";

const MINUTE = 60_000;

/** Sentences that tell what a cancelled handler holds that does not end. */
const HELD =
  /Cancelled at .{1,200}\. Its handler has not returned since\. It keeps its place until it returns, its time limit is over, or its process m:1 is restarted\./s;

async function page(board: BoardUnderTest, path: string, token = OPERATOR): Promise<string> {
  return await (await board.get(path, { Cookie: await board.login(token) })).text();
}

async function json(board: BoardUnderTest, path: string) {
  const headers = { Authorization: `Bearer ${OPERATOR}` };
  return await (await board.get(`/api/${path}`, headers)).json();
}

/** Reads something of the first page until it shows what is expected: it is read by and by. */
async function strip<T>(
  board: BoardUnderTest,
  clock: MonotonicClock,
  find: (html: string) => T | false,
): Promise<T> {
  const Cookie = await board.login();
  return await until(async () => {
    clock.advance(21_000);
    return find(await (await board.get("/", { Cookie })).text());
  }) as T;
}

/** Notes the process `w` of two places. */
const noteProcess = (store: EventStore, note: Partial<ProcessNote> = {}) =>
  store.noteProcess({
    ...{ id: "w", name: "m:1", places: 2, startedAt: 0, seenAt: Date.now(), handles: null },
    ...note,
  });

Deno.test("a handler that was cancelled and has not returned says on each page what it holds", async () => {
  using clock = new MonotonicClock();
  await using board = await openBoard();
  await noteProcess(board.store);
  const { id } = await board.store.accept(delivery("1"));
  await claim(board.store);
  const question = await page(board, `/act?kind=cancel&id=${id}`);
  assertMatch(question, /does not heed this goes on, and keeps its place, until it returns/);
  assert((await page(board, "/running")).includes("kind=cancel"));
  assertEquals((await board.act({ kind: "cancel", id })).status, 303);
  for (const token of [OPERATOR, VIEWER]) {
    const running = await page(board, "/running", token);
    assertMatch(running, HELD);
    assert(!running.includes("kind=cancel"));
  }
  const about = await page(board, `/delivery?id=${id}`);
  assertMatch(
    about,
    /has not returned since it was cancelled<\/b>.*It keeps its place until .* m:1 is/s,
  );
  assert(!about.includes("kind=cancel"));
  const first = await strip(board, clock, (html) => HELD.test(html) && html);
  assertStringIncludes(first, "1 told to stop, not returned");
  assertMatch(first, /for \d[^<]*, cancelled <time/);
  assert(!first.includes("kind=cancel"));
  const hung = { id, why: "cancelled", process: "m:1", holdsPlace: true };
  for (
    const found of [
      (await json(board, "running")).events[0].hung,
      (await json(board, `delivery?id=${id}`)).hung,
      (await json(board, "overview")).strip.hung[0],
    ]
  ) {
    const { since: _, text, ...rest } = found;
    assertEquals(rest, hung);
    assertMatch(text, HELD);
  }
});

Deno.test("a handler that was cancelled and is past its time limit holds no place, and says so", async () => {
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1"));
  await noteProcess(board.store, { overdue: [id] });
  await claim(board.store);
  await board.store.cancel(id);
  const running = await page(board, "/running");
  assertMatch(
    running,
    /Its time limit is over, so the next event has its place\. It goes on until/,
  );
  assert(!HELD.test(running));
});

Deno.test("a place that is held without an event is seen, counted and named", async () => {
  using clock = new MonotonicClock();
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1"));
  await board.store.claim({ limit: 1, owner: "other", leaseMs: MINUTE });
  await noteProcess(board.store, { hung: [{ id, since: Date.now() }] });
  await noteProcess(board.store, { id: "late", seenAt: Date.now() - 150_000, places: 9, hung: [] });
  const lost =
    /Its process has lost it\. Its handler was told to stop at .*, and has not returned since\. It keeps its place .* m:1 is restarted/s;
  assertMatch(await page(board, "/running"), lost);
  assertMatch(
    await page(board, `/delivery?id=${id}`),
    /since its process lost the lease<\/b>.*m:1 is/s,
  );
  const first = await strip(board, clock, (html) => html.includes("1/2") && html);
  assertMatch(first, lost);
  assertStringIncludes(first, "1 whose event it has lost");
});

Deno.test("what has ended, or runs in a process that is gone, keeps no place", async () => {
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1"));
  await board.store.claim({ limit: 1, owner: "w", leaseMs: 1 });
  await board.store.cancel(id);
  const hung = [{ id: "github:gone", since: Date.now() }];
  await noteProcess(board.store, { seenAt: Date.now() - 150_000, hung });
  const { lease } = (await board.store.get(id))!;
  assertEquals(lease!.owner, "w");
  // Its lease has been over for longer than a renewal takes.
  const now = Date.now;
  Date.now = () => now() + 6_000;
  try {
    const found = await json(board, "running");
    assertEquals([found.events[0].hung, found.strays], [undefined, []]);
  } finally {
    Date.now = now;
  }
});

Deno.test("a process that was killed has no places, and is marked as not seen since", async () => {
  using clock = new MonotonicClock();
  await using board = await openBoard();
  await noteProcess(board.store);
  const gone = { id: "gone", name: "m:2", places: 4, overdue: ["github:1"] };
  await noteProcess(board.store, { ...gone, seenAt: Date.now() - 2.5 * MINUTE });
  // An idle one notes itself less often.
  await noteProcess(board.store, {
    ...{ id: "idle", name: "m:3", places: 1, seenAt: Date.now() - 2.5 * MINUTE },
    everyMs: 15 * MINUTE,
  });
  const html = await strip(board, clock, (html) => html.includes("0/3") && html);
  assertMatch(html, /m:2.*<td [^>]*class="error">not seen since <time/s);
  assertEquals(html.match(/not seen since/g)?.length, 1);
});

Deno.test("the place of a handler that hangs in another process is seen as it is freed", async () => {
  await using board = await openBoard();
  const other = await openEventStore(board.kv, { namespace: "bot" });
  const held = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const worker = startWorker(other, () => (begun.resolve(), held.promise), { log: () => {} });
  try {
    const { id } = await other.accept(delivery("1"));
    await begun.promise;
    await board.act({ kind: "cancel", id });
    assertMatch(await page(board, "/running"), /has not returned since\. It keeps its place/);
    held.resolve();
    await until(async () => (await board.store.get(id))?.state === "dead");
    assert(!(await page(board, "/running")).includes("has not returned"));
    assert((await page(board, `/delivery?id=${id}`)).includes("kind=replay"));
  } finally {
    held.resolve();
    await worker.stop();
  }
});
