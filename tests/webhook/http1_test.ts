import { assert, assertEquals } from "@std/assert";
import { forgeDelivery } from "../_deliveries.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { testWith } from "../_permissions.ts";
import { exchange, type Seen, serveForge } from "./_served.ts";

const HOST = "Host: localhost\r\n";

/** A second request, hidden in the first one's body. */
const HIDDEN = `GET /health HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`;

/** The headers of a genuine delivery of `{}`. */
async function signed(): Promise<string> {
  const { headers } = await forgeDelivery("{}", { "X-Forge-Delivery": "d1" });
  return [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
}

/** A request with the headers of a genuine delivery and these; `{}` or what takes its place follows. */
type Framing = readonly [
  what: string,
  framing: string,
  body: string,
  statuses: readonly number[],
  events: number,
];

const CHUNKED = "Transfer-Encoding: chunked\r\n";

const FRAMINGS: readonly Framing[] = [
  // Refused by Deno's parser: what front and back could read in two ways.
  [
    "a length and chunks",
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    `0\r\n\r\n${HIDDEN}`,
    [400],
    0,
  ],
  [
    "chunks and a length",
    `Transfer-Encoding: chunked\r\nContent-Length: 5\r\n`,
    `0\r\n\r\n${HIDDEN}`,
    [400],
    0,
  ],
  [
    "chunks and another coding after",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
    "0\r\n\r\n",
    [400],
    0,
  ],
  ["chunks by another name", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", [400], 0],
  ["a space before the colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n", [400], 0],
  ["a control character before the coding", "Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n", [
    400,
  ], 0],
  ["a folded coding", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", [400], 0],
  ["two lengths", "Content-Length: 2\r\nContent-Length: 3\r\n", "{}x", [400], 0],
  ["a list of lengths", "Content-Length: 2, 2\r\n", "{}", [400], 0],
  ["a length with a sign", "Content-Length: +2\r\n", "{}", [400], 0],
  ["a negative length", "Content-Length: -1\r\n", "{}", [400], 0],
  ["a hexadecimal length", "Content-Length: 0x2\r\n", "{}", [400], 0],
  ["a length of 23 digits", "Content-Length: 99999999999999999999999\r\n", "{}", [400], 0],
  ["an empty length", "Content-Length: \r\n", "{}", [400], 0],
  ["a negative chunk", CHUNKED, "-2\r\n{}\r\n0\r\n\r\n", [], 0],
  ["a chunk with 0x", CHUNKED, "0x2\r\n{}\r\n0\r\n\r\n", [], 0],
  ["a chunk beyond 64 bits", CHUNKED, "10000000000000002\r\n{}\r\n0\r\n\r\n", [], 0],
  ["a line break in a chunk extension", CHUNKED, "2;a\nb\r\n{}\r\n0\r\n\r\n", [], 0],
  // Taken, and read in the one way that there is.
  ["two equal lengths", "Content-Length: 2\r\nContent-Length: 2\r\n", "{}", [200], 1],
  ["a length with leading zeros", "Content-Length: 002\r\n", "{}", [200], 1],
  ["a tab before the coding", "Transfer-Encoding:\tchunked\r\n", "2\r\n{}\r\n0\r\n\r\n", [200], 1],
  ["another coding before chunks", "Transfer-Encoding: x, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", [
    200,
  ], 1],
  ["a chunk extension", CHUNKED, "2;a=b\r\n{}\r\n0\r\n\r\n", [200], 1],
  ["trailers", CHUNKED, "2\r\n{}\r\n0\r\nX-Hub-Signature-256: x\r\n\r\n", [200], 1],
  ["an expectation", "Content-Length: 2\r\nExpect: 100-continue\r\n", "{}", [100, 200], 1],
];

/** Answers of Deno 2.5's parser that differ from the current one's, and the number of events accepted. */
const FRAMINGS_ON_2_5: Readonly<Record<string, readonly [statuses: number[], events: number]>> = {
  // The length is not looked at: an empty body, and nothing of what follows is a request.
  "a length and chunks": [[401], 0],
  "chunks and a length": [[401], 0],
  "a negative chunk": [[400], 0],
  "a chunk with 0x": [[400], 0],
  "a chunk beyond 64 bits": [[400], 0],
  "a line break in a chunk extension": [[400], 0],
};

for (const [what, framing, body, currentStatuses, currentEvents] of FRAMINGS) {
  const own = ON_DENO_2_5 ? FRAMINGS_ON_2_5[what] : undefined;
  const [statuses, events] = own ?? [currentStatuses, currentEvents];
  testWith(
    ["net"],
    `HTTP/1.1: a delivery with ${what} is answered ${statuses.join() || "nothing"}`,
    async () => {
      await using forge = await serveForge({ bodyTimeoutMs: 200 });
      const head = `POST /webhook HTTP/1.1\r\n${HOST}Connection: close\r\n${await signed()}`;
      const seen = await exchange(forge.port, `${head}${framing}\r\n${body}`);
      assertEquals(seen.statuses, statuses);
      assertEquals((await forge.events()).length, events);
      assert(await forge.isHealthy());
    },
  );
}

const get = (headers = "", target = "/health") =>
  `GET ${target} HTTP/1.1\r\n${HOST}${headers}Connection: close\r\n\r\n`;

const headers = (count: number) =>
  Array.from({ length: count }, (_, i) => `X-${i}: a\r\n`).join("");

const HEADS: readonly (readonly [what: string, sent: string, statuses: readonly number[]])[] = [
  ["no host", "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", [400]],
  ["no host, in HTTP/1.0", "GET /health HTTP/1.0\r\nConnection: close\r\n\r\n", [400]],
  // Nothing tells it from one over HTTP/2 for the address that Deno makes up.
  ["no host, and nothing else of HTTP/1", "GET /health HTTP/1.0\r\n\r\n", [200]],
  ["an empty host", "GET /health HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", [400]],
  ["two hosts", get(HOST), [400]],
  ["a host in the target and another beside it", get("", "http://example.com/health"), [200]],
  ["a user in the target", get("", "http://user@example.com/health"), [200]],
  ["another scheme in the target", get("", "file:///health"), [404]],
  ["a target without a slash", get("", "health"), [400]],
  ["a target with a space", get("", "/health x"), [400]],
  ["a target with a NUL", get("", "/health\0"), [400]],
  ["a target with a control character", get("", "/health\x01"), [400]],
  ["a target that is not UTF-8", get("", "/health\xff"), [400]],
  ["a target of 65 KiB", get("", `/${"x".repeat(66_560)}`), [400]],
  ["a bare carriage return in a value", get("X: a\rb\r\n"), [400]],
  ["a NUL in a value", get("X: a\0b\r\n"), [400]],
  ["a DEL in a value", get("X: a\x7fb\r\n"), [400]],
  ["an escape character in a value", get("X: a\x1b[31mb\r\n"), [400]],
  ["a byte beyond ASCII in a value", get("X: a\xffb\r\n"), [200]],
  ["a folded value", get("X: a\r\n b\r\n"), [400]],
  ["a space in a name", get("X y: a\r\n"), [400]],
  ["an empty name", get(": a\r\n"), [400]],
  ["a line without a colon", get("X\r\n"), [400]],
  ["bare line feeds", get().replaceAll("\r\n", "\n"), [200]],
  ["bare carriage returns", get().replaceAll("\r\n", "\r"), [400]],
  ["HTTP/1.2", get().replace("1.1", "1.2"), [400]],
  ["HTTP/0.9", "GET /health\r\n", [400]],
  ["a method in small letters", get().replace("GET", "get"), [405]],
  ["a method of 70 letters", get().replace("GET", "A".repeat(70)), [405]],
  ["a connection to be switched to WebSocket", get("Upgrade: websocket\r\n"), [200]],
  ["128 headers", get(headers(126)), [200]],
  ["129 headers", get(headers(127)), [400]],
  ["a head of 60 KiB", get(`X: ${"x".repeat(60_000)}\r\n`), [200]],
  ["a head of 66 KiB", get(`X: ${"x".repeat(67_000)}\r\n`), [400]],
  ["a head of 600 KiB", get(`X: ${"x".repeat(600_000)}\r\n`), [400]],
  ["a TLS handshake", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]],
  ["another protocol", "SSH-2.0-x\r\n", [400]],
  ["two requests at once", get().replace("Connection: close\r\n", "") + get(), [200, 200]],
];

/** Answers of Deno 2.5's parser that differ from the current one's. */
const HEADS_ON_2_5: Readonly<Record<string, readonly number[]>> = {
  "another scheme in the target": [400],
  "a target of 65 KiB": [414],
  "128 headers": [431],
  "129 headers": [431],
  "a head of 66 KiB": [200],
  "a head of 600 KiB": [431],
};

for (const [what, sent, currentStatuses] of HEADS) {
  const statuses = (ON_DENO_2_5 ? HEADS_ON_2_5[what] : undefined) ?? currentStatuses;
  testWith(
    ["net"],
    `HTTP/1.1: a request with ${what} is answered ${statuses.join() || "nothing"}`,
    async () => {
      await using forge = await serveForge();
      const seen: Seen = await exchange(forge.port, sent);
      assertEquals(seen.statuses, statuses);
      assert(await forge.isHealthy());
    },
  );
}

for (const host of ["a%20b", "256.256.256.256", "1.2.3.4.5", "a:99999", "xn--"]) {
  testWith(["net"], `HTTP/1.1: a delivery for the host ${host} is answered 400`, async () => {
    await using forge = await serveForge();
    const head = `POST /webhook?token=%20 HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n`;
    const sent = `${head}${await signed()}Content-Length: 2\r\n\r\n{}`;
    assertEquals((await exchange(forge.port, sent)).statuses, [400]);
    assertEquals(forge.records.map(({ code, path }) => [code, path]), [[
      "INVALID_HOST",
      "/webhook",
    ]]);
    assert(!JSON.stringify(forge.records).includes("token"));
  });
}

testWith(["net"], "HTTP/1.1: no path is taken out of a query string", async () => {
  await using forge = await serveForge();
  const body = `Connection: close\r\n${await signed()}Content-Length: 2\r\n\r\n{}`;
  const targets = ["http://x?/webhook", "http://x?token=a/webhook", "http://256.1.1.1?q=/webhook"];
  for (const target of targets) {
    const sent = `POST ${target} HTTP/1.1\r\nHost: x\r\n${body}`;
    // Deno 2.5 adds the path that is missing; it can be no more of the host that is not one.
    const expected = ON_DENO_2_5 && !target.includes("256") ? 404 : 400;
    assertEquals((await exchange(forge.port, sent)).statuses, [expected], target);
  }
  assertEquals(await forge.events(), []);
  assertEquals(forge.records.map(({ path }) => path), ["/", "/", "/"]);
});

const HALF = `POST /webhook HTTP/1.1\r\n${HOST}X-Hub-Signature-256: sha2`;

testWith(
  ["net"],
  "HTTP/1.1: 300 heads that stop halfway keep nobody from being answered",
  async () => {
    await using forge = await serveForge();
    const peers: Deno.TcpConn[] = [];
    for (let i = 0; i < 300; i++) {
      const peer = await Deno.connect({ hostname: "127.0.0.1", port: forge.port });
      await peer.write(new TextEncoder().encode(HALF));
      peers.push(peer);
    }
    assert(await forge.isHealthy());
    const whole = `POST /webhook HTTP/1.1\r\n${HOST}Connection: close\r\nContent-Length: 2\r\n`;
    const { statuses } = await exchange(forge.port, `${whole}${await signed()}\r\n{}`);
    assertEquals([statuses, await forge.events()], [[200], ["d1"]]);
    for (const peer of peers) peer.close();
  },
);

// Deno has no deadline for a head, and leaves the connection of a late body open: see docs/limits.md. A test that fails here tells that Deno has them now.
testWith(["net"], "HTTP/1.1: Deno waits for a head that stops halfway", async () => {
  await using forge = await serveForge();
  assertEquals(await exchange(forge.port, HALF, 300), { statuses: [], ended: "open" });
});

testWith(
  ["net"],
  "HTTP/1.1: Deno leaves the connection of a body open that came too late",
  async () => {
    await using forge = await serveForge({ bodyTimeoutMs: 50 });
    const late = `POST /webhook HTTP/1.1\r\n${HOST}Content-Length: 9\r\n${await signed()}\r\n{`;
    assertEquals(await exchange(forge.port, late, 300), { statuses: [408], ended: "open" });
  },
);
