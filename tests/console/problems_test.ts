import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readProblem, readProblems } from "../../console/_problems_page.ts";
import { openBoard, OPERATOR, storeDead, VIEWER } from "./_board.ts";
import { openData, until } from "./_data.ts";

type Board = Awaited<ReturnType<typeof openBoard>>;

async function page(board: Board, path: string, token?: string): Promise<string> {
  const response = await board.get(path, { Cookie: await board.login(token) });
  assertEquals(response.status, 200, path);
  return await response.text();
}

/** Reads a page until it has a text: problems that take long to read are read again after five seconds only. */
const pageWith = (board: Board, path: string, text: string): Promise<string> =>
  until(async () => {
    const html = await page(board, path);
    return html.includes(text) && html;
  });

const HOSTILE = `<script>alert(1)</script>`;

/** Has events die by two problems. Returns the ids of these, that of two events first. */
async function twoProblems({ store }: Pick<Board, "store">): Promise<string[]> {
  await storeDead(store, "1", {}, new Error(`no issue 17 ${HOSTILE}`));
  await storeDead(store, "2", {}, new Error(`no issue 18 ${HOSTILE}`));
  await storeDead(store, "3", {}, new TypeError("other"));
  return (await store.inspect.problems()).problems.map(({ id }) => id);
}

Deno.test("problems are listed, the one with the most events first", async () => {
  await using board = await openBoard();
  assertStringIncludes(await page(board, "/problems"), "No problem");
  const [first, second] = await twoProblems(board);
  const html = await pageWith(board, "/problems", `problem?id=${second}`);
  assert(html.indexOf(`problem?id=${first}`) < html.indexOf(`problem?id=${second}`));
  assertMatch(html, /Error: no issue 17 &lt;script&gt;/);
  assert(!html.includes(HOSTILE));
  assertMatch(html, /aria-label="2 failed attempts in 24 hours, at most 2 in one"/);
});

Deno.test("a problem shows its events, and operators act on all of them", async () => {
  await using board = await openBoard();
  const [first] = await twoProblems(board);
  const html = await page(board, `/problem?id=${first}`);
  for (const id of ["github:1", "github:2"]) assertStringIncludes(html, id);
  assert(!html.includes("github:3") && !html.includes(HOSTILE));
  assertStringIncludes(html, `act?kind=replay&amp;state=dead&amp;problem=${first}`);
  const viewers = await page(board, `/problem?id=${first}`, VIEWER);
  assert(viewers.includes("github:1") && !viewers.includes("kind=replay"));
  const question = await page(board, `/act?kind=replay&state=dead&problem=${first}`);
  assertStringIncludes(question, "Replay 2 events?");
  assertStringIncludes(question, first!);
  const event = await page(board, "/delivery?id=github:1");
  assertStringIncludes(event, `problem?id=${first}`);
  const asked = await page(board, `/act?kind=purge&state=dead&problem=${first}`);
  const [, act] = /name="act" value="([^"]+)"/.exec(asked)!;
  const purge = { kind: "purge", state: "dead", problem: first!, of: "2", act: act! };
  assertEquals((await board.act(purge)).status, 400);
  assertEquals((await board.act({ ...purge, typed: "2" })).status, 303);
  while ((await board.store.inspect.problems({ id: first })).problems.length > 0) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await pageWith(board, `/problem?id=${first}`, "This problem has ended");
  assert(!(await page(board, "/problems")).includes(first!));
  assertEquals((await board.store.stats()).dead, 1);
});

Deno.test("errors are not shown where payloads are hidden", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  const [first] = await twoProblems(board);
  for (const path of ["/problems", `/problem?id=${first}`]) {
    const html = await page(board, path);
    assert(html.includes("Error") && !html.includes("no issue"), path);
  }
});

Deno.test("a wrong id, state or cursor of a problem is refused", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  for (const query of ["", "?id=../x", "?id=a&state=done", "?id=a&cursor=x", "?id=a&id=b"]) {
    assertEquals((await board.get(`/problem${query}`, { Cookie })).status, 400, query);
  }
  assertEquals(
    (await board.get("/act?kind=purge&state=dead&problem=../x", { Cookie })).status,
    400,
  );
});

Deno.test("the data of the pages is JSON", async () => {
  await using sut = await openData();
  const [first] = await twoProblems(sut);
  const list = await readProblems(sut.data);
  assertEquals(JSON.parse(JSON.stringify(list)), list);
  const one = await readProblem(sut.data, new URLSearchParams({ id: first! }));
  assertEquals(one.problem!.hours.length, 72);
  assertEquals(one.page.events.length, 2);
  assert(JSON.stringify(one).includes("github:1"));
});

/** Asks for an act on all dead events of a problem, and does it. Returns the question and the id of the act. */
async function actOnAll(board: Board, kind: string, problem: string) {
  const question = await page(board, `/act?kind=${kind}&state=dead&problem=${problem}`);
  const [, act = ""] = /name="act" value="([^"]+)"/.exec(question) ?? [];
  const fields = { kind, state: "dead", problem, of: "2", act };
  assertEquals((await board.act(fields)).status, 303);
  return { question, act };
}

Deno.test("an act on a problem names its error, also when the problem has ended", async () => {
  await using board = await openBoard();
  const [first] = await twoProblems(board);
  const { question, act } = await actOnAll(board, "replay", first!);
  await until(async () => (await board.store.stats()).dead === 1);
  assertStringIncludes(await page(board, `/problem?id=${first}`), "This problem has ended");
  const named = `<a href="problem?id=${first}">Error: no issue 1`;
  for (const html of [question, await page(board, `/progress?id=${act}`)]) {
    assertStringIncludes(html, named);
    assert(!html.includes(HOSTILE));
  }
  assertStringIncludes(await page(board, "/acts"), named);
});

Deno.test("an act on a problem names only the kind of its error where payloads are hidden", async () => {
  await using board = await openBoard({ hidesPayloads: true });
  const [first] = await twoProblems(board);
  const { question, act } = await actOnAll(board, "replay", first!);
  const Authorization = `Bearer ${OPERATOR}`;
  const read = async (path: string) =>
    await (await board.get(`/api/${path}`, { Authorization })).text();
  const found = [
    ...[question, await page(board, `/progress?id=${act}`), await page(board, "/acts")],
    ...await Promise.all([read(`progress?id=${act}`), read("acts"), read(`changed?id=${act}`)]),
  ];
  for (const text of found) {
    assert(text.includes(first!) && text.includes("Error") && !text.includes("no issue"), text);
  }
});

Deno.test("the events of a problem say what they are about, and are listed with the deliveries", async () => {
  for (const hidesPayloads of [false, true]) {
    await using board = await openBoard({ hidesPayloads });
    await storeDead(board.store, "1", { description: `#17 ${HOSTILE}` });
    const [problem] = (await board.store.inspect.problems()).problems;
    const html = await page(board, `/problem?id=${problem!.id}`);
    assertEquals(html.includes("#17 &lt;script&gt;"), !hidesPayloads);
    assertMatch(html, /<th[^>]*>about</);
    const [, list] = /href="(deliveries\?problem=\w+)"/.exec(html)!;
    assertStringIncludes(await page(board, `/${list}`), "github:1");
  }
});

Deno.test("problems of an app without a version have no column and no fact for it", async () => {
  await using board = await openBoard();
  const [first] = await twoProblems(board);
  for (const path of ["/problems", `/problem?id=${first}`]) {
    assert(!(await page(board, path)).includes("versions"), path);
  }
});
