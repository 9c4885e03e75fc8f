import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type Strip, stripTiles, wrongList } from "../../console/_strip.ts";
import { startWorker } from "../../events/mod.ts";
import type { Wrong } from "../../watch/health.ts";
import { claim, delivery, openBoard, OPERATOR, storeDead, VIEWER } from "./_board.ts";
import { until } from "./_data.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import { WallClock } from "../_wall_clock.ts";

/** Length of leases that do not end while the clock is turned. */
const leaseMs = 3_600_000;

Deno.test("a handler that hangs is on the first page, red, with the link to cancel it", async () => {
  using clock = new WallClock();
  using reading = new MonotonicClock();
  await using board = await openBoard();
  const { store } = board;
  const held = Promise.withResolvers<void>();
  const worker = startWorker(store, () => held.promise, {
    ...{ concurrency: 2, leaseMs, log: () => {} },
  });
  try {
    const ids: string[] = [];
    for (const id of ["1005", "1006", "1007"]) ids.push((await store.accept(delivery(id))).id);
    await until(async () => (await store.stats()).running === 2);
    const operator = { Cookie: await board.login() };
    const look = async (headers = operator) => {
      reading.advance(21_000);
      await board.get("/", headers);
      return await (await board.get("/", headers)).text();
    };
    const calm = await until(async () => {
      const html = await look();
      return html.includes("2/2") && html;
    });
    assert(!calm.includes('class="bad"'));
    // One click to the question, and one to answer it, also before anything is wrong.
    for (const id of ids.slice(0, 2)) {
      assertStringIncludes(calm, `<a href="act?kind=cancel&amp;id=${encodeURIComponent(id)}"`);
    }
    assertStringIncludes(calm, "Nothing is wrong.");
    clock.advance(65_000);
    const red = await until(async () => {
      const html = await look();
      return html.includes("All 2 places") && html;
    });
    assertStringIncludes(red, 'class="bad"');
    const html = await look();
    const [, first] = /<ul class="wrong"><li class="row">(.*?)<\/li>/s.exec(html)!;
    assertStringIncludes(first!, `href="delivery?id=${encodeURIComponent(ids[0]!)}"`);
    assertStringIncludes(first!, `href="act?kind=cancel&amp;id=${encodeURIComponent(ids[0]!)}"`);
    const seen = await look({ Cookie: await board.login(VIEWER) });
    assert(seen.includes("All 2 places") && !seen.includes("kind=cancel"));
    assertMatch(html, /<h2>Processes<\/h2>/);
    assertEquals((await board.act({ kind: "cancel", id: ids[0]! })).status, 303);
  } finally {
    held.resolve();
    await worker.stop();
  }
});

Deno.test("what was due at the last look is not red later, and the page says when that was", async () => {
  using clock = new WallClock();
  using _reading = new MonotonicClock();
  await using board = await openBoard();
  await board.store.accept(delivery("1"));
  const headers = { Cookie: await board.login() };
  const look = async () => await (await board.get("/", headers)).text();
  const before = await until(async () => {
    const html = await look();
    return html.includes("Nothing is wrong.") && html;
  });
  assert(!before.includes("Looked for what is wrong"));
  await claim(board.store);
  clock.advance(61_000);
  const html = await look();
  assert(!html.includes("nobody has taken it"));
  assertStringIncludes(html, "Looked for what is wrong <time");
});

/** A process of the first page that runs one event. */
const running = (id: string, runs: string) => ({
  ...{ id, name: id, version: undefined, startedAt: 0, seenAt: 0, places: 1, heldSince: 0 },
  ...{ isGone: false, held: 1, lost: 0 },
  ...{ busy: 1, running: [{ id: runs, name: "push", since: 0 }] },
});

/** Shows what is wrong to an operator. */
function wrongTo(wrong: readonly Wrong[], strip: Partial<Strip> = {}): string {
  const none = {
    ...{ at: 0, places: { busy: 2, of: 2 }, hung: [], longest: [] },
    ...{ oldestDue: null, recent: null },
  };
  const context = {
    ...{ name: "bot", environment: undefined, sendsExamples: false, hidesPayloads: false },
    session: { id: "s", role: "operator" } as never,
  };
  return String(wrongList({ ...none, processes: [], ...strip, wrong }, context, 60_000));
}

Deno.test("ids of what is wrong are links, and the rows of a process are below its sentence", () => {
  const held = (process: string, eventId: string): Wrong => ({
    ...{ kind: "places_held", key: `places_held:${process}`, since: 0 },
    event: { id: eventId, name: `${eventId} (push)` },
    text:
      `The only place of the process ${process} has been held, the longest by ${eventId} (push)`,
  });
  const html = wrongTo([
    held("p1", "github:<1>"),
    held("p2", "github:2"),
    held("p3", "github:<3>"),
    { kind: "dead", key: "dead", since: 0, text: "An event has died in the last hour" },
  ], { processes: [running("p1", "github:<1>"), running("p2", "github:2")] });
  assertStringIncludes(html, 'by <a href="delivery?id=github%3A%3C1%3E">push</a>');
  // Its name is not known.
  assertStringIncludes(
    html,
    'by <a class="mono" href="delivery?id=github%3A%3C3%3E">github:&lt;3&gt; (push)</a>',
  );
  const order = [
    ...["the process p1", "The process runs", "act?kind=cancel&amp;id=github%3A%3C1%3E"],
    ...["the process p2", "The process runs", "act?kind=cancel&amp;id=github%3A2"],
    ...["Cancel the ones that hang", "the process p3", "has died"],
  ];
  let at = 0;
  for (const part of order) {
    at = html.indexOf(part, at);
    assert(at >= 0, `${part} in its place of ${html}`);
  }
});

Deno.test("the tile of what died is red only while some of it is dead still", () => {
  const tiles = (count: number, wrong: readonly Wrong[]) => {
    const numbers = { attempts: 0, failed: 0 };
    const recent = {
      ...{ recent: numbers, before: numbers, dead: 65, lastFailedAt: Date.UTC(2026, 0, 1, 9, 5) },
      stillDead: { count, isMore: false },
    };
    const none = {
      ...{ at: 0, places: { busy: 0, of: 0 }, hung: [], longest: [], oldestDue: null },
    };
    return String(stripTiles({ ...none, processes: [], recent, wrong }, null, 0));
  };
  const calm = tiles(0, []);
  assertStringIncludes(calm, "none is dead any more");
  assertMatch(calm, /none in the hour before; the last at <time [^>]*>09:05</);
  assert(!calm.includes('class="bad"'));
  const died: Wrong = { kind: "dead", key: "dead", since: 0, text: "65 events have died" };
  assertMatch(tiles(5, [died]), /class="bad" href="deliveries\?state=dead">.*65.*5 still dead/);
});

Deno.test("the question before a replay says that what is replayed waits", async () => {
  using reading = new MonotonicClock();
  await using board = await openBoard();
  const { store } = board;
  const dead = await storeDead(store, "dead");
  const held = Promise.withResolvers<void>();
  const worker = startWorker(store, () => held.promise, { concurrency: 1, leaseMs, log: () => {} });
  const operator = { Cookie: await board.login() };
  const look = async (path: string) => {
    reading.advance(21_000);
    return await (await board.get(path, operator)).text();
  };
  const ask = (choice: string) => look(`/act?kind=replay&${choice}`);
  try {
    const [one, many] = [`id=${encodeURIComponent(dead)}`, "state=dead"];
    for (const choice of [one, many]) assert(!(await ask(choice)).includes("busy"));
    await store.accept(delivery("1"));
    await until(async () => (await look("/")).includes("1/1"));
    const waits = "The only place is busy: what is replayed waits.";
    for (const choice of [one, many]) assertStringIncludes(await ask(choice), waits);
    const headers = { Authorization: `Bearer ${OPERATOR}`, "Content-Type": "application/json" };
    for (const choice of [{ id: dead }, { state: "dead" }]) {
      const body = JSON.stringify({ kind: "replay", ...choice, dryRun: true });
      const asked = await board.send("/api/act", { method: "POST", body }, headers);
      const { count, waits: why } = await asked.json();
      assertEquals([count, why], [1, waits]);
    }
    const { id } = await store.accept(delivery("2"));
    const event = await look(`/delivery?id=${encodeURIComponent(id)}`);
    assertMatch(event, /First attempt<\/b>[^<]*<span class="dim">[^<]*the only place is busy/);
    const purge = await board.get(`/act?kind=purge&id=${encodeURIComponent(dead)}`, operator);
    assert(!(await purge.text()).includes("busy"));
  } finally {
    held.resolve();
    await worker.stop();
  }
});
