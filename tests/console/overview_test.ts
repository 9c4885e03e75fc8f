import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { startWorker } from "../../events/mod.ts";
import { claim, delivery, openBoard, VIEWER } from "./_board.ts";
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
