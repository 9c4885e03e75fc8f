import { assert, assertEquals } from "@std/assert";
import { forgeDelivery } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import {
  type Answer,
  block,
  bytes,
  exchange2,
  type Field,
  frame,
  request,
  resets2,
} from "./_http2.ts";
import { serveForge } from "./_served.ts";

const pseudo = (changes: Readonly<Record<string, string>> = {}): Field[] =>
  Object.entries({
    ":method": "GET",
    ":scheme": "http",
    ":authority": "localhost",
    ":path": "/health",
    ...changes,
  });

const GET = pseudo();

/** A genuine delivery of `{}`, with further fields. */
async function delivery(...fields: Field[]): Promise<Field[]> {
  const { headers } = await forgeDelivery("{}", { "X-Forge-Delivery": "d1" });
  return [...pseudo({ ":method": "POST", ":path": "/webhook" }), ...headers, ...fields];
}

testWith(["net"], "HTTP/2: a delivery is taken", async () => {
  await using forge = await serveForge();
  assertEquals(await exchange2(forge.port, request(1, await delivery(), "{}"), 1), [200]);
  assertEquals(await forge.events(), ["d1"]);
});

testWith(["net"], "HTTP/2: a delivery that is not signed is refused", async () => {
  await using forge = await serveForge();
  const unsigned = (await delivery()).filter(([name]) => name !== "x-hub-signature-256");
  assertEquals(await exchange2(forge.port, request(1, unsigned, "{}"), 1), [401]);
  assertEquals(await forge.events(), []);
});

const HOSTS = [
  ...[
    "localhost:$PORT",
    "LocalHost:$PORT",
    "127.0.0.1:$PORT",
    "[::1]:$PORT",
    "[::1]",
    "[2001:DB8::A]",
  ],
  ...["example.com", "EXAMPLE.com:8443", "example.com:", "a_b.example.", "xn--bcher-kva.example"],
];

for (const host of HOSTS) {
  testWith(["net"], `HTTP/2: the authority ${host} is one, with no host beside it`, async () => {
    await using forge = await serveForge();
    const authority = { ":authority": host.replace("$PORT", String(forge.port)) };
    assertEquals(await exchange2(forge.port, request(1, pseudo(authority)), 1), [200]);
  });
}

for (const host of ["256.256.256.256", "1.2.3.4.5", "a:99999", "xn--", "[1:2]"]) {
  testWith(["net"], `HTTP/2: the authority ${host}, which no URL can have, is none`, async () => {
    await using forge = await serveForge();
    const fields = pseudo({ ":authority": host, ":path": "/health?token=%20" });
    assertEquals(await exchange2(forge.port, request(1, fields), 1), [400]);
    assertEquals(forge.records.map(({ code, path }) => [code, path]), [[
      "INVALID_HOST",
      "/health",
    ]]);
  });
}

for (
  const name of ["connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"]
) {
  testWith(["net"], `HTTP/2: a request with the field ${name} is reset`, async () => {
    await using forge = await serveForge();
    const fields: Field[] = [...GET, [name, "x"]];
    assertEquals(await exchange2(forge.port, request(1, fields), 1), ["reset"]);
  });
}

const without = (name: string) => GET.filter(([each]) => each !== name);
const flood = (count: number, each: (index: number) => number[]) =>
  Array.from({ length: count }, (_, index) => each(index)).flat();

const HEADS: readonly (readonly [what: string, fields: readonly Field[], answer: Answer])[] = [
  ["an authority that names another path", pseudo({ ":authority": "x/webhook?" }), "reset"],
  ["an authority with a user", pseudo({ ":authority": "user@localhost" }), 400],
  ["a host that names another path", [...GET, ["host", "x/webhook?"]], 400],
  ["a host beside the authority", [...GET, ["host", "example.com"]], 200],
  // Deno makes up the address that it listens at, and nothing tells it from an authority.
  ["no authority and no host", without(":authority"), 200],
  ["no path", without(":path"), "reset"],
  ["an empty path", pseudo({ ":path": "" }), "reset"],
  ["a path without a slash", pseudo({ ":path": "health" }), 200], // The parser puts it in.
  ["a star for its path", pseudo({ ":path": "*" }), 400],
  ["a URL for its path", pseudo({ ":path": "http://localhost/health" }), 404],
  ["a backslash in its path", pseudo({ ":path": "\\\\health" }), 404],
  ["another scheme", pseudo({ ":scheme": "javascript" }), 200],
  ["a path with a space", pseudo({ ":path": "/health x" }), "reset"],
  ["no method", without(":method"), "reset"],
  ["a method with a space", pseudo({ ":method": "GET /x" }), "goaway"],
  ["no scheme", without(":scheme"), "reset"],
  ["two paths", [...GET, [":path", "/webhook"]], "reset"],
  ["an unknown pseudo field", [...GET, [":x", "y"]], "goaway"],
  ["a pseudo field after others", [["x", "y"], ...GET], "reset"],
  ["a name in capitals", [...GET, ["X", "y"]], "goaway"],
  ["a name with a line break", [...GET, ["x\r\ny", "z"]], "goaway"],
  ["a value with a line break", [...GET, ["x", "y\r\nz: a"]], "goaway"],
  ["a value with a NUL", [...GET, ["x", "y\0"]], "goaway"],
  ["an HTTP/1 coding", [...GET, ["transfer-encoding", "chunked"]], "reset"],
  ["an HTTP/1 connection", [...GET, ["connection", "close"]], "reset"],
  ["129 fields", [...GET, ...Array.from({ length: 125 }, (_, i): Field => [`x-${i}`, "a"])], 200],
  ["fields of 15 KiB", [...GET, ["x", "y".repeat(15_000)]], 200],
];

for (const [what, fields, answer] of HEADS) {
  testWith(["net"], `HTTP/2: a request with ${what} is answered ${answer}`, async () => {
    await using forge = await serveForge();
    assertEquals(await exchange2(forge.port, request(1, fields), 1), [answer]);
    assert(await forge.isHealthy());
  });
}

testWith(["net"], "HTTP/2: a body that is not as long as declared makes no event", async () => {
  for (const length of ["1", "3", "x"]) {
    await using forge = await serveForge({ bodyTimeoutMs: 200 });
    const fields = await delivery(["content-length", length]);
    const [answer] = await exchange2(forge.port, request(1, fields, "{}"), 1);
    assert(answer === "reset" || answer === 400 || answer === 413, String(answer));
    assertEquals(await forge.events(), []);
  }
});

/** A delivery of which one byte comes. */
const unfinished = (stream: number, fields: readonly Field[]) => [
  ...frame("headers", 4, stream, block(fields)),
  ...frame("data", 0, stream, bytes("{")),
];

const UNFINISHED = [["of a declared length", [["content-length", "2"]]], [
  "of any length",
  [],
]] as const;

for (const [what, fields] of UNFINISHED) {
  testWith(
    ["net"],
    `HTTP/2: a body ${what} that does not come is answered 408, and its stream reset`,
    async () => {
      await using forge = await serveForge({ bodyTimeoutMs: 50 });
      const head = await delivery(...fields as readonly Field[]);
      const sent = [1, 3, 5].flatMap((stream) => unfinished(stream, head));
      const body = '{"error":"Body not received in time"}';
      assertEquals(await resets2(forge.port, sent, 3), [body, body, body]);
      assert(await forge.isHealthy());
    },
  );
}

testWith(
  ["net"],
  "HTTP/2: a body that is evicted is answered 503, and its stream reset",
  async () => {
    await using forge = await serveForge({ maxBodyBytes: 1_000, maxTotalBodyBytes: 1_000 });
    const head = await delivery();
    const sent = Array.from({ length: 67 }, (_, i) => unfinished(2 * i + 1, head)).flat();
    const body = '{"error":"Service Unavailable"}';
    assertEquals(await resets2(forge.port, sent, 3), [body, body, body]);
    assert(await forge.isHealthy());
  },
);

const huge = block([...GET, ["x", "y".repeat(16_000)]]);

const FLOODS: readonly (readonly [what: string, frames: number[], streams: number])[] = [
  [
    "200 requests that are reset at once",
    flood(200, (i) => [...request(2 * i + 1, GET), ...frame("reset", 0, 2 * i + 1, [0, 0, 0, 8])]),
    200,
  ],
  ["10,000 settings", flood(10_000, () => frame("settings", 0, 0)), 1],
  ["10,000 pings", flood(10_000, () => frame("ping", 0, 0, bytes("12345678"))), 1],
  ["10,000 empty frames of data", [
    ...frame("headers", 4, 1, block(pseudo({ ":method": "POST" }))),
    ...flood(10_000, () => frame("data", 0, 1)),
  ], 1],
  ["a head that never ends", [
    ...frame("headers", 0, 1, huge),
    ...flood(40, () => frame("more", 0, 1, huge)),
  ], 1],
  [
    "a window that overflows",
    [...request(1, GET), ...frame("window", 0, 0, [0x7f, 255, 255, 255])],
    1,
  ],
  ["a frame that is larger than agreed", frame("data", 0, 1, Array(20_000).fill(0)), 1],
  ["data on a stream that is not open", frame("data", 1, 5, bytes("{}")), 1],
  ["a stream of the server's", request(2, GET), 1],
  ["unknown frames", flood(1_000, () => frame(0xfa, 255, 0, bytes("?"))), 1],
  ["a head in broken HPACK", frame("headers", 5, 1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), 1],
];

for (const [what, frames, streams] of FLOODS) {
  testWith(["net"], `HTTP/2: ${what} leave the app answering others`, async () => {
    await using forge = await serveForge({ bodyTimeoutMs: 200 });
    const answers = await exchange2(forge.port, frames, streams);
    for (const answer of answers) {
      assert(
        typeof answer === "string" || [200, 400, 404, 405, 431].includes(answer),
        String(answer),
      );
    }
    assert(await forge.isHealthy());
    assertEquals(await forge.events(), []);
  });
}
