import { slotDelivery } from "../../events/schedules/slot_event.ts";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { newActId } from "../../console/_query.ts";
import { type EventStore, startWorker } from "../../events/mod.ts";
import { event } from "../events/store/_moving.ts";
import { setValue } from "../events/store/kv/_values.ts";
import { WallClock } from "../_wall_clock.ts";
import { until } from "./_data.ts";
import {
  type BoardUnderTest,
  claim,
  delivery,
  openBoard,
  OPERATOR,
  storeDead,
  storeDone,
  VIEWER,
} from "./_board.ts";

const HOUR = 3_600_000;
const HOSTILE = `"><script>alert(1)</script>'`;

/** Reads a page as an operator, or as a viewer. */
async function page(board: BoardUnderTest, path: string, token = OPERATOR): Promise<string> {
  const response = await board.get(path, { Cookie: await board.login(token) });
  assertEquals(response.status, 200, `${path}: ${await response.clone().text()}`);
  return await response.text();
}

/** Reads the fields of the form on a page that is sent to another one. */
function fieldsOf(html: string, action: string): Record<string, string> {
  const [, form = ""] = new RegExp(`<form[^>]*action="${action}">(.*?)</form>`, "s").exec(html) ??
    [];
  const fields = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  return Object.fromEntries(fields.map(([, name, value]) => [name, value]));
}

/** Sends a form as an operator. */
async function send(board: BoardUnderTest, path: string, fields: Record<string, string>) {
  return await board.post(path, fields, { Cookie: await board.login() });
}

/** Stores an event, and parks it. */
async function park(store: EventStore, id: string, name: string): Promise<string> {
  await store.accept(delivery(id));
  const lease = await claim(store);
  await store.park(lease, { name, timeoutMs: HOUR });
  return lease.record.id;
}

Deno.test("the page of what runs has the longest first, and its process", async () => {
  await using board = await openBoard();
  const { store } = board;
  const handles = [{ names: ["issues"], timeoutMs: 1 }, { names: ["*"] }];
  const note = { startedAt: 0, seenAt: Date.now(), version: "1.2.3", timeoutMs: HOUR, handles };
  await store.noteProcess({ id: "w", ...note });
  await store.accept(delivery("1"));
  await claim(store);
  using clock = new WallClock();
  clock.advance(1);
  await store.accept(delivery("2", { type: "push", action: undefined }));
  await store.claim({ limit: 1, owner: "unknown", leaseMs: HOUR });
  const html = await page(board, "/running");
  assert(html.indexOf("github%3A1") < html.indexOf("github%3A2"));
  assertMatch(html, /issues, any event.*of 1 h.*1\.2\.3.*not known.*not seen for 5 min/s);
  assertEquals(html.match(/href="act\?kind=cancel&amp;id=[^"]+">Cancel…</g)?.length, 2);
  assert(!(await page(board, "/running", VIEWER)).includes("Cancel…"));
  // The limit of the longest of its handlers is not reached.
  assert(!html.includes('class="error"'));
});

Deno.test("a handler past its time limit is marked, and cancelled once the question is answered", async () => {
  await using board = await openBoard();
  const { store } = board;
  const note = { startedAt: 0, seenAt: Date.now(), timeoutMs: 1, handles: null };
  await store.noteProcess({ id: "w", ...note });
  const { id } = await store.accept(delivery("1"));
  await claim(store);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const html = await page(board, "/running");
  assertStringIncludes(html, 'class="error"');
  // The list moves under the pointer, so nothing on it cancels at once.
  assert(!html.includes('action="act"'));
  const asked = await page(board, `/act?${new URLSearchParams({ kind: "cancel", id })}`);
  assertStringIncludes(html, `href="act?kind=cancel&amp;id=${encodeURIComponent(id)}"`);
  const response = await send(board, "/act", fieldsOf(asked, "act"));
  assertEquals([response.status, response.headers.get("Location")], [
    303,
    `delivery?${new URLSearchParams({ id })}`,
  ]);
  const about = await page(board, `/delivery?id=${id}`);
  assertMatch(about, /Cancelled<\/b>.*by operator [0-9a-f]{4} from 192\.0\.2\.1/s);
  assertMatch(await page(board, "/running"), /cancelled <time/);
});

Deno.test("an event that waits for a name is woken with a value, once, and the act is kept", async () => {
  await using board = await openBoard();
  const { store } = board;
  const id = await park(store, "1", `deploy:${HOSTILE}`);
  const list = await page(board, "/parked");
  assertStringIncludes(list, "deploy:&quot;&gt;&lt;script&gt;");
  assertStringIncludes(list, `href="wake?id=${encodeURIComponent(id)}"`);
  assert(!(await page(board, "/parked", VIEWER)).includes("wake?id="));
  const fields = fieldsOf(await page(board, `/wake?id=${id}`), "wake");
  const given = { ...fields, value: '{"percent":"100%"}' };
  assertEquals((await send(board, "/wake", given)).status, 303);
  const again = await send(board, "/wake", given);
  assertEquals(again.status, 303);
  const { record } = await claim(store);
  assertEquals(record.woken?.map(({ value }) => value), ['{"percent":"100%"}']);
  assertMatch(record.woken![0]!.by!, /^operator [0-9a-f]{4} from 192\.0\.2\.1$/);
  const html = await page(board, `/delivery?id=${id}`);
  assertMatch(html, /Woken<\/b>.*by operator .*&quot;percent&quot;/s);
  assertMatch(await page(board, "/acts"), />Wake<.*finished.*github:1/s);
  assertEquals(board.logs.filter(({ message }) => message === "console act").length, 1);
});

/** Stores an event whose handler asks, and stops its worker once it is parked: no place is free then. */
async function asking(store: EventStore, id: string, by?: number[]): Promise<string> {
  const accepted = await store.accept(delivery(id, { description: "#7 Fix the crash" }));
  const worker = startWorker(store, async (_, { ask }) => {
    await ask("approval", () => {}, { by });
  }, { log: () => {} });
  await until(async () => (await store.get(accepted.id))?.state === "parked");
  await worker.stop();
  return accepted.id;
}

/** Reads what a program gets of a page. */
async function json(board: BoardUnderTest, path: string) {
  const response = await board.get(`/api/${path}`, { Authorization: `Bearer ${OPERATOR}` });
  return { status: response.status, body: await response.json() };
}

Deno.test("pages say that an answer is there while no place is free, and ask for none", async () => {
  await using board = await openBoard();
  const id = await asking(board.store, "1");
  const path = `/delivery?id=${id}`;
  const link = `href="wake?id=${encodeURIComponent(id)}"`;
  assertStringIncludes(await page(board, path), "Waits for an answer");
  const question = await page(board, `/wake?id=${id}`);
  const given = { ...fieldsOf(question, "wake"), value: '"go"' };
  assertEquals((await send(board, "/wake", given)).status, 303);
  assertEquals((await board.store.get(id))?.state, "parked");
  const about = await page(board, path);
  assertMatch(
    about,
    /Answered<\/b>.*approval.*waits for a free place.*by operator.*&quot;go&quot;/s,
  );
  const list = await page(board, "/parked");
  assertMatch(list, /the answer to.*answered <time.*, waits for a place/s);
  for (const html of [about, list]) assert(!html.includes(link));
  assert(!about.includes("Waits for an answer"));
  for (const path of ["/deliveries", "/export?format=csv"]) {
    assertStringIncludes(await page(board, path), "answered, waits for a place");
  }
  const first = await until(async () => {
    const html = await page(board, "/");
    return html.includes("1 answered") && html;
  });
  assertMatch(first, /state parked">parked<\/span><b>1<\/b><span class="dim">1 answered/);
  // Sent again it is the same act, and another one finds the answer.
  assertEquals((await send(board, "/wake", given)).status, 303);
  const second = await send(board, "/wake", { ...given, act: newActId() });
  assertEquals(second.status, 409);
  assertStringIncludes(await second.text(), "Its answer is there already");
  const Cookie = await board.login();
  assertEquals((await board.get(`/wake?id=${id}`, { Cookie })).status, 409);
  const { body: { answer } } = await json(board, `delivery?id=${id}`);
  assertEquals([answer.value, answer.by.split(" ")[0]], [{ value: "go" }, "operator"]);
  assertEquals((await json(board, "parked")).body.events[0].answeredAt, answer.at);
  assertEquals((await json(board, "deliveries")).body.rows[0].waits, "answered, waits for a place");
  assertEquals((await json(board, "overview")).body.answered, { count: 1, isMore: false });
  assertEquals((await json(board, `wake?id=${id}`)).status, 409);
});

Deno.test("what a question was answered with is hidden with the payloads", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  const id = await asking(board.store, "1");
  const fields = fieldsOf(await page(board, `/wake?id=${id}`), "wake");
  await send(board, "/wake", { ...fields, value: '"secret"' });
  const html = await page(board, `/delivery?id=${id}`);
  assert(html.includes("waits for a free place") && !html.includes("secret"));
  const { body } = await json(board, `delivery?id=${id}`);
  assertEquals(Object.keys(body.answer), ["at"]);
  assert(!JSON.stringify(body).includes("secret"));
});

Deno.test("the page of a parked event leads operators to what ends its wait", async () => {
  await using board = await openBoard();
  const named = await park(board.store, "1", "deploy");
  const asked = await asking(board.store, "2");
  for (const [id, label] of [[named, "Wake…"], [asked, "Answer…"]] as const) {
    const button = `<a class="button" href="wake?id=${encodeURIComponent(id)}">${label}</a>`;
    assertStringIncludes(await page(board, `/delivery?id=${id}`), button);
    assert(!(await page(board, `/delivery?id=${id}`, VIEWER)).includes("wake?id="));
  }
});

Deno.test("the form of an answer shows what it is about, and who may answer until when", async () => {
  await using board = await openBoard();
  const anybody = await page(board, `/wake?id=${await asking(board.store, "1")}`);
  assertMatch(anybody, /the answer to .*approval.*may answer<\/dt><dd>anybody.*until<\/dt><dd>/s);
  assertMatch(anybody, /about<\/dt><dd>#7 Fix the crash.*<summary>Payload.*class="json".*opened/s);
  const some = await page(board, `/wake?id=${await asking(board.store, "2", [7, 8])}`);
  assertStringIncludes(some, "only the senders 7, 8");
  const named = await page(board, `/wake?id=${await park(board.store, "3", "deploy")}`);
  assert(!named.includes("may answer"));
  await using other = await openBoard({ hidesPayloads: true });
  const hidden = await page(other, `/wake?id=${await asking(other.store, "1", [7, 8])}`);
  assert(!/Fix the crash|class="json"|senders 7/.test(hidden));
  assertStringIncludes(hidden, "only some senders");
  assertStringIncludes(hidden, "the app hides them");
});

Deno.test("parked events have one name: on the tile, in the menu and on their page", async () => {
  await using board = await openBoard();
  await park(board.store, "1", "deploy");
  const html = await page(board, "/parked");
  assertMatch(html, /<a href="parked"[^>]*>Parked<\/a>.*<h1>Parked<\/h1>/s);
  assertMatch(html, /<title>Parked/);
  assertMatch(await page(board, "/"), /class="state parked">parked</);
});

Deno.test("the page of an event that runs names its handlers, limit and process as the page of all does", async () => {
  await using board = await openBoard();
  const { store } = board;
  const handles = [{ names: ["issues"], timeoutMs: HOUR }, { names: ["*"] }];
  const note = { startedAt: 0, seenAt: Date.now(), version: "1.2.3", name: "vm:12555", handles };
  await store.noteProcess({ id: "w", ...note });
  await store.accept(delivery("1"));
  await claim(store);
  for (const path of ["/running", "/delivery?id=github:1"]) {
    const html = await page(board, path);
    for (const text of ["issues, any event", "of 1 h at most", "1.2.3", "vm:12555"]) {
      assertStringIncludes(html, text, path);
    }
    assert(!html.includes("leased by"));
  }
  const [one, all] = [await json(board, "delivery?id=github:1"), await json(board, "running")];
  const { elapsedMs: _, ...event } = all.body.events[0];
  assertEquals({ ...one.body.running, elapsedMs: undefined }, { ...event, elapsedMs: undefined });
});

Deno.test("a value that is not JSON, or too large, changes nothing and says why", async () => {
  await using board = await openBoard();
  const id = await park(board.store, "1", "n");
  const fields = fieldsOf(await page(board, `/wake?id=${id}`), "wake");
  for (
    const [value, flaw] of [
      ["go", "A text needs quotes"],
      ["{", "This is not JSON"],
      [`${HOSTILE}`, "This is not JSON"],
      [JSON.stringify("x".repeat(8_000)), "8,002 bytes, over 8,000"],
    ] as const
  ) {
    const response = await send(board, "/wake", { ...fields, value });
    const html = await response.text();
    assertEquals(response.status, 400);
    assertStringIncludes(html, flaw);
    assert(!html.includes("<script>alert"));
  }
  assertEquals((await board.store.get(id))!.state, "parked");
  const other = { ...fields, since: "1", act: newActId(), value: "1" };
  assertEquals((await send(board, "/wake", other)).status, 409);
  assertEquals(await Array.fromAsync(board.store.answers()), []);
});

Deno.test("the names that events wait for are hidden with the payloads", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  const id = await park(board.store, "1", "of-ada");
  for (const path of ["/parked", `/wake?id=${id}`, `/delivery?id=${id}`]) {
    assert(!(await page(board, path)).includes("of-ada"), path);
  }
  await board.store.wake("of-ada", "secret");
  await claim(board.store);
  const html = await page(board, `/delivery?id=${id}`);
  assertStringIncludes(html, "Woken");
  assert(!html.includes("secret") && !html.includes("of-ada"));
});

Deno.test("schedules show their runs, and are run, paused and resumed", async () => {
  await using board = await openBoard();
  const { store } = board;
  const at = Math.floor(Date.now() / HOUR) * HOUR;
  await store.scheduleNotes.write("hourly", { plan: "0 * * * * UTC", at }, null);
  await store.scheduleNotes.write("late", { plan: "0 * * * * UTC", at: at - HOUR }, null);
  await store.scheduleNotes.write("newer", {}, null);
  const html = await page(board, "/schedules");
  assertMatch(html, /hourly.*in \d+.*late.*(overdue for|in \d).*newer.*cannot be read/s);
  assert(!(await page(board, "/schedules", VIEWER)).includes("Run now"));
  const fields = { ...fieldsOf(html, "schedule"), schedule: "hourly" };
  const run = await send(board, "/schedule", { ...fields, do: "run", act: newActId() });
  assertMatch(run.headers.get("Location")!, /^delivery\?id=schedule%3A/);
  assertEquals((await claim(store)).record.type, "hourly");
  const pause = { ...fields, do: "pause", act: newActId() };
  assertEquals((await send(board, "/schedule", pause)).headers.get("Location"), "schedules");
  assertMatch(await page(board, "/schedules"), /paused<.*by operator .*Resume/s);
  assertEquals((await send(board, "/schedule", { ...pause, act: newActId() })).status, 409);
  const resume = { ...fields, do: "resume", act: newActId() };
  assertEquals((await send(board, "/schedule", resume)).status, 303);
  const acts = await page(board, "/acts");
  assertMatch(acts, />Resume<.*schedule hourly.*>Pause<.*>Run now</s);
  for (const [schedule, status] of [["nothing", 404], [HOSTILE, 404], ["x".repeat(101), 400]]) {
    const response = await send(board, "/schedule", { ...pause, schedule: String(schedule) });
    assertEquals(response.status, status);
  }
});

Deno.test("a schedule is run or paused after a question, which begins nothing", async () => {
  await using board = await openBoard();
  const { store } = board;
  await store.scheduleNotes.write("hourly", { plan: "0 * * * * UTC", at: Date.now() }, null);
  const html = await page(board, "/schedules");
  const links = [...html.matchAll(/href="(schedule\?[^"]+)"/g)].map(([, to]) =>
    to!.replaceAll("&amp;", "&")
  );
  assertEquals(links, ["schedule?schedule=hourly&do=run", "schedule?schedule=hourly&do=pause"]);
  assert(!html.includes('action="schedule"'));
  const [run, pause] = [await page(board, `/${links[0]}`), await page(board, `/${links[1]}`)];
  assertMatch(run, /Run this schedule now\?.*0 \* \* \* \* UTC.*cannot be undone/s);
  assertEquals(await Array.fromAsync(store.list()), []);
  for (const html of [run, run]) {
    assertEquals((await send(board, "/schedule", fieldsOf(html, "schedule"))).status, 303);
  }
  assertEquals((await Array.fromAsync(store.list())).length, 1);
  assertEquals((await send(board, "/schedule", fieldsOf(pause, "schedule"))).status, 303);
  assertStringIncludes(await page(board, "/schedules"), 'action="schedule"');
  const Cookie = await board.login(VIEWER);
  assertEquals((await board.get(`/${links[0]}`, { Cookie })).status, 403);
  for (const query of ["schedule=none&do=run", "schedule=hourly", "do=run"]) {
    const response = await board.get(`/schedule?${query}`, { Cookie: await board.login() });
    assertEquals(response.status, 404, query);
  }
});

Deno.test("states are found by the beginnings of their keys, shown and deleted", async () => {
  await using board = await openBoard();
  const { store, kv } = board;
  const key = `chat/${HOSTILE}`;
  await (await store.state(key, { intake: "telegram" })).set({ text: HOSTILE });
  await (await store.state("other")).set(1, { expireAfterMs: HOUR });
  await setValue(kv, ["bot", "state", "", "spoiled"], {});
  const all = await page(board, "/states");
  assertMatch(all, /other.*spoiled.*of another version.*chat\/&quot;.*telegram/s);
  const some = await page(board, "/states?prefix=chat/");
  assert(some.includes("telegram") && !some.includes("other"));
  const path = `/state?${new URLSearchParams({ intake: "telegram", key })}`;
  const html = await page(board, path);
  assertStringIncludes(html, "&lt;script&gt;");
  assert(!html.includes("<script>alert"));
  assert(!(await page(board, path, VIEWER)).includes("Delete this state"));
  const fields = fieldsOf(html, "forget");
  const decoded = { ...fields, key };
  await (await store.state(key, { intake: "telegram" })).set("changed");
  assertEquals((await send(board, "/forget", decoded)).status, 409);
  const now = fieldsOf(await page(board, path), "forget");
  assertEquals((await send(board, "/forget", { ...now, key })).status, 303);
  assertEquals((await store.state(key, { intake: "telegram" })).value, undefined);
  const spoiled = await page(board, "/state?key=spoiled");
  assertStringIncludes(spoiled, "another version wrote it");
  assertEquals((await send(board, "/forget", fieldsOf(spoiled, "forget"))).status, 303);
  const gone = await board.get("/state?key=spoiled", { Cookie: await board.login() });
  assertEquals(gone.status, 404);
  assertMatch(await page(board, "/acts"), />Delete a state<.*state spoiled/s);
});

Deno.test("the values of states are hidden with the payloads", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  await (await board.store.state("a")).set("secret");
  assert(!(await page(board, "/state?key=a")).includes("secret"));
});

Deno.test("an event is repeated from a step on: a dead one is put back without it", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1"));
  let lease = await claim(store);
  for (const name of ["a", `b${HOSTILE}`, "c"]) {
    lease = (await store.note(lease, { is: "step", name, json: "1" }))!;
  }
  await store.bury(lease, new Error("no"));
  const html = await page(board, `/delivery?id=${id}`);
  const links = [...html.matchAll(/href="(repeat\?[^"]+)"/g)].map(([, to]) =>
    to!.replaceAll("&amp;", "&")
  );
  assertEquals(links.length, 3);
  const question = await page(board, `/${links[1]}`);
  assertMatch(question, /taken again:.*b&quot;.*c<\/li>/s);
  assert(!question.includes(">a</li>") && !question.includes("<script>alert"));
  const fields = { ...fieldsOf(question, "repeat"), step: `b${HOSTILE}` };
  assertEquals((await send(board, "/repeat", fields)).status, 303);
  const record = (await store.get(id))!;
  assertEquals([record.state, record.steps?.map(({ name }) => name)], ["queued", ["a"]]);
  const after = await page(board, `/delivery?id=${id}`);
  assertMatch(after, /Replayed<\/b>.*Step forgotten<\/b>.*by operator/s);
  assert(!(await page(board, `/delivery?id=${id}`, VIEWER)).includes("repeat?"));
});

Deno.test("an intervention of a newer version is shown by its name", async () => {
  await using board = await openBoard();
  const interventions = [
    { is: `lifted_up${HOSTILE}`, at: Date.now(), by: "Ada" },
    { is: "constructor", at: Date.now() },
  ];
  await board.store.restore(event({ dueAt: Date.now() + 60_000, interventions }));
  const html = await page(board, "/delivery?id=d1");
  assertMatch(html, /<b>constructor<\/b>.*<b>lifted_up.*by Ada/s);
  assert(!html.includes("<script>alert"));
});

Deno.test("only a dead or waiting event is repeated from a step", async () => {
  await using board = await openBoard();
  const done = await storeDone(board.store, "1");
  const { id } = await board.store.accept(delivery("2"));
  const lease = (await board.store.note(await claim(board.store), {
    ...{ is: "step", name: "a", json: "1" },
  }))!;
  const Cookie = await board.login();
  for (const [each, why] of [[done, "begins anew"], [id, "It runs at the moment"]]) {
    const response = await board.get(`/repeat?id=${each}&step=a`, { Cookie });
    assertEquals(response.status, 409);
    assertStringIncludes(await response.text(), why!);
  }
  const fields = { id, step: "a", act: newActId() };
  assertEquals((await send(board, "/repeat", fields)).status, 409);
  assert(await board.store.complete(lease));
});

Deno.test("programs wake, pause and delete as pages do, and are told what is wrong", async () => {
  await using board = await openBoard();
  const id = await park(board.store, "100%", "n");
  const since = String((await board.store.get(id))!.waitingFor!.since);
  const call = async (name: string, body: object) => {
    const headers = { Authorization: `Bearer ${OPERATOR}`, "Content-Type": "application/json" };
    return await board.send(
      `/api/${name}`,
      { method: "POST", body: JSON.stringify(body) },
      headers,
    );
  };
  const wrong = await call("wake", { id, since, value: "go" });
  assertEquals(wrong.status, 400);
  assertStringIncludes((await wrong.json()).error, "A text needs quotes");
  assertEquals((await call("wake", { id, since, value: "1" })).status, 200);
  assertEquals((await claim(board.store)).record.woken?.[0]?.value, "1");
  await (await board.store.state("50%")).set(1);
  const { version } = await board.store.state("50%");
  assertEquals((await call("forget", { key: "50%", version })).status, 200);
});

Deno.test("viewers forge no form", async () => {
  await using board = await openBoard();
  const id = await park(board.store, "1", "n");
  await (await board.store.state("a")).set(1);
  const { version } = await board.store.state("a");
  await board.store.scheduleNotes.write("s", { plan: "0 * * * * UTC", at: 0 }, null);
  const since = String((await board.store.get(id))!.waitingFor!.since);
  const Cookie = await board.login(VIEWER);
  const forms: [string, Record<string, string>][] = [
    ["/wake", { id, since, value: "1" }],
    ["/schedule", { schedule: "s", do: "pause" }],
    ["/forget", { key: "a", version: version! }],
    ["/repeat", { id, step: "a" }],
  ];
  for (const [path, fields] of forms) {
    const response = await board.post(path, { act: newActId(), ...fields }, { Cookie });
    assertEquals(response.status, 403, path);
    const foreign = { Cookie: await board.login(), Origin: "http://evil.example" };
    assertEquals((await board.post(path, { act: newActId(), ...fields }, foreign)).status, 403);
  }
  for (const path of [`/wake?id=${id}`, `/repeat?id=${id}&step=a`]) {
    assertEquals((await board.get(path, { Cookie })).status, 403);
  }
  assertEquals((await board.store.get(id))!.state, "parked");
  assertEquals((await board.store.state("a")).value, 1);
  assertEquals(board.logs.filter(({ message }) => message === "console act"), []);
});

Deno.test("pages of what an app does not have are not in the navigation", async () => {
  await using board = await openBoard();
  const none = await page(board, "/running");
  for (const name of ["parked", "schedules", "states", "limits"]) {
    assert(!none.includes(`<a href="${name}"`), name);
  }
  await using other = await openBoard();
  await (await other.store.state("a")).set(1);
  assertStringIncludes(await page(other, "/running"), `<a href="states"`);
});

Deno.test("the timeline is in order of time, folds equal errors and says who has acted", async () => {
  await using board = await openBoard();
  const { store } = board;
  const { id } = await store.accept(delivery("1"));
  for (let i = 0; i < 3; i++) {
    await store.retry(await claim(store), 0, new Error("the API is down"));
  }
  await store.bury(await claim(store), new Error("gone"));
  await board.act({ kind: "replay", id });
  await store.retry(await claim(store), HOUR, new Error("gone"));
  const html = await page(board, `/delivery?id=${id}`);
  const order = [
    ...["Attempt 2<", "Attempt 1 failed", "Replayed", "by operator", "Attempt 4 failed"],
    ...["Attempts 1 to 3 failed", "3 times the same error", "the API is down", "Received"],
  ];
  const at = order.map((text) => html.indexOf(text));
  assertEquals(at, at.toSorted((one, other) => one - other), order.join());
  assert(at[0]! > 0);
  assertEquals(html.match(/the API is down/g)?.length, 1);
});

Deno.test("an event that waits behind another says so, and how long that has run", async () => {
  await using board = await openBoard();
  for (const id of ["1", "2"]) await board.store.accept(delivery(id, { orderingKey: "k" }));
  await claim(board.store);
  const html = await page(board, "/delivery?id=github:2");
  assertMatch(
    html,
    /behind\s+<a class="mono" href="delivery\?id=github%3A1">github:1<\/a>, running for/,
  );
});

Deno.test("an event shows what it came of, and what it has emitted, as a tree", async () => {
  await using board = await openBoard();
  const { store } = board;
  const emit = async (id: string, of: string) => {
    const body = new TextEncoder().encode("{}");
    const emits = [{ source: "jobs", type: "digest", id, delayMs: 0, body }];
    await store.complete(await claim(store), { emits });
    return of;
  };
  await store.accept(delivery("1"));
  await emit("child", "1");
  await emit("grandchild", "child");
  const html = await page(board, "/delivery?id=jobs:child");
  assertMatch(html, /class="tree".*github:1.*<ul><li><b>digest<\/b>.*jobs:grandchild/s);
});

Deno.test("an unreadable event has no fixture, no timeline and no repetition", async () => {
  await using board = await openBoard();
  await setValue(board.kv, ["bot", "event", 5, "x"], {});
  await setValue(board.kv, ["bot", "id", "x"], 5);
  const Cookie = await board.login();
  const statuses = await Promise.all(
    ["/fixture?id=x", "/wake?id=x", "/repeat?id=x&step=a"].map(async (path) =>
      (await board.get(path, { Cookie })).status
    ),
  );
  assertEquals(statuses, [404, 409, 409]);
});

Deno.test("a dead event without a fixture is not offered one", async () => {
  await using board = await openBoard();
  const id = await storeDead(board.store, "1");
  assertStringIncludes(await page(board, `/delivery?id=${id}`), "Fixture for a test");
  await board.store.emit("jobs", "digest", {}, { id: "own" });
  assert(!(await page(board, "/delivery?id=jobs:own")).includes("Fixture for a test"));
});

Deno.test("events that only sleep are not among those that wait for somebody", async () => {
  await using board = await openBoard();
  for (let i = 0; i < 60; i++) await park(board.store, `sleeps-${i}`, `sleep/${i}`);
  const id = await park(board.store, "asks", "approval");
  const html = await page(board, "/parked");
  assertStringIncludes(html, `href="wake?id=${encodeURIComponent(id)}"`);
  assert(!html.includes("sleeps-"));
  assertStringIncludes(html, "Left out here: 60 that only sleep");
});

Deno.test("a schedule shows how its last runs have ended", async () => {
  await using board = await openBoard();
  const { store } = board;
  const at = Math.floor(Date.now() / HOUR) * HOUR;
  await store.scheduleNotes.write("hourly", { plan: "0 * * * * UTC", at }, null);
  const ends = ["bury", "complete", "bury"] as const;
  const ids: string[] = [];
  for (const [i, end] of ends.entries()) {
    const made = await store.accept(slotDelivery("hourly", at - (3 - i) * HOUR, false));
    ids.push(made.id);
    const lease = await claim(store);
    await (end === "bury" ? store.bury(lease, new Error("no")) : store.complete(lease));
  }
  ids.push((await store.accept(slotDelivery("hourly", at, false))).id);
  const html = await page(board, "/schedules");
  const found = [...html.matchAll(/delivery\?id=([^"]+)".*?class="state (\w+)"/gs)];
  assertEquals(found.map(([, id, state]) => [decodeURIComponent(id!), state]), [
    ...[[ids[3], "queued"], [ids[2], "dead"], [ids[1], "done"], [ids[0], "dead"]],
  ]);
});
