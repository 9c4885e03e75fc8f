import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { ActCount } from "../../console/_act_steps.ts";
import type { Act } from "../../console/_act_record.ts";
import type { Activity } from "../../watch/activity.ts";
import type { ConsoleData, Overview } from "../../console/_console_data.ts";
import { ASSETS } from "../../console/_http.ts";
import { when } from "../../console/_format.ts";
import { askedAtOf, countedActId, MAX_LENGTHS, newActId } from "../../console/_query.ts";
import type { Delivery } from "../../events/mod.ts";
import {
  type BoardUnderTest,
  claim,
  delivery,
  openBoard,
  storeDead,
  storeDone,
  VIEWER,
} from "./_board.ts";
import { ask } from "../events/store/_limited.ts";
import { until } from "./_data.ts";
import { changeValue, setValue } from "../events/store/kv/_values.ts";

async function page(board: BoardUnderTest, path: string): Promise<string> {
  const response = await board.get(path, { Cookie: await board.login() });
  assertEquals(response.status, 200, path);
  return await response.text();
}

Deno.test("the console's address leads to its first page, below any prefix", async () => {
  await using board = await openBoard();
  const response = await board.get("");
  assertEquals([response.status, response.headers.get("Location")], [303, "console/"]);
});

Deno.test("an address below a page leads to the first page, and not round and round", async () => {
  await using board = await openBoard();
  for (
    const [path, to] of [["/login/", "../login"], ["/a/b/c", "../../"], ["/deliveries/x", "../"]]
  ) {
    assertEquals((await board.get(path!)).headers.get("Location"), to);
  }
});

for (
  const path of [
    ...["/d", "/log", "/del", "/s", "/act", "/login", "/delivery", "/internal/login"],
    ...["/act/act", "/delivery/delivery", "/console/console"],
  ]
) {
  for (const prefix of ["", "/act", path, "/bots/delivery"]) {
    Deno.test(`a console at ${path} below "${prefix}" has all pages`, async () => {
      await using board = await openBoard({ path }, prefix);
      const to = (await board.get("")).headers.get("Location");
      assertEquals(to, `${path.split("/").at(-1)}/`);
      const titles = {
        "": "Overview",
        deliveries: "Deliveries",
        problems: "Problems",
        limits: "Limits",
        acts: "Acts",
        login: "Log in",
      };
      for (const [name, title] of Object.entries(titles)) {
        assertStringIncludes(await page(board, `/${name}`), `<title>${title} ·`);
      }
      const id = await storeDead(board.store, "1");
      assertStringIncludes(await page(board, `/delivery?id=${id}`), id);
      assertStringIncludes(await page(board, `/act?kind=purge&id=${id}`), "Purge this event?");
      const style = await board.get(`/${ASSETS.style.name}`);
      assertEquals(await style.text(), ASSETS.style.content);
      assertEquals((await board.get("/login/")).headers.get("Location"), "../login");
      const Cookie = await board.login();
      assertEquals((await board.act({ kind: "purge", id })).status, 303);
      assertEquals((await board.post("/logout", {}, { Cookie })).status, 303);
    });
  }
}

Deno.test("pages link beside themselves only, so that a prefix does not matter", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const { problem } = (await board.store.get(id))!;
  for (
    const path of [
      "/",
      "/deliveries",
      `/delivery?id=${id}`,
      "/limits",
      "/problems",
      `/problem?id=${problem}`,
      "/acts",
      `/act?kind=purge&id=${id}`,
    ]
  ) {
    for (const [, url] of (await page(board, path)).matchAll(/(?:href|src|action)="([^"]*)"/g)) {
      assertMatch(url!, /^(\.\/|#main|#list|[a-z]+(-[0-9a-f]{12}\.(css|js|svg))?)(\?|$)/, path);
    }
  }
});

/** Numbers that are 0. */
const ZEROS = { emitted: 0, ignored: 0, dead: 0, cancelled: 0, parked: 0, putOff: 0 };

/** Activity of a whole day, in each quarter of an hour. */
const DAY: Activity = {
  slotMs: 900_000,
  slots: Array.from({ length: 96 }, (_, i) => ({
    ...{ at: 1_800_000_000_000 + i * 900_000, received: 1_000 + i, refused: 10 + i },
    ...{ ...ZEROS, handled: 2_000 + i, failed: 100 + i, attempts: i === 95 ? 195 : 2_100 + 2 * i },
  })),
  refusedBy: [],
  types: Array.from({ length: 20 }, (_, i) => ({
    ...{ source: "github", type: `pull_request_review_${i}` },
    ...{ ...ZEROS, received: 9_000, handled: 8_000, failed: 1_000, attempts: 9_000 },
  })),
  total: { ...ZEROS, received: 180_000, handled: 160_000, failed: 20_000, attempts: 180_000 },
  latency: null,
};

const OVERVIEW: Overview = {
  ...{ counts: null, waiting: null, countedAt: null, doneCountedAt: null, oldestDueAt: null },
  ...{ answered: null, totals: null, workers: 1, activity: DAY, health: null },
};

Deno.test("the first page, with its style and script, takes under 60 KB on a busy day, and 15 KB as it is sent", async () => {
  const overview = () => Promise.resolve(OVERVIEW);
  await using board = await openBoard({ data: { overview } });
  const html = await page(board, "/?period=day");
  const files = Object.values(ASSETS).reduce((sum, { content }) => sum + content.length, 0);
  assert(html.length + files < 60_000, `${html.length} + ${files}`);
  const headers = { Cookie: await board.login(), "Accept-Encoding": "gzip" };
  const names = ["?period=day", ...Object.values(ASSETS).map(({ name }) => name)];
  const sizes = await Promise.all(names.map(async (name) => {
    const response = await board.get(`/${name}`, headers);
    return (await response.arrayBuffer()).byteLength;
  }));
  const sent = sizes.reduce((sum, size) => sum + size, 0);
  assert(sent < 15_000, sizes.join(" + "));
});

Deno.test("the charts have a table with their values, without the times at which nothing was", async () => {
  const slots = DAY.slots.map((slot, i) =>
    i === 3 ? { ...slot, received: 0, refused: 0, attempts: 0, failed: 0 } : slot
  );
  const activity = { ...DAY, slots };
  const overview = () => Promise.resolve({ ...OVERVIEW, activity });
  await using board = await openBoard({ data: { overview } });
  const [, table] = /<details class="values">(.*?)<\/details>/s.exec(await page(board, "/"))!;
  const rows = [...table!.matchAll(/<th data-at=(\d+)>[\d:]{5}((?:<td>[\d,]+)+)/gs)]
    .map(([, at, cells]) => [at, ...cells!.split("<td>").slice(1)]);
  assertEquals(rows.length, 95);
  assertEquals(rows[0], ["30001425", "1,095", "105", "0", "195"]);
  assertEquals(rows.at(-1), ["30000000", "1,000", "10", "2,000", "100"]);
});

Deno.test("the first page says how many types it does not show", async () => {
  const numbers = { ...ZEROS, received: 7, handled: 5, failed: 0, attempts: 5 };
  const types = [...DAY.types, { source: "", type: "other", ...numbers }];
  const activity = { ...DAY, types, moreTypes: { count: 3, ...numbers } };
  const overview = () => Promise.resolve({ ...OVERVIEW, activity });
  await using board = await openBoard({ data: { overview } });
  const html = await page(board, "/");
  assertMatch(html, /3 more types<\/td><td>7<td>5<td>/);
  assert(html.includes(">other</td>") && !html.includes("type=other"));
});

Deno.test("style and script are cached for good, under names of their content", async () => {
  await using board = await openBoard();
  const response = await board.get(`/${ASSETS.script.name}`);
  assertEquals(response.headers.get("Cache-Control"), "public, max-age=31536000, immutable");
  assertEquals(response.headers.get("Content-Type"), "text/javascript; charset=utf-8");
  assertEquals(await response.text(), ASSETS.script.content);
  assertEquals((await board.get("/script-000000000000.js")).status, 303);
});

Deno.test("the first page counts the states, and says what to do as long as nothing has come", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  const look = async (text: string) =>
    (await (await board.get("/", { Cookie })).text()).includes(text);
  await until(() => look("No delivery yet"));
  await storeDead(board.store, "1");
  const html = await page(board, "/");
  assertStringIncludes(html, "no worker is running");
  assertStringIncludes(html, 'href="deliveries?state=dead"');
});

Deno.test("the first page says which counts were cut short, and when old ones were made", async () => {
  const none = { count: 0, isMore: false };
  const counts = {
    ...{ queued: { count: 9_980, isMore: true }, running: { count: 10_000, isMore: true } },
    ...{ parked: none, dead: { count: 3, isMore: false }, done: { count: 0, isMore: true } },
  };
  let ages = [0, 0];
  const overview = () => {
    const [countedAt, doneCountedAt] = ages.map((age) => Date.now() - age) as [number, number];
    return Promise.resolve({ ...OVERVIEW, counts, countedAt, doneCountedAt });
  };
  await using board = await openBoard({ data: { overview } });
  const html = await page(board, "/");
  const tiles = [...html.matchAll(/<span class="state \w+">([^<]*)<\/span><b>([^<]*)/g)];
  assertEquals(tiles.map(([, name, text]) => `${name}: ${text}`), [
    ...["queued, at least: 9,980", "running: 10,000+", "parked: 0", "done: …", "dead: 3"],
  ]);
  assert(!html.includes("Counted ") && !html.includes("No delivery yet"));
  ages = [6_000, 0];
  const old = await page(board, "/");
  assert(old.includes("Counted <time") && !old.includes("those that are done <"));
  ages = [0, 60_000];
  assertStringIncludes(await page(board, "/"), ", those that are done <time");
});

Deno.test("the first page shows nothing as a fact that was not read yet", async () => {
  const overview = () => Promise.resolve({ ...OVERVIEW, workers: null, activity: null });
  await using board = await openBoard({ data: { overview } });
  const html = await page(board, "/");
  assert(!html.includes("no worker is running") && !html.includes("No delivery yet"));
  assert(!/<b>[0–]/.test(html));
  assertStringIncludes(html, "handled in, p50</span><b>…</b>");
  assertStringIncludes(html, "Reading what was counted…");
});

Deno.test("the page of deliveries filters, and its address is its state", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1", { type: "push" });
  await board.store.accept(delivery("2", { type: "release" }));
  const dead = await page(board, "/deliveries?state=dead");
  assert(dead.includes("push") && !dead.includes("release"));
  assertMatch(dead, /<option value="dead"[^>]*selected/);
  const typed = await page(board, "/deliveries?type=release");
  assert(typed.includes("release") && !/>push/.test(typed));
  assertStringIncludes(await page(board, "/deliveries?type=nothing"), "Nothing matches");
});

Deno.test("the page of deliveries goes on where it ended", async () => {
  await using board = await openBoard();
  for (let i = 0; i < 60; i++) await board.store.accept(delivery(`n${i}`));
  const first = await page(board, "/deliveries");
  const [, next] = /href="(deliveries\?cursor=[^"]+)"/.exec(first)!;
  const second = await page(board, `/${next!.replaceAll("&amp;", "&")}`);
  const idsOf = (html: string) => [...html.matchAll(/delivery\?id=([^"]+)"/g)].map(([, id]) => id);
  assertEquals(new Set([...idsOf(first), ...idsOf(second)]).size, 60);
  assert(!second.includes("data-live"));
});

Deno.test("the page of a delivery has its attempts, the newest error first", async () => {
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1", {
    ...{ orderingKey: "k", traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` },
  }));
  for (const error of ["first", "second"]) {
    await board.store.retry(await claim(board.store), 0, new Error(`the ${error} error`));
  }
  const html = await page(board, `/delivery?id=${id}`);
  assert(html.indexOf("the second error") < html.indexOf("the first error"));
  assertStringIncludes(html, "a".repeat(32));
  assertStringIncludes(html, "Attempt 3");
});

Deno.test("the page of a delivery says that its handler has put it off", async () => {
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1"));
  const lease = await claim(board.store);
  await board.store.release(lease, { delayMs: 60_000, reason: "too early" });
  const html = await page(board, `/delivery?id=${id}`);
  assertMatch(html, /Put off<\/b>.*too early/s);
  assertStringIncludes(html, "First attempt");
});

Deno.test("the page of a delivery says for which limit it waits, and until when", async () => {
  for (const hidesPayloads of [false, true]) {
    await using board = await openBoard({ hidesPayloads });
    const { id } = await board.store.accept(delivery("1"));
    const rated = { delayMs: 60_000, isLimited: true, limit: "github" };
    await board.store.release(await claim(board.store), rated);
    const iso = new Date((await board.store.get(id))!.dueAt!).toISOString();
    const pattern = `no room, in .*datetime="${iso}".*for room under the limit <[^>]*>github<`;
    assertMatch(await page(board, `/delivery?id=${id}`), new RegExp(pattern, "s"));
  }
});

Deno.test("the page of limits shows what is free of each, and until when it is closed", async () => {
  await using board = await openBoard();
  const { store } = board;
  const rows = async () =>
    [...(await page(board, "/limits")).matchAll(/<tr>(<td.*?)(?=<tr>|<\/tbody>)/gs)]
      .map(([, row]) => [...row!.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell]) => cell));
  assertStringIncludes((await rows())[0]![0]!, "No limit is in use");
  const rule = { limit: 2_000, perMs: 60_000 };
  await ask(store, rule, { name: "github" });
  await ask(store, { ...rule, limit: 1 }, { name: "telegram", key: "42" });
  await store.tokens.of("zulip", "").closeFor(60_000);
  const found = await Array.fromAsync(store.limits());
  const iso = new Date(found[2]!.closedUntil!).toISOString();
  const [github, telegram, zulip] = await rows();
  const free = found[0]!.free!.toLocaleString("en-US");
  assertEquals(github, ["github", "", free, "2,000", "1 min", ""]);
  assertEquals(telegram, ["telegram", "42", "0", "1", "1 min", ""]);
  assertEquals(zulip!.slice(0, 5), ["zulip", "", "", "", ""]);
  assertStringIncludes(zulip![5]!, iso);
  await Promise.all(
    Array.from({ length: 200 }, (_, i) => store.tokens.of("a", `${i}`).closeFor(60_000)),
  );
  assertEquals((await rows()).length, 200);
  assertStringIncludes(await page(board, "/limits"), "These are the first 200");
});

Deno.test("the page of limits names what it cannot read", async () => {
  await using board = await openBoard();
  await board.store.tokens.of("github", "1").closeFor(60_000);
  await setValue(board.kv, ["bot", "limit", "github", "1"], { taken: 1 });
  assertMatch(await page(board, "/limits"), /github<.*>1<.*cannot be read/s);
});

Deno.test("the page of a delivery says by what its handler was interrupted", async () => {
  await using board = await openBoard();
  const { store } = board;
  const rule = { orderingKey: "k", newer: "interrupt", interrupt: { steps: "drop" } } as const;
  const [first, second] = [
    await store.accept(delivery("1", rule)),
    await store.accept(delivery("2", rule)),
  ];
  assert(await store.interrupt(await claim(store), second.id));
  const html = await page(board, `/delivery?id=${first.id}`);
  assertMatch(html, /Interrupted<\/b>.*without counting/s);
  assertStringIncludes(html, "a newer event");
});

Deno.test("pages say which deliveries are handled together, and that all are cancelled", async () => {
  await using board = await openBoard();
  const { store } = board;
  for (const id of ["1", "2"]) {
    await store.accept(delivery(id, { orderingKey: "k", quietMs: 50, maxWaitMs: 50 }));
  }
  const { record } = await claim(store);
  assertEquals(record.batch?.events, 2);
  await store.accept(delivery("3", { orderingKey: "k" }));
  const [first, second, third] = await Promise.all(
    ["1", "2", "3"].map((id) => page(board, `/delivery?id=github:${id}`)),
  );
  assertStringIncludes(first!, "first of 2 events");
  assertMatch(second!, /1 before it, first\s+issues\.opened\s+<a[^>]+id=github%3A1">/);
  assertMatch(
    second!,
    /handled together with\s+<a href="delivery\?id=github%3A1">the first one<\/a>/,
  );
  assertMatch(third!, /2 before it, first\s+issues\.opened\s+<a[^>]+id=github%3A1">/);
  assert(!third!.includes("handled together"));
  const question = async (id: string) => await page(board, `/act?kind=cancel&id=github:${id}`);
  assertStringIncludes(await question("1"), "first of 2 events that are handled together: all");
  assert(!(await question("2")).includes("handled together"));
});

Deno.test("an act on the first delivery of a batch says that all of it is cancelled", async () => {
  await using board = await openBoard();
  const { store } = board;
  for (const id of ["1", "2"]) {
    await store.accept(delivery(id, { orderingKey: "k", quietMs: 50, maxWaitMs: 50 }));
  }
  const lease = await claim(store);
  await board.act({ kind: "cancel", id: "github:1" });
  assertStringIncludes(await page(board, "/delivery?id=github:1"), "with all 2 of its batch");
  const acts = await page(board, "/acts");
  assertStringIncludes(acts, "with its batch of 2");
  const [, progress] = /href="(progress\?id=[^"]+)"/.exec(acts)!;
  assertStringIncludes(
    await page(board, `/${progress}`),
    "the first of 2 that are handled together",
  );
  assertEquals(board.logs.find(({ message }) => message === "console act")?.batch, 2);
  await store.complete(lease);
  const member = await page(board, "/delivery?id=github:2");
  assertMatch(member, /handled together with\s+<a href="delivery\?id=github%3A1">/);
});

Deno.test("pages name an event by its type, its repository and its sender beside its id", async () => {
  await using board = await openBoard();
  const { store } = board;
  const repository = { id: 1, fullName: "octo/hello", owner: "octo", name: "hello" };
  const sender = { id: 2, name: "mona", isBot: true };
  const id = await storeDead(store, "1", { repository, sender });
  const name = "issues.opened in octo/hello";
  assertMatch(
    await page(board, "/deliveries"),
    /octo\/hello<\/span>\s+<span class="dim off">by mona \(bot\)/,
  );
  assertStringIncludes(await page(board, `/delivery?id=${id}`), `<title>${name} · bot</title>`);
  assertStringIncludes(await page(board, `/act?kind=purge&id=${id}`), "mona (bot)");
  const { headers } = await board.act({ kind: "purge", id });
  const progress = await page(board, `/${headers.get("Location")}`);
  assertMatch(progress, /issues\.opened in octo\/hello\s+<span class="mono">github:1</);
  assertStringIncludes(await page(board, "/acts"), name);
});

const OWN = {
  ...{ source: "jobs", type: "digest", id: undefined, delayMs: 0 },
  body: new TextEncoder().encode("{}"),
};

Deno.test("pages name the events that another has emitted, and the one that it comes of", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1", { chat: { id: 77 } } as Partial<Delivery>));
  const lease = await claim(store);
  await store.complete(lease, { emits: [OWN] });
  const parent = await page(board, `/delivery?id=${id}`);
  const [, child] = /digest\s+<a class="mono" href="(delivery\?id=[^"]+)"/.exec(parent)!;
  assertMatch(await page(board, `/${child}`), /issues\.opened in chat 77\s+<a class="mono"/);
});

Deno.test("an operator replays a dead delivery, and the act is kept", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  assertStringIncludes(await page(board, `/act?kind=replay&id=${id}`), "Replay this event?");
  const response = await board.act({ kind: "replay", id });
  assertEquals(response.headers.get("Location"), `delivery?id=${encodeURIComponent(id)}`);
  assertEquals((await board.store.get(id))?.state, "queued");
  assertMatch(await page(board, "/acts"), /operator [0-9a-f]{4} from 192\.0\.2\.1/);
});

Deno.test("an operator acts on all that match, after a count, and not on what comes later", async () => {
  await using board = await openBoard();
  for (const id of ["1", "2", "3"]) await storeDead(board.store, id, { type: "push" });
  await storeDead(board.store, "4", { type: "other" });
  const html = await page(board, "/act?kind=replay&state=dead&type=push");
  assertStringIncludes(html, "Replay 3 events");
  const fields = fieldsOf(html);
  assertEquals(Object.keys(fields).sort(), ["act", "kind", "of", "state", "type"]);
  await until(() => Promise.resolve(Date.now() > askedAtOf(fields.act!)!));
  await storeDead(board.store, "5", { type: "push" });
  const Cookie = await board.login();
  const response = await board.act(fields);
  const progress = response.headers.get("Location")!;
  await until(async () =>
    (await (await board.get(`/${progress}`, { Cookie })).text()).includes("finished")
  );
  const states = await Promise.all(
    ["1", "2", "3", "4", "5"].map(async (id) => (await board.store.get(`github:${id}`))?.state),
  );
  assertEquals(states, ["queued", "queued", "queued", "dead", "dead"]);
});

Deno.test("an act on many can begin only once all that it would change are counted", async () => {
  let count: ActCount;
  const polls: unknown[] = [];
  const look: ConsoleData["actCounts"]["look"] = (_kind, _query, isPoll) => {
    polls.push(isPoll);
    return Promise.resolve(count);
  };
  await using board = await openBoard({ data: { actCounts: { look } } });
  const askedAt = Date.now() - 60_000;
  const question = async (counted: Pick<ActCount, "count" | "isMore">, headers = {}) => {
    count = { notKept: 0, first: [], ...counted, askedAt };
    const Cookie = await board.login();
    const response = await board.get("/act?kind=purge&state=dead", { Cookie, ...headers });
    return (await response.text()).replaceAll(/\s+/g, " ");
  };
  const none = await question({ count: 0, isMore: false });
  assert(none.includes("Nothing matches any more") && !none.includes('action="act"'));
  const counting = await question({ count: 12_345, isMore: true, ...{ notKept: 700 } });
  for (
    const part of [
      '<div data-live="often">',
      "12,345 counted so far. 700 more",
      ">Stop counting</a>",
    ]
  ) {
    assertStringIncludes(counting, part);
  }
  assert(!counting.includes('action="act"'));
  const counted = await question({ count: 14_759, isMore: false }, { "X-Poll": "1" });
  for (const part of ['<div data-live="end">', "Purge 14,759 events?", 'name="of" value="14759"']) {
    assertStringIncludes(counted, part);
  }
  assertEquals(askedAtOf(fieldsOf(counted).act!), askedAt);
  assertEquals(polls, [false, false, true]);
});

Deno.test("an operator stops an act on many from its page, a viewer does not", async () => {
  await using board = await openBoard();
  const { store } = board;
  await Promise.all(Array.from({ length: 120 }, (_, i) => store.accept(delivery(`d${i}`))));
  const fields = fieldsOf(await page(board, "/act?kind=cancel&state=queued"));
  assertEquals(fields.of, "120");
  const Cookie = await board.login();
  const progress = (await board.act(fields)).headers.get("Location")!;
  const textOf = async (cookie: string) =>
    await (await board.get(`/${progress}`, { Cookie: cookie })).text();
  const [operators, viewer] = [await textOf(Cookie), await board.login(VIEWER)];
  assertStringIncludes(operators, 'action="stop"');
  assert(!(await textOf(viewer)).includes('action="stop"'));
  const { id } = fieldsOf(operators);
  assertEquals((await board.post("/stop", { id: id! }, { Cookie: viewer })).status, 403);
  assertEquals((await board.post("/stop", { id: "x" }, { Cookie })).status, 404);
  const stopped = await board.post("/stop", { id: id! }, { Cookie });
  assertEquals([stopped.status, stopped.headers.get("Location")], [303, `progress?id=${id}`]);
  await until(async () =>
    /Stopped after \d+ of 120 by operator \w{4} from 192/.test(await textOf(Cookie))
  );
  assert((await store.stats()).queued > 0);
});

Deno.test("nobody acts on deliveries of any state at once", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1");
  const before = String(Date.now() + 1_000);
  for (const kind of ["replay", "cancel", "purge"]) {
    assertEquals((await board.act({ kind, before })).status, 400);
  }
});

Deno.test("a page that the store gives no answer for says so, and is logged", async () => {
  const details = () => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.7"));
  await using board = await openBoard({ data: { details } });
  const Cookie = await board.login();
  const response = await board.get("/delivery?id=x", { Cookie });
  assertEquals(response.status, 503);
  assert(!(await response.text()).includes("10.0.0.7"));
  assertEquals(board.logs.at(-1)?.message, "console page failed");
});

/** Keeps the record of an act that an operator has begun. */
async function keepAct({ kv }: BoardUnderTest, act: Partial<Act> & { aliveAt?: number }) {
  const id = newActId();
  const counts = { changed: 0, seen: 0, batch: 0, underway: 0, notKept: 0 };
  const value = { v: 1, id, at: Date.now(), by: "me", aliveAt: Date.now(), ...counts, ...act };
  await setValue(kv, ["bot", "console", "act", askedAtOf(id)!, id], value);
  return id;
}

/** Reads the fields of a form. */
const fieldsOf = (html: string): Record<string, string> =>
  Object.fromEntries(
    [...html.matchAll(/<input[^>]*name="(\w+)"[^>]*value="([^"]*)"/g)].map(([, k, v]) => [k!, v!]),
  );

Deno.test("the question about one event shows it, and says what its state does not allow", async () => {
  await using board = await openBoard();
  const repository = { id: 1, fullName: "a/b", owner: "a", name: "b" };
  const id = await storeDead(board.store, "1", { type: "push", repository });
  const html = await page(board, `/act?kind=purge&id=${id}`);
  for (const part of ["Purge this event?", "push.opened", "a/b", "state dead", id]) {
    assertStringIncludes(html, part);
  }
  const Cookie = await board.login();
  assertEquals((await board.get("/act?kind=purge&id=none", { Cookie })).status, 404);
  const { id: open } = await board.store.accept(delivery("2"));
  const refused = await page(board, `/act?kind=purge&id=${open}`);
  assertStringIncludes(refused, "It has not ended. Cancel it first");
  assert(!refused.includes('action="act"'));
  assertStringIncludes(await page(board, `/act?kind=cancel&id=${open}`), "stays done");
  const response = await board.act({ kind: "purge", id: open });
  assertEquals(response.status, 409);
  assertStringIncludes(await response.text(), "It has not ended.");
  assertEquals((await board.act({ kind: "purge", id: "none" })).status, 404);
  const purged = await board.post("/act", fieldsOf(html), { Cookie });
  const result = await page(board, `/${purged.headers.get("Location")}`);
  assertStringIncludes(result, "The event was deleted, with its payload.");
  assert(!result.includes("delivery?id="));
});

Deno.test("an act is on the event that the question showed, as it was then", async () => {
  await using board = await openBoard();
  const { store } = board;
  const Cookie = await board.login();
  const question = async (kind: string, id: string) => {
    const html = await (await board.get(`/act?kind=${kind}&id=${id}`, { Cookie })).text();
    return { kind, id, act: /name="act" value="([^"]+)"/.exec(html)![1]! };
  };
  const answer = async (fields: Record<string, string>) => (await board.act(fields)).status;
  const id = await storeDead(store, "1");
  const [purge, replay] = [await question("purge", id), await question("replay", id)];
  const later = async () => await until(() => Promise.resolve(Date.now() > asked));
  const asked = Date.now();
  await later();
  // Somebody else replays it, and it dies once more.
  assert(await store.replay(id));
  await store.bury(await claim(store), "again");
  assertEquals([await answer(purge), await answer(replay)], [409, 409]);
  // Somebody else purges it, and it is delivered again.
  assertEquals((await store.purge({ ids: [id] })).changed, 1);
  assertEquals(await storeDead(store, "1", { type: "push" }), id);
  assertEquals([await answer(purge), (await store.get(id))?.type], [409, "push"]);
  const mine = await question("purge", id);
  const other = await storeDead(store, "2");
  assertEquals(await answer(mine), 303);
  assertEquals([await answer({ ...mine, id: other }), (await store.get(other))?.state], [
    400,
    "dead",
  ]);
});

Deno.test("an answer that is sent again leads to the act that has begun", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const fields = fieldsOf(await page(board, "/act?kind=replay&state=dead"));
  const [first, second] = await Promise.all(
    [1, 2].map(() => board.act(fields)),
  );
  assertEquals([first!.status, second!.status], [303, 303]);
  assertEquals(second!.headers.get("Location"), first!.headers.get("Location"));
  await until(async () => (await board.store.get(id))?.state === "queued");
  await board.store.cancel(id);
  await (await board.act(fields)).text();
  assertEquals((await board.store.get(id))?.state, "dead");
  const logged = board.logs.filter(({ message }) => message === "console act");
  assertEquals(logged.length, 1);
});

for (const key of ["a\nb", "a\r\nb\t", "a%0Ab", "100 %"]) {
  Deno.test(`an act is on what the question named, as a browser sends it: ${JSON.stringify(key)}`, async () => {
    await using board = await openBoard();
    const { store } = board;
    const Cookie = await board.login();
    const answer = async (path: string) => {
      const fields = Object.entries(fieldsOf(await page(board, path)))
        .map(([name, value]) => [name, value.replace(/\r\n?|\n/g, "\r\n")]);
      const response = await board.post("/act", Object.fromEntries(fields), { Cookie });
      assertEquals(response.status, 303);
    };
    const id = await storeDead(store, key, { orderingKey: key });
    const [choice, one] = [key, id].map((each) => encodeURIComponent(each));
    await answer(`/act?kind=replay&state=dead&group=${choice}`);
    await until(async () => (await store.get(id))!.state === "queued");
    await answer(`/act?kind=cancel&id=${one}`);
    assertEquals((await store.get(id))!.state, "dead");
  });
}

Deno.test("a form with a field of no question is refused", async () => {
  await using board = await openBoard();
  const fields = { kind: "purge", state: "dead", group: "100 %", act: newActId() };
  assertEquals((await board.act(fields)).status, 400);
});

Deno.test("a form without a question of the last hour is refused", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1");
  const ages = [3_700_000, -70_000];
  const idOf = (age: number) =>
    countedActId("purge", { state: "dead" }, { askedAt: Date.now() - age, count: 1 });
  for (const act of ["x", "", ...ages.map(idOf), "zzzzzzzzz-12345678"]) {
    const fields = { kind: "purge", state: "dead", act, of: "1", typed: "1" };
    assertEquals((await board.act(fields)).status, 400, act);
  }
  assertEquals((await board.store.stats()).dead, 1);
});

Deno.test("a replay that can change nothing says why", async () => {
  await using board = await openBoard();
  const id = await storeDone(board.store, "1");
  const html = await page(board, "/act?kind=replay&state=done");
  assertStringIncludes(html, "None of the 1 that match can be replayed");
  assert(!html.includes('action="act"'));
  assertStringIncludes(await page(board, `/act?kind=replay&id=${id}`), "Its payload is not kept");
  // It was kept when it was counted.
  const counted = { askedAt: Date.now(), count: 1 };
  const act = countedActId("replay", { state: "done" }, counted);
  const fields = { kind: "replay", state: "done", act, of: "1" };
  const progress = (await board.act(fields)).headers.get("Location")!;
  const text = await until(async () => {
    const text = await page(board, `/${progress}`);
    return text.includes("finished") && text;
  });
  assertStringIncludes(text, "0 of 1 changed. 1 cannot be replayed");
});

Deno.test("the page of an act that was interrupted claims nothing that is not known", async () => {
  await using board = await openBoard();
  const act = { kind: "purge", query: { state: "dead" }, state: "running", aliveAt: 0 } as const;
  const id = await keepAct(board, { ...act, changed: 100, underway: 50, seen: 150, of: 14_759 });
  const html = await page(board, `/progress?id=${id}`);
  assertStringIncludes(
    html,
    "Stopped after at least 100 of 14,759: its process ended. Up to 50 more",
  );
  const known = await keepAct(board, { ...act, changed: 3_650, seen: 3_650, of: 14_759 });
  const exact = await page(board, `/progress?id=${known}`);
  assertStringIncludes(exact, "Stopped after 3,650 of 14,759: its process ended.");
  assertStringIncludes(exact, 'action="resume"');
  assertStringIncludes(await page(board, "/acts"), "after 3,650 of 14,759");
});

Deno.test("an operator resumes an act from its page, a viewer does not", async () => {
  await using board = await openBoard();
  const ids = await Promise.all(["1", "2", "3"].map((id) => storeDead(board.store, id)));
  const act = { kind: "purge", query: { state: "dead" }, state: "stopped" } as const;
  const id = await keepAct(board, { ...act, stoppedBy: "you", of: 3 });
  const [Cookie, viewer] = [await board.login(), await board.login(VIEWER)];
  const textOf = async (Cookie: string, to = `progress?id=${id}`) =>
    await (await board.get(`/${to}`, { Cookie })).text();
  assert(!(await textOf(viewer)).includes('action="resume"'));
  assertEquals((await board.post("/resume", { id }, { Cookie: viewer })).status, 403);
  assertEquals((await board.post("/resume", { id: "x" }, { Cookie })).status, 404);
  assertStringIncludes(await textOf(Cookie), "Stopped after 0 of 3 by you.");
  const resumed = await board.post("/resume", fieldsOf(await textOf(Cookie)), { Cookie });
  assertEquals([resumed.status, resumed.headers.get("Location")], [303, `progress?id=${id}`]);
  const end = await until(async () => {
    const text = await textOf(Cookie);
    return text.includes("finished") && text;
  });
  assert(end.includes("3 of 3 changed.") && !end.includes('action="resume"'));
  const list = await textOf(viewer, /href="(changed\?id=[^"]+)"/.exec(end)![1]);
  for (const each of ids) assertStringIncludes(list, each);
  assertEquals(list.matchAll(/<td>deleted/g).toArray().length, 6);
});

Deno.test("a purge of many wants the number of events typed", async () => {
  await using board = await openBoard();
  for (const id of ["1", "2"]) await storeDead(board.store, id);
  const html = await page(board, "/act?kind=purge&state=dead");
  for (const part of ["Type 2 to delete them for good", 'pattern="2"', ">Keep them</a>"]) {
    assertStringIncludes(html, part);
  }
  const fields = fieldsOf(html);
  for (const typed of ["", "1", "two", "22"]) {
    assertEquals((await board.act({ ...fields, typed })).status, 400, typed);
  }
  assertEquals((await board.act({ ...fields, typed: "2", of: "" })).status, 400);
  assertEquals((await board.store.stats()).dead, 2);
  assertEquals((await board.act({ ...fields, typed: " 2 " })).status, 303);
  await until(async () => (await board.store.stats()).dead === 0);
});

Deno.test("the two buttons of a question cannot be mixed up", async () => {
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1"));
  const buttons = async (path: string) =>
    (await page(board, path)).matchAll(
      /<(?:button class="(?:go|danger)"|a class="button"[^>]*)>([^<]+)</g,
    )
      .map(([, label]) => label).toArray();
  assertEquals(await buttons(`/act?kind=cancel&id=${id}`), ["Cancel event", "Keep it"]);
  assertEquals(await buttons("/act?kind=cancel&state=queued"), ["Cancel 1 event", "Keep them"]);
  const dead = await storeDead(board.store, "2");
  assertEquals(await buttons(`/act?kind=purge&id=${dead}`), ["Purge event", "Keep it"]);
  assertEquals(await buttons(`/act?kind=replay&id=${dead}`), ["Replay event", "Back"]);
});

Deno.test("a state has one name: on pages, in addresses and in errors", async () => {
  await using board = await openBoard();
  await board.store.accept(delivery("1"));
  const Cookie = await board.login();
  const texts = [
    ...[await page(board, "/"), await page(board, "/deliveries?state=queued")],
    await (await board.get("/deliveries?state=zombie", { Cookie })).text(),
  ];
  const names = texts.flatMap((text) =>
    text.matchAll(/class="state queued">([^<,]+)|<option value="queued"[^>]*>([^<]+)/g)
      .map(([, badge, option]) => badge ?? option).toArray()
  );
  assertEquals([names.length > 2, new Set(names)], [true, new Set(["queued"])]);
  assertStringIncludes(texts.at(-1)!, "must be one of queued,");
});

Deno.test("a page is found with a slash behind its name", async () => {
  await using board = await openBoard({}, "/bots/triage");
  for (
    const [from, to] of [["deliveries/", "../deliveries"], ["acts/?cursor=1", "../acts?cursor=1"]]
  ) {
    const response = await board.get(`/${from}`);
    assertEquals([response.status, response.headers.get("Location")], [303, to]);
  }
});

Deno.test("the bar of an act goes on where others have changed its events before", async () => {
  await using board = await openBoard();
  const act = { kind: "replay", query: { state: "done" }, state: "running", of: 90 } as const;
  const id = await keepAct(board, { ...act, changed: 5, seen: 60, notKept: 10 });
  assertStringIncludes(await page(board, `/progress?id=${id}`), 'max="90" value="50"');
});

Deno.test("the question about a replay says where events go on", async () => {
  await using board = await openBoard();
  const { store, kv } = board;
  const [goesOn, anew] = ["goes on where it failed", "from its first attempt"] as const;
  const id = await storeDead(store, "1");
  const one = await page(board, `/act?kind=replay&id=${id}`);
  assert(one.includes(goesOn) && !one.includes(anew));
  const many = (await page(board, "/act?kind=replay&state=dead")).replaceAll(/\s+/g, " ");
  assert(many.includes("go on where they failed") && !many.includes("from their first attempts"));
  const { receivedAt } = (await store.get(id))!;
  // It keeps its answers, as it keeps its steps.
  await changeValue(kv, ["bot", "event", receivedAt, id], {
    woken: [{ name: "a", at: receivedAt }],
  });
  const answered = await page(board, `/act?kind=replay&id=${id}`);
  assert(answered.includes(goesOn) && !answered.includes(anew));
});

Deno.test("the page of acts names all that an act on many has chosen by", async () => {
  await using board = await openBoard();
  const times = { from: 1_800_000_000_000, before: 1_800_000_060_000 };
  const query = { state: "dead", type: "push", ...times } as const;
  await keepAct(board, { kind: "purge", query, state: "finished", changed: 1, seen: 1 });
  const text = (await page(board, "/acts")).replaceAll(/<[^>]*>/g, "").replaceAll(/\s+/g, " ");
  assertStringIncludes(
    text,
    "all that match: state dead, type push, received from 2027-01-15 08:00:00.000 UTC, " +
      "received before 2027-01-15 08:01:00.000 UTC",
  );
});

Deno.test("the page of acts refreshes, and leads to older ones", async () => {
  await using board = await openBoard();
  const empty = await page(board, "/acts");
  assert(empty.includes("data-live") && empty.includes("data-pause"));
  const Cookie = await board.login();
  for (let i = 0; i < 55; i++) {
    const { id } = await board.store.accept(delivery(`${i}`));
    await board.act({ kind: "cancel", id });
  }
  const first = await page(board, "/acts");
  assert(first.includes("data-live") && first.includes("data-pause"));
  const [, next] = /href="(acts\?cursor=[^"]+)"/.exec(first)!;
  const older = await page(board, `/${next}`);
  const rowsOf = (html: string) => html.matchAll(/href="progress\?id=/g).toArray().length;
  assertEquals([rowsOf(first), rowsOf(older)], [50, 5]);
  assert(!older.includes("data-live") && !older.includes("acts?cursor="));
  assertEquals((await board.get("/acts?cursor=zombie", { Cookie })).status, 400);
});

Deno.test("a page that refreshes brings no payload along", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const Cookie = await board.login();
  const ask = async (headers: Record<string, string>) =>
    await (await board.get(`/delivery?id=${id}`, { Cookie, ...headers })).text();
  const [whole, part] = [await ask({}), await ask({ "X-Poll": "1" })];
  assert(whole.includes("<h2>Payload</h2>") && !part.includes("<h2>Payload</h2>"));
  const live = (html: string) =>
    /<div data-live.*?<\/dl>/s.exec(html)?.[0].replace(/\d+ min|\d+ m?s/g, "");
  assertEquals(live(part), live(whole));
});

Deno.test("the page of a delivery says which limit its payload exceeds", async () => {
  await using board = await openBoard();
  const values = Array(20_000).fill("x");
  const body = new TextEncoder().encode(JSON.stringify({ values }));
  const html = await page(board, `/delivery?id=${await storeDead(board.store, "1", { body })}`);
  const [size] = /[\d,]+ bytes: this[^<]*/.exec(html) ?? [];
  assertEquals(size, "80,012 bytes: this is the beginning, at most 4,000 values");
});

Deno.test("the page of a done delivery says that its payload is not kept, also when it refreshes", async () => {
  await using board = await openBoard();
  const id = await storeDone(board.store, "1");
  const Cookie = await board.login();
  for (const headers of [{ Cookie }, { Cookie, "X-Poll": "1" }]) {
    const html = await (await board.get(`/delivery?id=${id}`, headers)).text();
    assertStringIncludes(html, "Not kept");
    assert(html.includes(">Purge") && !html.includes(">Replay"));
  }
});

/** Asks for an event by what a reader has pasted, and returns the status and the id of the page shown then. */
async function opened(board: BoardUnderTest, text: string): Promise<[number, string | null]> {
  const Cookie = await board.login();
  const response = await board.get(`/delivery?${new URLSearchParams({ id: text })}`, { Cookie });
  const to = response.headers.get("Location");
  return [response.status, to && new URLSearchParams(to.replace("delivery", "")).get("id")];
}

Deno.test("an event is found by a copied id with blanks, and by its delivery id", async () => {
  await using board = await openBoard();
  const guid = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
  const id = await storeDead(board.store, guid);
  await storeDead(board.store, "42", { intake: "my-bot", platform: "messenger" });
  assertEquals(await opened(board, id), [200, null]);
  for (const text of [` ${id}`, `${id} `, `${id}\n`, guid, ` ${guid}\t`]) {
    assertEquals(await opened(board, text), [303, id], text);
  }
  assertEquals(await opened(board, "42"), [303, "my-bot:42"]);
  const unknown = ["43", `gitea:${guid}`, `gitea:${id}`, guid.slice(0, -1), "github:", ":42", "\0"];
  for (const text of [...unknown, "漢".repeat(MAX_LENGTHS.id), `:${"漢".repeat(599)}`]) {
    assertEquals(await opened(board, text), [404, null], text);
  }
});

Deno.test("no event is chosen among several with a delivery id", async () => {
  await using board = await openBoard();
  for (const intake of ["github", "gitea"]) await storeDead(board.store, "1", { intake });
  assertEquals(await opened(board, "1"), [409, null]);
  assertEquals(await opened(board, "gitea:1"), [200, null]);
});

Deno.test("the page of an event that is gone does not turn into that of another", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1");
  const headers = { Cookie: await board.login(), "X-Poll": "1" };
  assertEquals((await board.get("/delivery?id=1", headers)).status, 404);
});

Deno.test("nobody acts on an event by its delivery id alone", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const Cookie = await board.login();
  for (const given of ["1", `${id} `]) {
    const query = new URLSearchParams({ kind: "purge", id: given });
    assertEquals((await board.get(`/act?${query}`, { Cookie })).status, 404, given);
    assertEquals((await board.get(`/payload?${query}`, { Cookie })).status, 404, given);
  }
});

Deno.test("a filter finds what was copied with blanks around it", async () => {
  await using board = await openBoard();
  const repository = { id: 1, fullName: "o/r1", owner: "o", name: "r1" };
  const id = await storeDead(board.store, "1", { repository, orderingKey: "o/r1#5" });
  for (const query of [{ place: " o/r1 " }, { group: "o/r1#5 " }, { group: "\to/r1#5" }]) {
    const html = await page(board, `/deliveries?state=dead&${new URLSearchParams(query)}`);
    assertStringIncludes(html, id);
    const [[name, value]] = Object.entries(query) as [[string, string]];
    assertStringIncludes(html, `name="${name}" value="${value.trim()}"`);
    const choice = new URLSearchParams({ [name]: value.trim() });
    assertStringIncludes(html, `act?kind=replay&amp;state=dead&amp;${choice}`);
  }
  assertStringIncludes(await page(board, "/deliveries?group=none+"), "Nothing matches");
});

Deno.test("ordering keys are looked for as they are stored", async () => {
  await using board = await openBoard();
  for (const key of [" padded ", "two\nlines", "nul\0"]) {
    const { id } = await board.store.accept(delivery(crypto.randomUUID(), { orderingKey: key }));
    const html = await page(board, `/delivery?id=${id}`);
    const [, link] = /<dt>ordering key<\/dt>.*?href="([^"]+)"/s.exec(html)!;
    assertStringIncludes(await page(board, `/${link}`), id);
  }
});

Deno.test("characters that nobody sees are shown", async () => {
  await using board = await openBoard();
  const hidden = "\u00ad\u034f\u115f\u3164\u180e\u2800\u{e0041}\u202e";
  await storeDead(board.store, "1", { type: `a${hidden}b` });
  const html = await page(board, "/deliveries");
  assertStringIncludes(html, "a\\u00ad\\u034f\\u115f\\u3164\\u180e\\u2800\\u{e0041}\\u202eb");
});

Deno.test("the list shows why deliveries have failed", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1", {}, new Error(`out of ${"l".repeat(300)}uck\nand more`));
  const html = await page(board, "/deliveries?state=dead");
  assertStringIncludes(html, `Error: out of ${"l".repeat(186)}…</td>`);
});

Deno.test("a time is shown by how far away it is, with the time itself on hover", () => {
  const now = Date.UTC(2026, 0, 1);
  const cases = [
    ...[[-500, "just now"], [500, "now"], [-90_000, "1 min 30 s ago"], [
      90_999,
      "in 1 min 30 s",
    ]] as const,
    ...[[-7_200_000, "2 h ago"], [3 * 86_400_000, "in 3 d"], [-1_000, "1 s ago"]] as const,
  ];
  for (const [awayMs, text] of cases) {
    const iso = new Date(now + awayMs).toISOString();
    const expected = `<time datetime="${iso}" data-form="ago" title="${iso}">${text}</time>`;
    assertEquals(String(when(now + awayMs, now)), expected);
  }
});

Deno.test("each page says how long ago its times were", async () => {
  await using board = await openBoard();
  const { store } = board;
  const id = await storeDead(store, "1");
  await store.accept(delivery("2"));
  await store.park(await claim(store), { name: "n", timeoutMs: 60_000 });
  await store.accept(delivery("3"));
  await claim(store);
  await store.scheduleNotes.write("hourly", { plan: "0 * * * * UTC", at: Date.now() }, null);
  await (await store.state("a")).set(1, { expireAfterMs: 60_000 });
  const act = await keepAct(board, { kind: "purge", query: { state: "dead" }, state: "finished" });
  const [problem] = (await store.inspect.problems()).problems;
  const pages = [
    ...["/deliveries", `/delivery?id=${id}`, "/problems", `/problem?id=${problem!.id}`, "/running"],
    ...["/parked", "/wake?id=github:2", "/schedules", "/states", "/state?key=a", "/acts"],
    ...[`/progress?id=${act}`, `/act?kind=purge&id=${id}`],
  ];
  for (const path of pages) {
    const html = await page(board, path);
    assertMatch(html, /<time datetime="[^"]+Z" data-form="ago" title="[^"]+Z">/, path);
    assert(!html.includes('data-form="short"'), path);
  }
});

Deno.test("an event that has never run has no number of attempts", async () => {
  await using board = await openBoard();
  await board.store.accept(delivery("1"));
  const attempts = /<dt>attempts<\/dt>|<td class="num off">\d/;
  for (const path of ["/delivery?id=github:1", "/deliveries"]) {
    assert(!attempts.test(await page(board, path)), path);
  }
  await claim(board.store);
  for (const path of ["/delivery?id=github:1", "/deliveries"]) {
    assertMatch(await page(board, path), attempts, path);
  }
});
