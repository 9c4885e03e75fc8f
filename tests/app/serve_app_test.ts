import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { LogRecord, OpenedApp } from "../../mod.ts";
import { serveApp } from "../../app/serve_app.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { testWith } from "../_permissions.ts";

/** Serves what answers, and asks it once. */
async function ask(
  answer: OpenedApp["fetch"],
): Promise<{ response: Response; records: LogRecord[] }> {
  const records: LogRecord[] = [];
  const { promise, resolve } = Promise.withResolvers<number>();
  const server = serveApp({
    ...{ name: "own", hostname: "127.0.0.1", port: 0, answer },
    log: (record) => records.push(record),
    onListen: ({ port }) => resolve(port),
  });
  const response = await fetch(`http://127.0.0.1:${await promise}/a?q=in-the-query`);
  const body = await response.text();
  await server.shutdown();
  return { response: new Response(body, response), records };
}

const FAILING: readonly [string, OpenedApp["fetch"]][] = [
  ["throws", () => {
    throw new TypeError("Invalid URL: 'http://10.0.0.7'");
  }],
  ["throws what is no error", () => Promise.reject("connect ECONNREFUSED 10.0.0.7")],
  ["returns no response", () => undefined as unknown as Response],
  ["returns Response.error()", () => Response.error()],
  ["returns a response whose body was read", async () => {
    const response = new Response("read");
    await response.text();
    return response;
  }],
];

for (const [what, answer] of FAILING) {
  testWith(
    ["net"],
    `serveApp() answers in the one error shape for an app that ${what}`,
    async () => {
      const { response, records } = await ask(answer);
      const names = ["X-Error-Code", "X-Content-Type-Options", "Cache-Control", "Content-Type"];
      assertEquals(
        [response.status, ...names.map((name) => response.headers.get(name))],
        [500, "INTERNAL", "nosniff", "no-store", "application/json"],
      );
      assertEquals(await response.json(), { error: "Internal Server Error" });
      const [record, ...others] = records;
      assertEquals([record?.message, record?.level, others], ["request failed", "error", []]);
      assertEquals(record?.requestId, response.headers.get("X-Request-Id"));
      assert(record?.error !== undefined);
    },
  );
}

/** A response that the logger does not look into: it looks like `c.json()`. */
const JSON_HEADERS = { "Content-Type": "application/json", "X-Request-Id": "request-1" };

/** Deno 2.5 ends such a connection, and tells nobody. */
function testNow(name: string, fn: () => Promise<void>): void {
  if (ON_DENO_2_5) Deno.test.ignore(`${name} (skipped: Deno 2.5 tells nothing)`, fn);
  else testWith(["net"], name, fn);
}

testNow("serveApp() adds nothing to the head of a response with a reader", async () => {
  const { response, records } = await ask(() => {
    const locked = new Response(new ReadableStream(), { headers: JSON_HEADERS });
    locked.body!.getReader();
    return locked;
  });
  const names = ["X-Request-Id", "Content-Type", "Cache-Control"];
  assertEquals(
    [response.status, ...names.map((name) => response.headers.get(name))],
    [500, "request-1", "application/json", null],
  );
  assertEquals(records.map(({ message, code, requestId }) => [message, code, requestId]), [
    ["response broke off", "INTERNAL", undefined],
  ]);
});

testNow("serveApp() logs that a stream broke off which looked like a text", async () => {
  const cause = new Error("the database is gone");
  const records: LogRecord[] = [];
  const { promise, resolve } = Promise.withResolvers<number>();
  let sent = 0;
  const server = serveApp({
    ...{ name: "own", hostname: "127.0.0.1", port: 0 },
    answer: () => {
      const pull = (controller: ReadableStreamDefaultController<Uint8Array>) =>
        sent++ < 3 ? controller.enqueue(new Uint8Array(10)) : controller.error(cause);
      return new Response(new ReadableStream({ pull }), { headers: JSON_HEADERS });
    },
    log: (record) => records.push(record),
    onListen: ({ port }) => resolve(port),
  });
  const base = `http://127.0.0.1:${await promise}`;
  await assertRejects(async () => await (await fetch(base)).bytes());
  await server.shutdown();
  assertEquals(records.map(({ message, level, error }) => [message, level, error]), [
    ["response broke off", "error", cause],
  ]);
});

testWith(["net"], "serveApp() does not quote a HOST that is no address: it may be a secret", () => {
  const place = { hostname: "s3cr3t-put-into-the-wrong-variable", port: 0 };
  const options = { name: "own", ...place, answer: () => new Response(), log: () => {} };
  const error = assertThrows(() => serveApp({ ...options, onListen: () => {} }), Error);
  assert(error.message.startsWith("HOST:0 (HOST and PORT) cannot be listened on: "), error.message);
  assertEquals(error.message.includes("s3cr3t"), false);
});

testWith(["net"], "serveApp() names the address that cannot be listened on", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const options = { name: "own", hostname: "127.0.0.1", port, answer: () => new Response() };
  let message = "";
  try {
    await serveApp({ ...options, log: () => {}, onListen: () => {} }).shutdown();
  } catch (error) {
    message = (error as Error).message;
  }
  assert(message.includes(`127.0.0.1:${port}`), message);
});
