import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { READINGS } from "../../console/_api.ts";
import type { Act } from "../../console/_act_record.ts";
import { newActId } from "../../console/_query.ts";
import { startWorker } from "../../events/mod.ts";
import {
  type BoardUnderTest,
  claim,
  delivery,
  openBoard,
  OPERATOR,
  ORIGIN,
  storeDead,
  VIEWER,
} from "./_board.ts";
import { until } from "./_data.ts";
import { testWith } from "../_permissions.ts";

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

/** Note of a schedule. */
const NOTE = { plan: "0 * * * * UTC", at: 0 };

/** Sends JSON to the console, as a program does that has an operator's token. */
async function call(
  board: BoardUnderTest,
  name: string,
  value: unknown,
  headers: Record<string, string> = bearer(OPERATOR),
  // deno-lint-ignore no-explicit-any -- it is what the console answers
): Promise<{ status: number; headers: Headers; body: any }> {
  const init = { method: "POST", body: JSON.stringify(value) };
  const all = { Origin: "", "Content-Type": "application/json", ...headers };
  const response = await board.send(`/api/${name}`, init, all);
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** Reads what a page shows, as a viewer's program. */
async function read(board: BoardUnderTest, page: string, headers = bearer(VIEWER)) {
  const response = await board.get(`/api/${page}`, headers);
  assertEquals(response.headers.get("Content-Type"), "application/json", page);
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** Asks what an act on many would change, and returns the id and the number that its answer wants. */
async function counted(board: BoardUnderTest, choice: object) {
  const { body: { act, count } } = await call(board, "act", { ...choice, dryRun: true });
  return { act: act as string, of: count as number };
}

/** Reads the id of the only problem. */
const problemOf = async (board: BoardUnderTest): Promise<string> =>
  (await read(board, "problems")).body.problems[0].id;

Deno.test("a program reads what each page shows, by a token or by the cookie of a login", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const problem = await problemOf(board);
  const { body: asked } = await call(board, "act", { kind: "replay", state: "dead", dryRun: true });
  await call(board, "act", { kind: "replay", state: "dead", act: asked.act, of: asked.count });
  await until(async () => (await board.store.stats()).queued === 1);
  const { body: { pages, acts } } = await read(board, "");
  assertEquals(pages, [...Object.keys(READINGS), "payload", "fixture", "export"]);
  assert(["act", "stop", "resume"].every((each) => acts.includes(each)));
  const cookies = { Cookie: await board.login(VIEWER) };
  const ofAct = { progress: asked.act, changed: asked.act };
  const { id: asking } = await board.store.accept(delivery("2"));
  const lease = (await board.store.claim({ limit: 9, owner: "w", leaseMs: 60_000 }))
    .find(({ record }) => record.id === asking)!;
  await board.store.park(lease, { name: "approval", timeoutMs: 60_000 });
  const ids: Record<string, string> = { delivery: id, problem, wake: asking, ...ofAct };
  await (await board.store.state("a")).set(1);
  for (const page of Object.keys(READINGS)) {
    const query = page === "state" ? { key: "a" } : ids[page] && { id: ids[page] };
    const path = query ? `${page}?${new URLSearchParams(query)}` : page;
    for (const headers of [bearer(VIEWER), bearer(OPERATOR), cookies]) {
      const { status } = await read(board, path, headers as ReturnType<typeof bearer>);
      assertEquals(status, 200, page);
    }
  }
  const { body } = await read(board, "deliveries/?state=running");
  assertEquals([body.query.state, body.rows[0].id, body.cursor], ["running", id, undefined]);
  assertEquals((await read(board, `delivery?id=1`)).body.event.id, id);
  const bytes = await board.get(`/api/payload?id=${id}`, bearer(VIEWER));
  assertEquals(await bytes.json(), { action: "opened" });
  const file = await board.get("/api/export?format=jsonl&state=running", bearer(VIEWER));
  assertEquals(JSON.parse(await file.text()).id, id);
});

testWith(["read"], "the document lists each page that programs read", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/console.md", import.meta.url));
  await using board = await openBoard();
  const { body: { pages } } = await read(board, "");
  for (const page of pages) assertMatch(text, new RegExp(`^\\| \`${page}\` +\\| `, "m"));
});

Deno.test("the errors that programs get have one shape, and tell what is wrong", async () => {
  await using board = await openBoard();
  const errors = [
    ["deliveries?state=zombie", 400, "BAD_REQUEST"],
    ["delivery?id=none", 404, "NOT_FOUND"],
    ["progress?id=x", 404, "NOT_FOUND"],
    ["changed?id=x", 404, "NOT_FOUND"],
    ["nothing", 404, "NOT_FOUND"],
    ["toString", 404, "NOT_FOUND"],
    ["deliveries/../x", 404, "NOT_FOUND"],
    ["stop", 405, "METHOD_NOT_ALLOWED"],
  ] as const;
  for (const [page, status, code] of errors) {
    const found = await read(board, page);
    assertEquals([found.status, found.headers.get("X-Error-Code")], [status, code], page);
    assertEquals(Object.keys(found.body), ["error"]);
    assert(!found.body.error.includes("zombie"));
  }
  const { status, headers } = await call(board, "deliveries", {});
  assertEquals([status, headers.get("Allow")], [405, "GET, HEAD"]);
});

Deno.test("a program without a token of the console reads nothing", async () => {
  await using board = await openBoard();
  const others = [{}, { Cookie: "console-bot=x" }, bearer(`${OPERATOR}x`), {
    Authorization: `Basic ${btoa(`:${OPERATOR}`)}`,
  }];
  for (const headers of others) {
    for (const page of ["", "deliveries", "nothing"]) {
      const response = await board.get(`/api/${page}`, headers as Record<string, string>);
      assertEquals(response.status, 401);
      assertEquals(response.headers.get("X-Error-Code"), "UNAUTHORIZED");
      assertMatch(response.headers.get("WWW-Authenticate")!, /^Bearer /);
      assertEquals(Object.keys(await response.json()), ["error"]);
    }
  }
  // A token that is wrong is not made right by a cookie.
  const Cookie = await board.login();
  const both = await board.get("/api/acts", { Cookie, ...bearer("x") });
  assertEquals([both.status, Object.keys(await both.json())], [401, ["error"]]);
  assert(!JSON.stringify(board.logs).includes(OPERATOR));
});

Deno.test("wrong tokens of programs count for each address, and apart from those of the login's form", async () => {
  await using board = await openBoard({ trustedProxyHops: 1 });
  const from = (address: string) => ({ "X-Forwarded-For": address });
  const [mine, other] = [from("203.0.113.1"), from("203.0.113.2")];
  for (let i = 0; i < 10; i++) {
    assertEquals((await board.get("/api/acts", { ...mine, ...bearer("x") })).status, 401);
  }
  const late = await board.get("/api/acts", { ...mine, ...bearer(OPERATOR) });
  assertEquals([late.status, late.headers.get("X-Error-Code")], [429, "RATE_LIMITED"]);
  assertMatch(late.headers.get("Retry-After")!, /^\d{1,2}$/);
  // A script with an old token keeps nobody at its address from logging in.
  assertEquals((await board.post("/login", { token: OPERATOR }, mine)).status, 303);
  for (let i = 0; i < 10; i++) await board.post("/login", { token: "wrong" }, other);
  assertEquals((await board.post("/login", { token: OPERATOR }, other)).status, 429);
  for (let i = 0; i < 30; i++) {
    assertEquals((await board.get("/api/acts", { ...other, ...bearer(VIEWER) })).status, 200);
  }
});

Deno.test("a program acts with an operator's token, and a browser only from a page of the console", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const act = { kind: "purge", id, act: newActId() };
  const Cookie = await board.login();
  const refused: [Record<string, string>, number][] = [
    [{}, 401],
    [{ Cookie }, 403],
    [{ Cookie, Origin: "http://evil.example" }, 403],
    [{ Cookie, Origin: ORIGIN, "Sec-Fetch-Site": "cross-site" }, 403],
    [{ Cookie: await board.login(VIEWER), Origin: ORIGIN }, 403],
    [bearer(VIEWER), 403],
    [{ ...bearer(OPERATOR), "Content-Type": "application/x-www-form-urlencoded" }, 415],
    [{ ...bearer(OPERATOR), "Content-Type": "text/plain" }, 415],
  ];
  for (const [headers, status] of refused) {
    const answer = await call(board, "act", act, headers);
    assertEquals([answer.status, Object.keys(answer.body)], [status, ["error"]]);
  }
  for (const page of ["act", `act?kind=purge&id=${id}&act=${act.act}`]) {
    assertEquals((await board.get(`/api/${page}`, bearer(OPERATOR))).status, 405);
  }
  assertEquals((await board.store.get(id))?.state, "dead");
  assertEquals((await call(board, "act", act, { Cookie, Origin: ORIGIN })).status, 200);
  assertEquals(await board.store.get(id), null);
});

Deno.test("a program asks what an act would change, and does it once", async () => {
  await using board = await openBoard();
  const { store } = board;
  for (const id of ["1", "2", "3"]) await storeDead(store, id, { type: "push" });
  await storeDead(store, "4", { type: "other" });
  const choice = { kind: "replay", state: "dead", type: "push" };
  const { status, body: asked } = await call(board, "act", { ...choice, dryRun: true });
  const { act, ...rest } = asked;
  assertStringIncludes(rest.would, "go on where they failed");
  assertEquals([status, rest], [200, {
    ...{ dryRun: true, kind: "replay", query: { state: "dead", type: "push" } },
    ...{ would: rest.would, count: 3, isMore: false, notKept: 0 },
    first: ["github:1", "github:2", "github:3"],
  }]);
  assertEquals([(await store.stats()).dead, (await read(board, "acts")).body.acts], [4, []]);
  const done = { ...choice, act, of: rest.count };
  const answers = await Promise.all([1, 2, 3].map(() => call(board, "act", done)));
  assertEquals(new Set(answers.map(({ body }) => body.act.id)), new Set([act]));
  const ended: Act = await until(async () => {
    const { body } = await read(board, `progress?id=${act}`);
    return body.state === "finished" && body;
  });
  assertEquals([ended.changed, ended.of, ended.by], [3, 3, "operator api from 192.0.2.1"]);
  assertEquals((await store.stats()).dead, 1);
  const again = await call(board, "act", done);
  assertEquals([again.status, again.body.act.state], [200, "finished"]);
  assertEquals((await call(board, "act", { ...done, type: "other" })).status, 400);
  assertEquals((await call(board, "act", { ...done, kind: "purge" })).status, 400);
  const { body: { events } } = await read(board, `changed?id=${act}`);
  const states = events.map(({ id, fate, event }: { id: string; fate: string; event: Act }) =>
    `${id} ${fate} ${event.state}`
  );
  assertEquals(states, [1, 2, 3].map((each) => `github:${each} changed queued`));
});

Deno.test("a program whose count goes on is told when to ask again, and it is kept for a minute", async () => {
  const now = performance.now.bind(performance);
  const kept: unknown[] = [];
  const actCounts = {
    look: (...[, , , keepMs]: unknown[]) => {
      kept.push(keepMs);
      // Later than an answer waits.
      performance.now = () => now() + 20_000;
      const counted = { count: 7, isMore: true, askedAt: Date.now(), notKept: 0, first: [] };
      return Promise.resolve(counted);
    },
  };
  await using board = await openBoard({ data: { actCounts } });
  try {
    const choice = { kind: "purge", state: "dead", dryRun: true };
    const { status, headers, body } = await call(board, "act", choice);
    assertEquals([status, headers.get("Retry-After"), body.count], [202, "1", 7]);
    assertEquals([body.isMore, body.act, kept], [true, undefined, [60_000]]);
  } finally {
    performance.now = now;
  }
});

Deno.test("a program that cancels many is told that whole batches are cancelled", async () => {
  await using board = await openBoard();
  const { store } = board;
  for (const id of ["1", "2"]) {
    await store.accept(delivery(id, { orderingKey: "k", quietMs: 50, maxWaitMs: 50 }));
  }
  await claim(store);
  const choice = { kind: "cancel", state: "running", dryRun: true };
  const { body: { count, would } } = await call(board, "act", choice);
  assertEquals(count, 1);
  assertStringIncludes(would, "Where events are handled together, all of them are cancelled");
});

Deno.test("a program asks about one event, and is told why an act would change nothing", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const ask = async (kind: string) => (await call(board, "act", { kind, id, dryRun: true })).body;
  const { act, count, first } = await ask("purge");
  assertEquals([count, first], [1, [id]]);
  const none = await ask("cancel");
  assertEquals([none.count, none.act], [0, undefined]);
  assertStringIncludes(none.why, "It has ended");
  assertEquals((await board.store.get(id))?.state, "dead");
  const both = await Promise.all([1, 2].map(() => call(board, "act", { kind: "purge", id, act })));
  // The second one may find the first one under way.
  assertEquals(both.map(({ body }) => body.act.id), [act, act]);
  assertEquals(await board.store.get(id), null);
  const gone = await call(board, "act", { kind: "purge", id, act: newActId() });
  assertEquals([gone.status, gone.headers.get("X-Error-Code")], [404, "NOT_FOUND"]);
  const open = (await board.store.accept(delivery("2"))).id;
  const early = await call(board, "act", { kind: "purge", id: open, act: newActId() });
  assertEquals([early.status, early.headers.get("X-Error-Code")], [409, "CONFLICT"]);
});

Deno.test("a purge of many wants the number that was counted, and deletes no more than that", async () => {
  await using board = await openBoard();
  for (const id of ["1", "2", "3"]) await storeDead(board.store, id);
  const choice = { kind: "purge", state: "dead" };
  const { act, of } = await counted(board, choice);
  const purge = { ...choice, act };
  await storeDead(board.store, "4");
  const others: object[] = [purge, { ...purge, of: "all" }, { ...purge, of: 2 }];
  others.push({ ...purge, of: 4 }, { ...purge, act: newActId(), of }, { ...purge, of, type: "x" });
  for (const each of others) {
    const { status, body } = await call(board, "act", each);
    assertEquals([status, Object.keys(body)], [400, ["error"]]);
  }
  assertEquals([(await board.store.stats()).dead, (await read(board, "acts")).body.acts], [4, []]);
  assertEquals((await call(board, "act", { ...purge, of })).status, 202);
  await until(async () => (await read(board, `progress?id=${act}`)).body.state !== "running");
  assertEquals((await board.store.stats()).dead, 1);
});

Deno.test("a replay or a cancellation of many without the number that was counted begins nothing", async () => {
  await using board = await openBoard();
  await storeDead(board.store, "1");
  await board.store.accept(delivery("2"));
  for (const choice of [{ kind: "replay", state: "dead" }, { kind: "cancel", state: "queued" }]) {
    const { act, of } = await counted(board, choice);
    for (const number of [undefined, 0, 2, -1]) {
      const { status, body } = await call(board, "act", { ...choice, act, of: number });
      assertEquals([status, Object.keys(body)], [400, ["error"]], `${choice.kind} ${number}`);
    }
    const invented = await call(board, "act", { ...choice, act: newActId(), of });
    assertEquals(invented.status, 400);
  }
  const { dead, queued } = await board.store.stats();
  assertEquals([dead, queued, (await read(board, "acts")).body.acts], [1, 1, []]);
});

Deno.test("a program stops an act on many, and resumes it", async () => {
  await using board = await openBoard();
  const { store } = board;
  await Promise.all(Array.from({ length: 120 }, (_, i) => store.accept(delivery(`d${i}`))));
  const choice = { kind: "cancel", state: "queued" };
  const { act: id, of } = await counted(board, choice);
  await call(board, "act", { ...choice, act: id, of });
  assertEquals((await call(board, "stop", { id })).body, { ok: true, page: `progress?id=${id}` });
  const stateOf = async () => (await read(board, `progress?id=${id}`)).body.state;
  await until(async () => await stateOf() === "stopped");
  assert((await store.stats()).queued > 0);
  const { body: asked } = await call(board, "resume", { id, dryRun: true });
  assertEquals([asked.dryRun, asked.count, asked.about], [true, 1, `act ${id}`]);
  assertStringIncludes((await call(board, "stop", { id, dryRun: true })).body.why, "It is stopped");
  assertEquals(await stateOf(), "stopped");
  assertEquals((await call(board, "resume", { id })).status, 200);
  await until(async () => await stateOf() === "finished");
  assertEquals((await store.stats()).queued, 0);
  assertEquals((await call(board, "stop", { id: "x" })).status, 404);
});

Deno.test("a program wakes an event, and is told if it does not wait for that", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1"));
  await store.park(await claim(store), { name: "100 %", timeoutMs: 60_000 });
  const [{ since, name }] = (await read(board, "parked")).body.events;
  assertEquals(name, "100 %");
  const wake = (value: string, at = since) => call(board, "wake", { id, since: at, value });
  assertEquals([(await wake("{")).status, (await wake("1", since + 1)).status], [400, 409]);
  assertEquals((await wake('{"is":"100 %"}')).body.ok, true);
  const [answer] = await Array.fromAsync(store.answers({ names: [name] }));
  assertEquals(answer?.value, { is: "100 %" });
});

Deno.test("a program is told that what it asked for has failed, and why", async () => {
  await using board = await openBoard();
  await board.store.scheduleNotes.write("newer", {}, null);
  const { status, headers, body } = await call(board, "schedule", {
    schedule: "newer",
    do: "pause",
  });
  assertEquals([status, headers.get("X-Error-Code")], [500, "INTERNAL"]);
  assertStringIncludes(body.error, "Cannot read the note of the schedule");
});

Deno.test("programs get nothing of what an app hides that hides its payloads", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  const { store } = board;
  const body = new TextEncoder().encode(`{"a":"secret"}`);
  const sender = { id: 1, name: "secret", isBot: false };
  const id = await storeDead(store, "1", { body, sender }, new RangeError("of a secret"));
  await store.accept(delivery("2"));
  await store.release(await claim(store), { delayMs: 60_000, reason: "secret" });
  const problem = await problemOf(board);
  const hidden = await read(board, `problem?id=${problem}`);
  assertEquals(hidden.body.problem.error, "RangeError");
  const { act, of } = await counted(board, { kind: "replay", state: "dead" });
  const many = await call(board, "act", { kind: "replay", state: "dead", act, of });
  assertEquals(many.status, 202);
  await until(async () => (await read(board, `progress?id=${act}`)).body.state === "finished");
  const pages = Object.keys(READINGS).flatMap((page) => [
    ...[page, `${page}?id=${id}`, `${page}?id=github:2`, `${page}?id=${act}`],
  ]);
  const texts = [JSON.stringify(hidden.body)];
  for (const page of pages) texts.push(JSON.stringify((await read(board, page)).body));
  assertStringIncludes(texts.join(), `"error":"RangeError"`);
  assert(!texts.join().includes("secret"));
  assertEquals((await read(board, `payload?id=${id}`)).status, 403);
  // Whoever could look for it could guess it.
  assertEquals((await read(board, "deliveries?q=secret")).status, 400);
  const guess = { kind: "purge", state: "dead", q: "secret", dryRun: true };
  assertEquals((await call(board, "act", guess)).status, 400);
});

Deno.test("programs send one JSON object of a bounded size", async () => {
  await using board = await openBoard();
  const headers = { ...bearer(OPERATOR), "Content-Type": "application/json", Origin: "" };
  for (const body of ["", "[]", "null", "5", "{", `{"id":"${"x".repeat(20_000)}"}`]) {
    const response = await board.send("/api/act", { method: "POST", body }, headers);
    assertEquals(response.status, 400, body.slice(0, 10));
    assertEquals(Object.keys(await response.json()), ["error"]);
  }
});

Deno.test("an act on one event is refused a choice besides, and says what it cannot do", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  const choice = { kind: "purge", id, type: "push", from: 1 };
  for (const step of [{ dryRun: true }, { act: newActId() }]) {
    const { status, body } = await call(board, "act", { ...choice, ...step });
    assertEquals(status, 400);
    assertEquals(body.error, "Cannot act: 'id' is of one event: leave out type, from.");
  }
  const { body } = await call(board, "wake", { id, since: 1, value: "1", kind: "x" });
  assertEquals(body.error, "Cannot wake the event: 'kind' must be one of wake, answer.");
  const Cookie = await board.login();
  const form = { kind: "purge", id, state: "dead", act: newActId() };
  const page = await (await board.post("/act", form, { Cookie })).text();
  assertStringIncludes(page, "Cannot act: &#39;id&#39; is of one event: leave out state.");
  const question = await board.get(`/act?kind=purge&id=${id}&state=queued`, { Cookie });
  assertEquals(question.status, 400);
  assertStringIncludes(await question.text(), "Cannot show the page: ");
  assertEquals((await read(board, "acts")).body.acts, []);
  assertEquals((await board.store.stats()).dead, 1);
});

Deno.test("a program that misspells a name, or sends an empty value, is refused and told which", async () => {
  await using board = await openBoard();
  const { store } = board;
  for (const id of ["1", "2"]) await storeDead(store, id);
  const choice = { kind: "purge", state: "dead" };
  const wrong: object[] = [{ ids: ["github:1"] }, { repository: "acme/r" }, { orderingKey: "x" }];
  wrong.push({ id: "" }, { id: " " }, { id: null }, { type: "" }, { tpye: "push" });
  const { act, of } = await counted(board, choice);
  for (const each of wrong) {
    for (const step of [{ dryRun: true }, { act, of }]) {
      const { status, body } = await call(board, "act", { ...choice, ...step, ...each });
      assertEquals(status, 400, JSON.stringify(each));
      assertStringIncludes(body.error, Object.keys(each)[0]!);
    }
  }
  assertEquals((await store.stats()).dead, 2);
  const { id } = await store.accept(delivery("3"));
  await store.park(await claim(store), { name: "n", timeoutMs: 60_000 });
  const { since } = (await store.get(id))!.waitingFor!;
  await store.scheduleNotes.write("digest", NOTE, null);
  await (await store.state("a")).set(1);
  const { version } = (await read(board, "state?key=a&intake=")).body;
  const acts = [
    ["wake", { id, since, value: "1" }],
    ["schedule", { schedule: "digest", do: "pause" }],
    ["forget", { key: "a", intake: "", version }],
    ["repeat", { id, step: "s" }],
    ["stop", { id: act }],
    ["resume", { id: act }],
  ] as const;
  for (const [name, fields] of acts) {
    const { status, body } = await call(board, name, { ...fields, dry_run: true });
    assertEquals(status, 400, name);
    assertStringIncludes(body.error, '"dry_run" is unknown here');
  }
  assertEquals((await store.get(id))?.state, "parked");
  assertEquals((await store.state("a")).value, 1);
  for (const [page, name] of [["deliveries?tpye=x", "tpye"], ["deliveries?type=", "type"]]) {
    const { status, body } = await read(board, page!);
    assertEquals(status, 400, page);
    assertStringIncludes(body.error, name!);
  }
  const { status, body } = await read(board, "running?state=dead");
  assertEquals(status, 400);
  assertStringIncludes(body.error, "none at all");
});

Deno.test("a program that the store gives no answer is told so, and it is logged", async () => {
  const overview = () => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.7"));
  await using board = await openBoard({ data: { overview } });
  const { status, headers, body } = await read(board, "overview");
  assertEquals([status, headers.get("X-Error-Code")], [503, "UNAVAILABLE"]);
  assert(!JSON.stringify(body).includes("10.0.0.7"));
  assertEquals(board.logs.at(-1)?.message, "console page failed");
});

Deno.test("a program learns who it is and what it may do", async () => {
  await using board = await openBoard({ environment: "staging" });
  const of = async (token: string) => (await read(board, "", bearer(token))).body;
  const [viewer, operator] = [await of(VIEWER), await of(OPERATOR)];
  assertEquals([operator.app, operator.environment], ["bot", "staging"]);
  assertEquals(viewer.you, { name: "viewer api from 192.0.2.1", role: "viewer", acts: {} });
  const { name, role, acts } = operator.you;
  assertEquals([name, role], ["operator api from 192.0.2.1", "operator"]);
  assertEquals(Object.keys(acts), operator.acts);
  assertEquals(acts.act, { hasDryRun: true, kinds: ["replay", "cancel", "purge"] });
  assertEquals([acts.wake.hasDryRun, acts.wake.kinds], [true, ["wake", "answer"]]);
  for (const each of operator.acts) {
    const { status } = await call(board, each, { kind: "purge" }, bearer(VIEWER));
    assertEquals(status, 403, each);
  }
});

Deno.test("a program is told who may answer a question, and answers in the name of one", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1"));
  const worker = startWorker(store, async (_, { ask }) => {
    await ask("approval", () => {}, { by: [7, 8] });
  }, { log: () => {} });
  try {
    await until(async () => (await store.get(id))?.state === "parked");
    const { body: asked } = await read(board, `wake?${new URLSearchParams({ id })}`);
    assertEquals([asked.waitsFor, asked.asked, asked.senders], ["answer", "approval", [7, 8]]);
    const answer = { id, kind: "answer", since: asked.since, value: "true", dryRun: true };
    for (const as of [undefined, 9, "x"]) {
      const { status, body } = await call(board, "wake", { ...answer, as });
      assertEquals([status, body.count, body.act], [200, 0, undefined]);
      assertStringIncludes(body.why, "one of them: 7, 8");
    }
    const { body } = await call(board, "wake", { ...answer, as: 8 });
    assertEquals([body.dryRun, body.kind, body.count], [true, "answer", 1]);
    for (const as of [undefined, 9, "x"]) {
      const { status, body } = await call(board, "wake", { ...answer, as, dryRun: false });
      assertEquals(status, 400);
      assertStringIncludes(body.error, "one of them: 7, 8");
    }
    assertEquals((await read(board, "acts")).body.acts, []);
    assertEquals(board.logs.filter(({ level }) => level === "error"), []);
    assertEquals((await store.get(id))?.state, "parked");
    const done = { ...answer, as: 8, dryRun: false, act: body.act };
    assertEquals((await call(board, "wake", done)).status, 200);
    await until(async () => (await store.get(id))?.state === "done");
    assertEquals((await call(board, "wake", done)).status, 200);
    assertEquals((await call(board, "wake", { ...done, as: 7 })).status, 400);
    const [kept] = (await read(board, "acts")).body.acts;
    assertEquals([kept.kind, kept.as, kept.changed], ["answer", 8, 1]);
  } finally {
    await worker.stop();
  }
});

Deno.test("a question for anybody is answered in nobody's name, and is no wake", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1"));
  const answers: unknown[] = [];
  const worker = startWorker(store, async (_, { ask }) => {
    answers.push(await ask("approval", () => {}));
  }, { log: () => {} });
  try {
    await until(async () => (await store.get(id))?.state === "parked");
    const { since } = (await store.get(id))!.waitingFor!;
    for (const dryRun of [true, false]) {
      const fields = { id, kind: "wake", since, value: "true", as: 12_345, dryRun };
      const { status, body } = await call(board, "wake", fields);
      assertEquals([status, body.count], dryRun ? [200, 0] : [400, undefined]);
      assertStringIncludes(body.why ?? body.error, "leave 'as' out");
    }
    assertEquals((await store.get(id))?.state, "parked");
    assertEquals((await call(board, "wake", { id, since, value: "true" })).status, 200);
    await until(() => Promise.resolve(answers.length > 0));
    assertEquals(answers, [{ value: true, by: undefined, sent: undefined, timedOut: false }]);
    assertEquals((await read(board, "acts")).body.acts[0].kind, "answer");
  } finally {
    await worker.stop();
  }
});

Deno.test("a program asks what an act on one thing would do, and nothing is done", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1"));
  let lease = await claim(store);
  for (const name of ["a", "b"]) {
    lease = (await store.note(lease, { is: "step", name, json: "1" }))!;
  }
  await store.park(lease, { name: "deploy", timeoutMs: 60_000 });
  const since = (await store.get(id))!.waitingFor!.since;
  await store.scheduleNotes.write("digest", NOTE, null);
  await (await store.state("a")).set(1);
  const { version } = (await read(board, "state?key=a")).body;
  const asks = [
    ["wake", { id, since, value: "1" }, "with the value"],
    ["repeat", { id, step: "b" }, "taken again: b."],
    ["schedule", { schedule: "digest", do: "run" }, "once more"],
    ["schedule", { schedule: "digest", do: "pause" }, "left out"],
    ["forget", { key: "a", version }, "deleted"],
  ] as const;
  for (const [name, fields, would] of asks) {
    const { status, body } = await call(board, name, { ...fields, dryRun: true });
    assertEquals([status, body.dryRun, body.count, body.why], [200, true, 1, undefined], name);
    assertStringIncludes(body.would, would);
    assertMatch(body.act, /^\w+-\w{8}$/);
  }
  const none = [
    ["wake", { id, since: since + 1, value: "1" }, "does not wait for this"],
    ["repeat", { id, step: "c" }, "no such step"],
    ["schedule", { schedule: "digest", do: "resume" }, "not paused"],
    ["forget", { key: "a", version: "x" }, "has changed"],
  ] as const;
  for (const [name, fields, why] of none) {
    const { status, body } = await call(board, name, { ...fields, dryRun: true });
    assertEquals([status, body.count, body.act], [200, 0, undefined], name);
    assertStringIncludes(body.why, why);
  }
  assertEquals((await call(board, "wake", { id, since, value: "{", dryRun: true })).status, 400);
  const { state, steps } = (await store.get(id))!;
  assertEquals([state, steps?.length], ["parked", 2]);
  assertEquals((await store.state("a")).value, 1);
  assertEquals((await store.scheduleNotes.read("digest")).value, NOTE);
  assertEquals((await Array.fromAsync(store.list())).length, 1);
  assertEquals((await read(board, "acts")).body.acts, []);
});
