import { assert, assertEquals } from "@std/assert";
import type { AppHandler, LogRecord } from "../mod.ts";
import { serveApp } from "../serve_app.ts";
import { testWith } from "./_permissions.ts";

/** Serves what answers, and asks it once. */
async function ask(answer: AppHandler): Promise<{ response: Response; records: LogRecord[] }> {
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

const FAILING: readonly [string, AppHandler][] = [
  ["throws", () => {
    throw new TypeError("Invalid URL: 'http://10.0.0.7'");
  }],
  ["throws what is no error", () => Promise.reject("connect ECONNREFUSED 10.0.0.7")],
  ["returns no response", () => undefined as unknown as Response],
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
