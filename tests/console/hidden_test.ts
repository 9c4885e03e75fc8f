/** Console that hides payloads: it shows nothing that senders or handlers have written. */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { READINGS } from "../../console/_api.ts";
import { ConsoleData } from "../../console/_console_data.ts";
import { startWorker } from "../../events/mod.ts";
import type { Delivery } from "../../events/mod.ts";
import { ask } from "../events/store/_limited.ts";
import {
  type BoardUnderTest,
  claim,
  delivery,
  openBoard,
  OPERATOR,
  storeDead,
  VIEWER,
} from "./_board.ts";
import { timeless, until } from "./_data.ts";

/** Text that stands for all that a person or a handler has written, and a number that stands for a person. */
const [MARK, PERSON] = ["xmarkx", 778_899_001];

const HOUR = 3_600_000;

/** Delivery that has the mark wherever a sender or the app may write. */
const marked = (id: string): Delivery =>
  delivery(id, {
    body: new TextEncoder().encode(JSON.stringify({ [MARK]: MARK })),
    sender: { id: PERSON, name: MARK, isBot: false },
    description: MARK,
  });

/** Opens a board that hides payloads, with the mark in each place of its store that may have one. */
async function openMarked(): Promise<BoardUnderTest> {
  const { store, kv, [Symbol.asyncDispose]: close } = await openBoard();
  const data = timeless(new ConsoleData(store, () => {}));
  const sample = { at: 1, address: MARK, headers: [{ name: MARK, value: MARK }] };
  const refused = { source: "github", code: "INVALID_SIG", since: 1, last: 1, count: 1 };
  data.refusals = () => Promise.resolve([{ ...refused, samples: [sample] }]);
  const board = await openBoard({ hidesPayloads: true, store, data });
  await plant(board);
  const end = async () => {
    await data.stop();
    await board[Symbol.asyncDispose]();
    await close();
  };
  return { ...board, kv, [Symbol.asyncDispose]: end };
}

async function plant(board: BoardUnderTest): Promise<void> {
  const { store } = board;
  await storeDead(store, "dead", marked("dead"), new RangeError(MARK));
  await stepped(board, "stepped");
  await cancelMany(board);
  await store.accept(marked("off"));
  await store.release(await claim(store), { delayMs: HOUR, reason: MARK });
  await store.accept(marked("woken"));
  await store.park(await claim(store), { name: MARK, timeoutMs: HOUR });
  await store.wake(MARK, MARK, { by: MARK });
  await store.release(await claim(store), { delayMs: HOUR });
  await store.accept(marked("cancelled"));
  await store.cancel("github:cancelled", { by: MARK });
  await store.accept(marked("parked"));
  await store.park(await claim(store), { name: `${MARK}/2`, timeoutMs: HOUR });
  await (await store.state(MARK)).set(MARK);
  await ask(store, { limit: 1, perMs: HOUR }, { name: "calls", key: MARK });
  await store.scheduleNotes.write("hourly", { plan: "0 * * * * UTC", at: Date.now() }, null);
  await store.accept(marked("asked"));
  await store.accept(marked("answered"));
  const worker = startWorker(store, async (_, { ask }) => {
    await ask("approval", () => {}, { by: [PERSON] });
    throw new TypeError(MARK);
  }, { log: () => {} });
  const isParked = async (id: string) => (await store.get(id))?.state === "parked";
  await until(async () => await isParked("github:asked") && await isParked("github:answered"));
  await actOn(board);
  await until(async () => (await store.get("github:answered"))?.attempts.length);
  await worker.stop();
  await store.accept(marked("running"));
  await claim(store);
}

/** Stores an event whose handler has noted a step, which fails. */
async function stepped({ store }: BoardUnderTest, id: string): Promise<void> {
  await store.accept(marked(id));
  const step = { is: "step", name: "review", json: JSON.stringify(MARK) } as const;
  const lease = await store.note(await claim(store), step);
  await store.bury(lease!, MARK as unknown as Error);
}

/** Cancels all events with an ordering key. */
async function cancelMany(board: BoardUnderTest): Promise<void> {
  await board.store.accept({ ...marked("many"), orderingKey: "many" });
  const init = (value: object) => ({ method: "POST", body: JSON.stringify(value) });
  const headers = { Authorization: `Bearer ${OPERATOR}`, "Content-Type": "application/json" };
  const choice = { kind: "cancel", state: "queued", group: "many" };
  const asked = await board.send("/api/act", init({ ...choice, dryRun: true }), headers);
  const { act, count: of } = await asked.json();
  const done = await board.send("/api/act", init({ ...choice, act, of }), headers);
  assertEquals([of, done.status], [1, 202]);
  await until(async () => (await board.store.get("github:many"))?.state === "dead");
}

/** Answers a question, and deletes a state. */
async function actOn(board: BoardUnderTest): Promise<void> {
  const { store } = board;
  const Cookie = await board.login();
  const { since } = (await store.get("github:answered"))!.waitingFor!;
  const answer = { id: "github:answered", since: String(since), value: JSON.stringify(MARK) };
  const as = { kind: "answer", as: String(PERSON) };
  assertEquals((await board.post("/wake", { ...answer, ...as }, { Cookie })).status, 303);
  await (await store.state(`${MARK}/gone`)).set(MARK);
  const states = await Array.fromAsync(store.states({ prefix: `${MARK}/gone` }));
  const { version } = states[0]!;
  const fields = { key: `${MARK}/gone`, version };
  assertEquals((await board.post("/forget", fields, { Cookie })).status, 303);
}

/** Follows all links from the first page, and returns the pages by their addresses. */
async function walk(board: BoardUnderTest): Promise<Map<string, string>> {
  const Cookie = await board.login();
  const found = new Map<string, string>();
  const left = ["./", "refusals", "state?key=other"];
  for (let path; (path = left.pop()) !== undefined;) {
    if (found.has(path)) continue;
    const response = await board.get(`/${path.replace("./", "")}`, { Cookie });
    const html = await response.text();
    found.set(path, html);
    const links = [...html.matchAll(/href="([^"#:]+(?:\?[^"]*)?)"/g)];
    left.push(...links.map(([, to]) => to!.replaceAll("&amp;", "&")));
  }
  return found;
}

Deno.test("no page and no answer has what a sender or a handler has written, if that is hidden", async () => {
  await using board = await openMarked();
  await until(async () => {
    const home = await (await board.get("/", { Cookie: await board.login() })).text();
    return home.includes("A new error");
  });
  const pages = await walk(board);
  const all = new Map(pages);
  const headers = { Authorization: `Bearer ${OPERATOR}` };
  for (const path of pages.keys()) {
    const [name = "", query = ""] = path.replace("./", "").split("?");
    const read = async (page: string) =>
      all.set(`api/${page}`, await (await board.get(`/api/${page}`, { ...headers })).text());
    await read(`${name || "overview"}?${query}`);
    for (const page of ["delivery", "wake", "payload", "fixture"]) {
      if (name === "delivery") await read(`${page}?${query}`);
    }
  }
  // It is asked for by its key.
  const own = [`/state?key=${MARK}`, `/api/state?key=${MARK}`];
  const Cookie = await board.login(VIEWER);
  for (const path of own) all.set(path, await (await board.get(path, { Cookie })).text());
  const known = [...all.keys()].map((path) => path.split("?")[0]);
  for (const name of Object.keys(READINGS)) assert(known.includes(`api/${name}`), name);
  for (const name of ["wake", "repeat", "schedule", "problem", "progress", "act", "export"]) {
    assert(known.includes(name), name);
  }
  assertStringIncludes([...all.values()].join(), "RangeError");
  const shown = [...all].filter(([, text]) => text.includes(MARK) || text.includes(String(PERSON)));
  assertEquals(shown.map(([path]) => path), []);
});

Deno.test("where payloads are hidden, nobody finds a state or a sender by trying", async () => {
  await using board = await openMarked();
  const Cookie = await board.login();
  for (const path of [`/states?prefix=${MARK}`, `/api/states?prefix=${MARK}`]) {
    assertEquals((await board.get(path, { Cookie })).status, 400, path);
  }
  const { since } = (await board.store.get("github:asked"))!.waitingFor!;
  const answer = { id: "github:asked", since: String(since), value: "1", kind: "answer" };
  const refused = await board.post("/wake", answer, { Cookie });
  const text = await refused.text();
  assertEquals(refused.status, 400);
  assertStringIncludes(text, "must be the id of one of them");
  assert(!text.includes(String(PERSON)));
  const form = await (await board.get("/wake?id=github:asked", { Cookie })).text();
  assertStringIncludes(form, '<input name="as"');
});
