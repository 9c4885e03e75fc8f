import { assert, assertEquals, assertLessOrEqual, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { HttpError } from "../../middleware/mod.ts";

import { checkDeclaredBody, readBody } from "../../webhook/read_body.ts";
import { forgeDelivery } from "../_deliveries.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import { testWith } from "../_permissions.ts";
import { exchange, serveForge } from "./_served.ts";

const encoder = new TextEncoder();

const post = (body: BodyInit, headers: HeadersInit = {}) =>
  new Request("http://localhost/", { method: "POST", body, headers });

/** A body that is made as it is read, one chunk at a time. */
function made(next: (index: number) => Uint8Array | null) {
  const state = { pulled: 0, cancelled: false };
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = next(state.pulled++);
      if (chunk) controller.enqueue(chunk);
      else controller.close();
    },
    cancel: () => void (state.cancelled = true),
  }, { highWaterMark: 0 });
  return { body, state };
}

const read = (body: BodyInit, maxBytes = 1024, headers: HeadersInit = {}) =>
  readBody(post(body, headers), { maxBytes });

Deno.test("readBody() returns the bytes as they were sent", async () => {
  const bytes = Uint8Array.of(0xef, 0xbb, 0xbf, 0xff, 0x00, 0x0d, 0x0a, 0x80);
  assertEquals(await read(bytes), bytes);
});

Deno.test("readBody() joins chunks in their order", async () => {
  const { body } = made((index) => index < 5 ? Uint8Array.of(index, index) : null);
  assertEquals(await read(body), Uint8Array.of(0, 0, 1, 1, 2, 2, 3, 3, 4, 4));
});

Deno.test("readBody() holds no more than what has come, though chunks are parts of 64 KiB", async () => {
  for (const count of [1, 3, 1_000]) {
    const chunk = () => new Uint8Array(65_536).subarray(0, 100).fill(7);
    const { body } = made((index) => index < count ? chunk() : null);
    const bytes = await read(body, 200_000);
    assertEquals(bytes, new Uint8Array(count * 100).fill(7));
    assertEquals(bytes.buffer.byteLength, count * 100);
  }
});

Deno.test("readBody() waits for each part with a buffer of twice what has come, and no more than 64 KiB", async () => {
  const sizes: number[] = [];
  const body = new ReadableStream({
    type: "bytes",
    pull(controller) {
      const { byobRequest } = controller;
      const size = byobRequest!.view!.byteLength;
      sizes.push(size);
      if (sizes.length === 9) controller.close();
      byobRequest!.respond(sizes.length === 9 ? 0 : sizes.length < 4 ? 1_000 : size);
    },
  });
  assertEquals(
    (await read(body, 300_000)).byteLength,
    sizes.slice(3, 8).reduce((a, b) => a + b, 3_000),
  );
  assertEquals(sizes, [4_096, 4_096, 4_096, 6_000, 18_000, 54_000, 65_536, 65_536, 65_536]);
});

Deno.test("readBody() returns no bytes without a body", async () => {
  const request = new Request("http://localhost/", { method: "POST" });
  assertEquals(await readBody(request, { maxBytes: 1 }), new Uint8Array());
  assertEquals(await read(""), new Uint8Array());
});

Deno.test("readBody() takes a body of the limit", async () => {
  assertEquals((await read(new Uint8Array(100), 100)).byteLength, 100);
});

Deno.test("readBody() rejects with 413 for a byte more", async () => {
  const error = await assertRejects(() => read(new Uint8Array(101), 100), HttpError);
  const { status, code, message } = error;
  assertEquals([status, code, message], [413, "BODY_TOO_LARGE", "Body larger than 100 bytes"]);
});

Deno.test("readBody() goes by what arrives and not by what is declared", async () => {
  const headers = { "Content-Length": "1" };
  await assertRejects(() => read(new Uint8Array(101), 100, headers), HttpError, "larger");
});

Deno.test("readBody() stops an endless body at the limit, and cancels it", async () => {
  const { body, state } = made(() => new Uint8Array(1000));
  await assertRejects(() => read(body, 10_000), HttpError, "larger");
  assertLessOrEqual(state.pulled, 11);
  assert(state.cancelled);
});

Deno.test("readBody() gives up a body of many pieces of a byte, and leaves the rest unread", async () => {
  const { body, state } = made(() => new Uint8Array(1));
  const { status, code, message } = await assertRejects(() => read(body, 10_000), HttpError);
  assertEquals([status, code], [408, "BODY_TIMEOUT"]);
  assertEquals(message, "Body comes in too small pieces");
  assertEquals(state, { pulled: 1_025, cancelled: false });
});

Deno.test("readBody() reads a body of many pieces that are as large as a slow network's", async () => {
  const { body } = made((index) => index < 5_000 ? new Uint8Array(256) : null);
  assertEquals((await read(body, 2_000_000)).byteLength, 5_000 * 256);
});

Deno.test("readBody() rejects with 400 for a body that ends early", async () => {
  const { body } = made((index) => {
    if (index === 1) throw new Error("connection reset by 192.0.2.1");
    return new Uint8Array(1);
  });
  const { status, code, message } = await assertRejects(() => read(body), HttpError);
  assertEquals([status, code, message], [400, "INVALID_BODY", "Body ended early"]);
});

/** Starts reading with fake time; tells how it ended so far. */
function readWith(body: ReadableStream<Uint8Array>, timeoutMs?: number) {
  const outcome: { error?: HttpError } = {};
  const options = timeoutMs === undefined ? { maxBytes: 100 } : { maxBytes: 100, timeoutMs };
  readBody(post(body), options).catch((error) => outcome.error = error);
  return outcome;
}

/** Moves time on, and lets what the timers have called come to its end. */
async function pass(time: FakeTime, ms: number): Promise<void> {
  await time.tickAsync(ms);
  await time.tickAsync();
}

Deno.test("readBody() rejects with 408 after 10 s, and cancels the body", async () => {
  using _clock = new MonotonicClock();
  using time = new FakeTime();
  let cancelled = false;
  const outcome = readWith(new ReadableStream({ cancel: () => void (cancelled = true) }));
  await pass(time, 9_999);
  assertEquals(outcome.error, undefined);
  await pass(time, 1);
  assertEquals([outcome.error?.status, outcome.error?.code], [408, "BODY_TIMEOUT"]);
  assertEquals(outcome.error?.message, "Body not received in time");
  assert(cancelled);
});

Deno.test("readBody() rejects with 408 at the given deadline", async () => {
  using _clock = new MonotonicClock();
  using time = new FakeTime();
  const outcome = readWith(new ReadableStream(), 50);
  await pass(time, 49);
  assertEquals(outcome.error, undefined);
  await pass(time, 1);
  assertEquals(outcome.error?.status, 408);
});

Deno.test("readBody() is not put off by a byte a second", async () => {
  using _clock = new MonotonicClock();
  using time = new FakeTime();
  let timer: ReturnType<typeof setInterval>;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      timer = setInterval(() => controller.enqueue(new Uint8Array(1)), 1_000);
    },
    cancel: () => clearInterval(timer),
  });
  const outcome = readWith(body);
  for (let second = 0; second < 10; second++) await pass(time, 1_000);
  assertEquals(outcome.error?.status, 408);
});

const check = (headers: HeadersInit) => checkDeclaredBody(new Headers(headers), 100);

Deno.test("checkDeclaredBody() lets pass what is within the limit, or not declared", () => {
  check({});
  check({ "Content-Length": "0" });
  check({ "Content-Length": "100" });
});

for (const length of ["101", "1e3", "99999999999999999999", "0x65", "Infinity"]) {
  Deno.test(`checkDeclaredBody() answers 413 to a declared length of ${length}`, () => {
    const error = assertThrows(() => check({ "Content-Length": length }), HttpError);
    assertEquals([error.status, error.code], [413, "BODY_TOO_LARGE"]);
    assertEquals(error.message, "Body larger than 100 bytes");
  });
}

Deno.test("checkDeclaredBody() takes the same length several times for that length", () => {
  for (const length of ["5, 5", "100,100", "5, 5, 5"]) check({ "Content-Length": length });
  const larger = () => check({ "Content-Length": "101, 101" });
  assertEquals(assertThrows(larger, HttpError).code, "BODY_TOO_LARGE");
});

for (
  const length of ["5, 6", "5, 5, 6", "5 5", "x", "x, x", "-1", "-Infinity", "NaN", "5,", "0x"]
) {
  Deno.test(`checkDeclaredBody() answers 400 to a declared length of ${length}`, () => {
    const error = assertThrows(() => check({ "Content-Length": length }), HttpError);
    assertEquals([error.status, error.code], [400, "INVALID_BODY"]);
    assertEquals(error.message, "Content-Length must be one number of bytes");
  });
}

const ENCODINGS = ["gzip", "GZIP", "br", "deflate", "zstd", "x-gzip", "gzip, identity", "unknown"];

for (const encoding of ENCODINGS) {
  Deno.test(`checkDeclaredBody() answers 415 to the content encoding ${encoding}`, () => {
    const error = assertThrows(() => check({ "Content-Encoding": encoding }), HttpError);
    assertEquals([error.status, error.code], [415, "UNSUPPORTED_MEDIA_TYPE"]);
    assertEquals(error.message, "Unsupported content encoding");
  });
}

Deno.test("checkDeclaredBody() lets the content encoding identity pass", () => {
  check({ "Content-Encoding": "identity" });
  check({ "Content-Encoding": " Identity " });
});

/** The head of a genuine delivery, which declares a body of so many bytes. */
async function head(length: number | null, body = "{}"): Promise<string> {
  const { headers } = await forgeDelivery(body);
  const framing = length === null ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`;
  const lines = [...headers].map(([name, value]) => `${name}: ${value}`);
  return ["POST /webhook HTTP/1.1", "Host: localhost", framing, ...lines, "", ""].join("\r\n");
}

async function connect(port: number, sent: string): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(encoder.encode(sent));
  return connection;
}

/** Reads one response up to the end of its body, a JSON object that holds no other. */
async function receive(connection: Deno.TcpConn): Promise<string> {
  const [decoder, buffer] = [new TextDecoder(), new Uint8Array(4096)];
  let received = "";
  while (true) {
    // What follows, such as the end of a chunked body, may come with it or later.
    const [response] = received.match(/^[^]*?\r\n\r\n[^]*?\}/) ?? [];
    if (response !== undefined) return response;
    const count = await connection.read(buffer);
    if (count === null) return received;
    received += decoder.decode(buffer.subarray(0, count), { stream: true });
  }
}

testWith(["net"], "forge() answers 408 to a body of one byte at a time", async () => {
  await using server = await serveForge({ bodyTimeoutMs: 150 });
  using connection = await connect(server.port, await head(10_000));
  const timer = setInterval(() => connection.write(encoder.encode(" ")).catch(() => {}), 5);
  const response = await receive(connection);
  clearInterval(timer);
  assert(response.startsWith("HTTP/1.1 408 "), response);
  assert(response.toLowerCase().includes("x-error-code: body_timeout"), response);
  assert(response.endsWith('{"error":"Body not received in time"}'), response);
  assertEquals(await server.events(), []);
});

testWith(
  ["net"],
  "forge() answers 408 to a chunked body that does not end",
  async () => {
    await using server = await serveForge({ bodyTimeoutMs: 50 });
    using connection = await connect(server.port, `${await head(null)}2\r\n{}\r\n`);
    assert((await receive(connection)).startsWith("HTTP/1.1 408 "));
    assertEquals(await server.events(), []);
  },
);

testWith(["net"], "forge() takes a slow body that is in time", async () => {
  await using server = await serveForge();
  using connection = await connect(server.port, await head(2));
  for (const byte of "{}") await connection.write(encoder.encode(byte));
  await server.seen(1);
  assertEquals(server.records[0]?.["status"], 200);
});

testWith(["net"], "the health routes answer while 50 bodies stand still", async () => {
  await using server = await serveForge({ bodyTimeoutMs: 60_000 });
  const start = await head(10);
  const all = await Promise.all(Array.from({ length: 50 }, () => connect(server.port, start)));
  assert(await server.isHealthy());
  for (const connection of all) connection.close();
  await server.seen(50);
});

testWith(
  ["net"],
  "a client gone in mid-body leaves no error and no event, and others are served",
  async () => {
    await using server = await serveForge();
    const start = await head(10);
    for (let i = 0; i < 100; i++) (await connect(server.port, `${start}{}`)).close();
    await server.seen(100);
    assertEquals(await exchange(server.port, `${await head(2)}{}`), {
      statuses: [200],
      ended: "open",
    });
    assertEquals(server.records.filter(({ level }) => level === "error"), []);
    assertEquals(server.records.filter(({ error }) => error !== undefined), []);
    assertEquals((await server.events()).length, 1);
  },
);

testWith(
  ["net"],
  "forge() answers 413 to a declared length without reading",
  async () => {
    await using server = await serveForge({ maxBodyBytes: 100 });
    using connection = await connect(server.port, await head(101));
    assert((await receive(connection)).startsWith("HTTP/1.1 413 "));
  },
);

testWith(["net"], "forge() answers 413 to a chunked body at the limit", async () => {
  await using server = await serveForge({ maxBodyBytes: 100 });
  using connection = await connect(server.port, `${await head(null)}65\r\n${"x".repeat(101)}\r\n`);
  assert((await receive(connection)).startsWith("HTTP/1.1 413 "));
});
