import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Delivery } from "../../events/mod.ts";
import { encodeValue } from "../../events/store/kv/value_codec.ts";
import { readDeliveries } from "../../console/_deliveries_page.ts";
import { Turns } from "../../console/_turns.ts";
import { type BoardUnderTest, delivery, openBoard, storeDead, VIEWER } from "./_board.ts";
import { NAMESPACE, openData } from "./_data.ts";

/** Reads a page as a viewer. */
async function page(board: BoardUnderTest, path: string, headers = {}): Promise<string> {
  const response = await board.get(path, { Cookie: await board.login(VIEWER), ...headers });
  assertEquals(response.status, 200, path);
  return await response.text();
}

/** Ids of the deliveries on a page, in their order. */
const idsOf = (html: string) =>
  [...html.matchAll(/delivery\?id=([^"]+)"/g)].map(([, id]) => decodeURIComponent(id!));

const textOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

Deno.test("a row says what a delivery is about, with its error, and how long ago it came", async () => {
  await using board = await openBoard();
  const repository = { id: 7, fullName: "octo/hello", owner: "octo", name: "hello" };
  const sender = { id: 1, name: "ada", isBot: false };
  const about = { description: "#1442 Crash <on> start", repository, sender };
  await storeDead(board.store, "1", about, new Error(`no luck ${"x".repeat(300)}`));
  const html = await page(board, "/deliveries");
  assertStringIncludes(html, "<div>#1442 Crash &lt;on&gt; start</div>");
  assertMatch(
    textOf(html),
    /issues\.opened dead just now #1442 .* github octo\/hello by ada Error: no luck x{150}/,
  );
  assertMatch(html, /<time datetime="[^"]+Z" data-form="ago" title="[^"]+Z">/);
});

Deno.test("hidden payloads hide descriptions, and nobody finds out by a search", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  await storeDead(board.store, "1", { description: "#1442 Crash" }, new Error("no luck"));
  for (const path of ["/deliveries", "/deliveries?name=github", "/export?format=csv"]) {
    const html = await page(board, path);
    assertStringIncludes(html, "github:1");
    assert(!/Crash|luck/.test(html), path);
  }
  for (const wanted of ["Crash", "luck"]) {
    assertStringIncludes(await page(board, `/deliveries?name=${wanted}`), "Nothing matches");
  }
  const Cookie = await board.login();
  for (const path of ["/deliveries", "/export", "/act"]) {
    const query = `format=csv&kind=purge&state=dead&q=Crash`;
    assertEquals((await board.get(`${path}?${query}`, { Cookie })).status, 400, path);
  }
});

/** Deliveries, by their ids. */
const SOME: Readonly<Record<string, Partial<Delivery>>> = {
  "72d3162e-cc78": { repository: { id: 7, fullName: "Octo/Hello", owner: "Octo", name: "Hello" } },
  "72d3ffff-cc78": { description: "#1442 Crash on start" },
  "1-of-a-chat": { chat: { id: -1006, type: "group" }, requestId: "req-77" },
};

Deno.test("one field finds ids by their beginning, names, and any text, in any case", async () => {
  await using board = await openBoard();
  for (const [id, about] of Object.entries(SOME)) await board.store.accept(delivery(id, about));
  const found: readonly (readonly [q: string, ids: readonly string[]])[] = [
    ["72d3", ["72d3ffff-cc78", "72d3162e-cc78"]],
    ["github:72d3f", ["72d3ffff-cc78"]],
    ["octo/hello", ["72d3162e-cc78"]],
    ["-1006", ["1-of-a-chat"]],
    ["REQ-77", ["1-of-a-chat"]],
    ["crash ON", ["72d3ffff-cc78"]],
  ];
  for (const [q, ids] of found) {
    const html = await page(board, `/deliveries?${new URLSearchParams({ q })}`);
    assertEquals(new Set(idsOf(html)), new Set(ids.map((id) => `github:${id}`)), q);
  }
  const Cookie = await board.login();
  for (const q of ["72d3162e-cc78", "github:72d3162e-cc78", " 72d3162e-cc78 "]) {
    const response = await board.get(`/deliveries?${new URLSearchParams({ q })}`, { Cookie });
    assertEquals(response.headers.get("Location"), "delivery?id=github%3A72d3162e-cc78");
  }
});

Deno.test("conditions of a list are removed one by one, and kept by the search", async () => {
  await using board = await openBoard();
  await board.store.accept(delivery("1", { description: "Crash" }));
  const html = await page(board, "/deliveries?state=queued&type=issues&q=crash");
  const chips = [...html.matchAll(/<a class="badge" href="([^"]*)"[^>]*>(.*?)<\/a>/gs)];
  assertEquals(
    chips.map(([, href, text]) => [href!.replaceAll("&amp;", "&"), textOf(text!).trim()]),
    [
      ["deliveries?state=queued&type=issues", "text crash ×"],
      ["deliveries?type=issues&q=crash", "state queued ×"],
      ["deliveries?state=queued&q=crash", "type issues ×"],
    ],
  );
  const form = /<form[^>]*role="search".*?<\/form>/s.exec(html)![0];
  assertMatch(form, /type="hidden" name="state" value="queued"/);
  assertMatch(form, /name="q"[^>]*value="crash"/);
});

Deno.test("each form of a list keeps all that is chosen, once", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1");
  const [problem] = (await board.store.inspect.problems()).problems;
  const chosen = { problem: problem!.id, state: "dead", type: "issues", q: "github" };
  const html = await page(board, `/deliveries?${new URLSearchParams(chosen)}`);
  const forms = [...html.matchAll(/<form[^>]*action="deliveries".*?<\/form>/gs)];
  assertEquals(forms.length, 2);
  for (const [form] of forms) {
    const fields = [...form.matchAll(/<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"/g)]
      .map(([, name, value]) => [name!, value!]);
    const [, state] = /<option value="(\w+)"\s+selected/.exec(form) ?? [];
    if (state !== undefined) fields.push(["state", state]);
    const again = await page(board, `/deliveries?${new URLSearchParams(fields)}`);
    assertEquals(idsOf(again), ["github:1"]);
    assertEquals(Object.fromEntries(fields.filter(([, value]) => value !== "")), chosen);
  }
});

Deno.test("a bar of a chart leads to the deliveries of its time", async () => {
  await using board = await openBoard();
  const { id } = await board.store.accept(delivery("1"));
  const { receivedAt } = (await board.store.get(id))!;
  const inTime = await page(board, `/deliveries?from=${receivedAt}&before=${receivedAt + 60_000}`);
  assertEquals(idsOf(inTime), [id]);
  const earlier = await page(board, `/deliveries?from=${receivedAt - 60_000}&before=${receivedAt}`);
  assertEquals(idsOf(earlier), []);
});

Deno.test("a list that refreshes announces what is new, and moves nothing", async () => {
  await using board = await openBoard();
  await board.store.accept(delivery("old"));
  const first = await page(board, "/deliveries?type=issues");
  const [, poll] = /data-poll="([^"]+)"/.exec(first)!;
  const refresh = () => page(board, `/${poll!.replaceAll("&amp;", "&")}`, { "X-Poll": "1" });
  assert(!textOf(await refresh()).includes(" new "));
  // The clock of the store has to go on.
  await new Promise((resolve) => setTimeout(resolve, 2));
  await board.store.accept(delivery("other", { type: "push" }));
  for (const id of ["new1", "new2"]) await board.store.accept(delivery(id));
  const later = await refresh();
  assertEquals(idsOf(later), ["github:old"]);
  assertMatch(later, /<a class="button" href="deliveries\?type=issues">2 new<\/a>/);
  assertEquals(/data-poll="([^"]+)"/.exec(later)![1], poll);
});

Deno.test("a list is plain data, without what is hidden", async () => {
  await using sut = await openData();
  await sut.store.accept(delivery("1", { description: "Crash" }));
  for (const isHidden of [false, true]) {
    const read = await readDeliveries(sut.data, new URLSearchParams("state=queued"), isHidden);
    const { rows: [row], query } = JSON.parse(JSON.stringify(read));
    assertEquals([row.id, row.description, query.state], [
      "github:1",
      isHidden ? undefined : "Crash",
      "queued",
    ]);
  }
});

Deno.test("what is found is downloaded as JSON lines, or as a table without formulas", async () => {
  await using board = await openBoard();
  const hostile = `=HYPERLINK("http://x","y")`;
  await storeDead(board.store, "1", { description: hostile, type: "push" }, new Error("a\nb"));
  await board.store.accept(delivery("2", { chat: { id: -1006, type: undefined } }));
  const Cookie = await board.login(VIEWER);
  const get = async (query: string) => {
    const response = await board.get(`/export?${query}`, { Cookie });
    return [await response.text(), response.headers.get("Content-Disposition")] as const;
  };
  const [json, jsonName] = await get("format=jsonl&state=dead");
  const lines = json.trim().split("\n").map((line) => JSON.parse(line));
  assertEquals(lines.map(({ id, description, error }) => [id, description, error]), [
    ["github:1", hostile, "Error: a\nb"],
  ]);
  assertEquals(jsonName, 'attachment; filename="deliveries.jsonl"');
  const [csv] = await get("format=csv");
  const [head, second] = csv.split("\r\n");
  assertStringIncludes(head!, '"id","state","outcome","receivedAt"');
  assertStringIncludes(second!, ',"issues","opened","github",,-1006,');
  assertStringIncludes(csv, `,"'=HYPERLINK(""http://x"",""y"")",`);
  assertEquals((await board.get("/export", { Cookie })).status, 400);
  assertEquals((await board.get("/export?format=csv")).status, 303);
});

Deno.test("a file is not read further than it is taken", async () => {
  await using board = await openBoard();
  for (let i = 0; i < 3; i++) await board.store.accept(delivery(`${i}`));
  let reads = 0;
  let ended = false;
  async function* events() {
    try {
      for await (const event of board.store.list()) {
        for (let i = 0; i < 1_000; i++) yield (reads++, event);
      }
    } finally {
      ended = true;
    }
  }
  await using other = await openBoard({ data: { list: () => events(), exports: new Turns(1) } });
  // Also for a browser, which takes compressed answers.
  const headers = { Cookie: await other.login(), "Accept-Encoding": "gzip" };
  const response = await other.get("/export?format=csv", headers);
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  assert(ended && reads < 1_000, `${reads} reads`);
});

Deno.test("the list of a state looks on while it has found nothing, however much lies before", async () => {
  await using sut = await openData();
  const { data, store, kv } = sut;
  await store.accept(delivery("running"));
  await store.claim({ limit: 1, owner: "w", leaseMs: 50_000 });
  // Other entries of the schedule, before the end of that lease.
  const receivedAt = Date.now();
  for (let i = 0; i < 5_000; i += 500) {
    const entries = kv.atomic();
    for (let k = i; k < i + 500; k++) {
      const entry = encodeValue({ receivedAt, group: null });
      entries.set([NAMESPACE, "due", receivedAt + 20_000, `e${k}`], entry);
    }
    await entries.commit();
  }
  let now = performance.now();
  // Each look at the clock takes a millisecond.
  Object.defineProperty(performance, "now", { configurable: true, value: () => now += 1 });
  try {
    const { events } = await data.search({ state: "running" });
    assertEquals(events.map(({ id }) => id), ["github:running"]);
  } finally {
    Reflect.deleteProperty(performance, "now");
  }
});

Deno.test("errors have a column of their own in lists, where there are any", async () => {
  await using board = await openBoard();
  const { store } = board;
  const headers = { Cookie: await board.login() };
  const list = async (page: string) => await (await board.get(page, headers)).text();
  await store.accept(delivery("open", { description: "a crash" }));
  assert(!(await list("/deliveries")).includes(">error</th>"));
  await storeDead(store, "dead", { description: "a bug" }, new Error("no luck"));
  const [problem] = (await store.inspect.problems()).problems;
  for (const page of ["/deliveries", `/problem?id=${problem!.id}`]) {
    const html = await list(page);
    assertStringIncludes(html, ">error</th>");
    assertMatch(html, /<td class="wrap">Error: no luck<\/td>/);
  }
});
