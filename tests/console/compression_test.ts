import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { gunzipSync } from "node:zlib";
import { until } from "../../dev/harness/until.ts";
import { newActId } from "../../console/_query.ts";
import { openBoard, OPERATOR, storeDead } from "./_board.ts";

const JSON_TYPE = "application/json";
const GZIP = { "Accept-Encoding": "br;q=1.0, gzip;q=0.8, *;q=0.1" };

Deno.test("pages, their files and JSON are compressed for who takes that", async () => {
  await using board = await openBoard();
  const headers = { Cookie: await board.login() };
  const textOf = async (page: string) => await (await board.get(page, headers)).text();
  // A busy machine reads what was counted after the first page has come.
  await until(async () => (await textOf("/")).includes('class="chart"'), 20_000);
  const plain = await textOf("/acts");
  const [, script] = /src="(script-[^"]+)"/.exec(plain)!;
  for (const page of ["", script, "api/overview"]) {
    const [whole, packed] = await Promise.all(
      [headers, { ...headers, ...GZIP }].map((each) => board.get(`/${page}`, each)),
    );
    assertEquals(whole!.headers.get("Content-Encoding"), null);
    assertEquals(packed!.headers.get("Content-Encoding"), "gzip", page);
    assertEquals([whole, packed].map((each) => each!.headers.get("Vary")), [
      "Accept-Encoding",
      "Accept-Encoding",
    ]);
    const bytes = new Uint8Array(await packed!.arrayBuffer());
    const text = await whole!.text();
    assert(bytes.length < text.length / 2, page);
    if (page === script) assertEquals(gunzipSync(bytes).toString(), text);
  }
});

Deno.test("nothing is compressed for who does not take gzip", async () => {
  await using board = await openBoard();
  const Cookie = await board.login();
  for (const accepted of ["", "br", "gzip;q=0", "gzip; q=0.000", "x-gzip-like", "identity"]) {
    const response = await board.get("/", { Cookie, "Accept-Encoding": accepted });
    assertEquals(response.headers.get("Content-Encoding"), null, accepted);
    await response.text();
  }
});

Deno.test("no answer with a payload, or with what a handler has written, is compressed", async () => {
  await using board = await openBoard();
  const body = new TextEncoder().encode(JSON.stringify({ text: "x".repeat(5_000) }));
  const id = await storeDead(board.store, "1", { body });
  const headers = { Cookie: await board.login(), ...GZIP };
  const pages = ["delivery", "payload", "api/delivery", "api/payload", "api/deliveries"];
  pages.push("export", "api/export", "problem", "api/problem", "problems", "api/problems");
  pages.push("deliveries", "running", "api/running", "parked", "api/parked", "refusals");
  pages.push("states", "api/states", "acts", "api/acts", "limits", "api/limits");
  pages.push("schedules", "api/schedules", "progress", "api/progress");
  const [problem] = (await board.store.inspect.problems()).problems;
  const other = await storeDead(board.store, "2", { body });
  const act = newActId();
  const replay = { kind: "replay", id: other, act };
  const init = { method: "POST", body: JSON.stringify(replay) };
  const program = { ...GZIP, Authorization: `Bearer ${OPERATOR}`, Origin: "" };
  const done = await board.send("/api/act", init, { ...program, "Content-Type": JSON_TYPE });
  assertEquals([done.status, done.headers.get("Content-Encoding")], [200, null]);
  assertEquals((await done.json()).act.id, act);
  for (const page of pages) {
    const of = page.endsWith("problem") ? problem!.id : page.endsWith("progress") ? act : id;
    const parameters = parametersOf(page, of);
    const response = await board.get(`/${page}${parameters}`, headers);
    assertEquals([response.status, response.headers.get("Content-Encoding")], [200, null], page);
    assertEquals(response.headers.get("Cache-Control"), "no-store, no-transform");
    await response.text();
  }
});

/** Makes the parameters that a page wants, which may have no others. */
function parametersOf(page: string, id: string): string {
  if (page.endsWith("export")) return "?format=csv";
  return /(delivery|payload|problem|progress)$/.test(page) ? `?id=${id}` : "";
}

Deno.test("the size of a compressed page is not the same each time", async () => {
  await using board = await openBoard();
  const headers = { Authorization: `Bearer ${OPERATOR}`, Cookie: await board.login(), ...GZIP };
  const paddings: (string | null)[] = [];
  for (let i = 0; i < 20; i++) {
    const response = await board.get("/", headers);
    paddings.push(response.headers.get("X-Padding"));
    await response.arrayBuffer();
  }
  assertNotEquals(new Set(paddings.map((each) => each!.length)).size, 1);
});
