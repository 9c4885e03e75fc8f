import { assertEquals, assertRejects } from "@std/assert";
import { ApiError, callApi } from "../../core/call_api.ts";
import { testWith } from "../_permissions.ts";

const MEBIBYTE = new Uint8Array(1024 * 1024).fill(0x20);

/** Calls a server that answers in a way, and returns its error. */
async function errorOf(
  answer: (request: Request) => Response | Promise<Response>,
  { timeoutMs = 5_000, maxBytes = 1e9, signal = new AbortController().signal } = {},
): Promise<unknown> {
  const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  await using server = Deno.serve(quiet, answer);
  const url = `http://127.0.0.1:${server.addr.port}/secret-path`;
  return await callApi({ name: "The API", url, timeoutMs, maxBytes, signal }).then(
    () => undefined,
    (error) => error,
  );
}

const isTemporary = (error: unknown) => error instanceof ApiError && error.isTemporary;
const messageOf = (error: unknown) => (error as Error).message;

testWith(["net"], "callApi() takes no more than it is told to", async () => {
  const answer = () => new Response(new Uint8Array(4 * MEBIBYTE.length));
  const error = await errorOf(answer, { maxBytes: 2 ** 21 });
  assertEquals(messageOf(error), "The API answers with more than 2097152 bytes");
  assertEquals(isTemporary(error), false);
});

testWith(["net"], "callApi() waits for a slow answer, but not forever", async () => {
  const never = new ReadableStream({ start: (controller) => controller.enqueue(MEBIBYTE) });
  const error = await errorOf(() => new Response(never), { timeoutMs: 100 });
  assertEquals(messageOf(error), "The API has not answered within 0.1 s");
  assertEquals(isTemporary(error), true);
});

testWith(["net"], "callApi() ends at its signal", async () => {
  const ending = new AbortController();
  const error = await errorOf(() => {
    ending.abort(new RangeError());
    return new Response(new ReadableStream());
  }, { signal: ending.signal });
  assertEquals(error instanceof RangeError, true);
});

testWith(["net"], "callApi() tells an answer that breaks off, and quotes no URL", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const breaking = listener.accept().then(async (connection) => {
    await connection.read(new Uint8Array(1024));
    await connection.write(
      new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
    );
    connection.close();
  });
  const url = `http://127.0.0.1:${listener.addr.port}/secret-path`;
  const { signal } = new AbortController();
  const error = await assertRejects(() => callApi({ name: "The API", url, signal }), ApiError);
  await breaking;
  assertEquals(/^The API cannot be reached: ./.test(error.message), true, error.message);
  assertEquals([error.isTemporary, error.message.includes("secret-path")], [true, false]);
});

/** Answers that are no JSON, and how the error ends. */
const NO_JSON: readonly (readonly [() => Response, string, boolean])[] = [
  [() => new Response(null), "200 with nothing instead of JSON", true],
  [() => new Response("<html>"), "200 with text/plain instead of JSON", true],
  [
    () => new Response(new Uint8Array([0x22, 0xff, 0x22])),
    "200 with nothing instead of JSON",
    true,
  ],
  [() => new Response("[1", { status: 500 }), "500 with text/plain instead of JSON", true],
  [() => new Response("no", { status: 403 }), "403 with text/plain instead of JSON", false],
  [
    () => Response.redirect("https://a.example/?token=1", 307),
    "307, a redirect to a.example",
    false,
  ],
  [() => new Response("", { status: 301 }), "301, a redirect to elsewhere", false],
];

for (const [answer, message, again] of NO_JSON) {
  testWith(["net"], `callApi() refuses ${message}`, async () => {
    const error = await errorOf(answer);
    assertEquals(messageOf(error).startsWith(`The API answers ${message}`), true, messageOf(error));
    assertEquals(isTemporary(error), again);
  });
}
