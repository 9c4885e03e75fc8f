import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertMatch,
  assertRejects,
} from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { type Handler, Hono } from "@hono/hono";
import {
  BrokenBodyError,
  createLogger,
  errorHandler,
  HttpError,
  type LoggerOptions,
  type LogRecord,
} from "../../middleware/mod.ts";
import { testWith } from "../_permissions.ts";
import type { RequestOptions } from "../_request_options.ts";
import { withDeadline } from "../../core/timeouts.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** An app with the logger and one handler, and what it has logged. */
function logged(options: LoggerOptions = {}, handler: Handler = (c) => c.text("hello")) {
  const records: LogRecord[] = [];
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createLogger({ log: (record) => records.push(record), ...options }));
  app.all("/*", handler);
  return { app, records };
}

/** The one record of a request. */
async function recordOf(
  path: string,
  init?: RequestOptions,
  handler?: Handler,
): Promise<LogRecord> {
  const { app, records } = logged({}, handler);
  await app.request(path, init);
  assertEquals(records.filter(({ message }) => message === "request").length, 1);
  return records.at(-1)!;
}

/** The id of a request that brought this one. */
async function idFor(inbound: string): Promise<unknown> {
  return (await recordOf("/", { headers: { "X-Request-Id": inbound } })).requestId;
}

/** A handler that throws this. */
const throwing = (error: unknown): Handler => () => {
  throw error;
};

Deno.test("createLogger() logs id, method, path, status and time of a request", async () => {
  using _time = new FakeTime("2026-01-02T03:04:05.678Z");
  const headers = { "X-Request-Id": "request-1" };
  const { durationMs: _duration, ...record } = await recordOf("/a/b", { method: "BREW", headers });
  assertEquals<unknown>(record, {
    level: "info",
    time: "2026-01-02T03:04:05.678Z",
    message: "request",
    requestId: "request-1",
    method: "BREW",
    path: "/a/b",
    status: 200,
    ip: undefined,
    code: undefined,
  });
});

Deno.test("createLogger() logs how long the response took, to the microsecond", async () => {
  using clock = new MonotonicClock();
  const { durationMs } = await recordOf("/", {}, (c) => {
    clock.advance(20);
    return c.text("hello");
  });
  assertGreaterOrEqual(Number(durationMs), 20);
  assertMatch(String(durationMs), /^\d+(\.\d{1,3})?$/);
});

Deno.test("createLogger() never logs the query string", async () => {
  for (const path of ["/a?token=secret", "/a?", "/a?x=?secret", "/a#secret", "/a?secret#secret"]) {
    const record = await recordOf(path);
    assertEquals(record.path, "/a");
    assert(!JSON.stringify(record).includes("secret"));
  }
});

Deno.test("createLogger() logs no query string of a URL without a path, nor does an error", async () => {
  for (const url of ["http://x?token=a/secret", "http://x?/secret", "http://x#/secret"]) {
    const { app, records } = logged({}, throwing(new Error("failed")));
    // `new Request()` would put a path in.
    await app.fetch(Object.defineProperty(new Request("http://x/"), "url", { value: url }));
    assertEquals(records.map(({ message, path }) => [message, path]), [
      ["request failed", "/"],
      ["request", "/"],
    ]);
  }
});

Deno.test("createLogger() logs no header but the request id", async () => {
  const headers = { Authorization: "Bearer secret", Cookie: "secret", "User-Agent": "secret" };
  const record = await recordOf("/", { headers, method: "POST", body: "secret" });
  assert(!JSON.stringify(record).includes("secret"));
});

Deno.test("createLogger() logs by the status how much a request matters", async () => {
  const levels = { 200: "info", 204: "info", 302: "info", 400: "warn", 499: "warn", 500: "error" };
  for (const [status, level] of Object.entries(levels)) {
    const record = await recordOf("/", {}, () => new Response(null, { status: Number(status) }));
    assertEquals([record.status, record.level], [Number(status), level]);
  }
});

Deno.test("createLogger() logs the code of an error, and of nothing else, whatever its headers say", async () => {
  const codes: [number, string | undefined, string][] = [
    [200, undefined, "info"],
    [301, undefined, "info"],
    [399, undefined, "info"],
    [400, "NOT_READY", "warn"],
    [500, "NOT_READY", "warn"],
    [503, "NOT_READY", "warn"],
  ];
  const headers = { "X-Error-Code": "NOT_READY" };
  for (const [status, code, level] of codes) {
    const record = await recordOf("/", {}, () => new Response(null, { status, headers }));
    assertEquals([record.code, record.level], [code, level]);
  }
  const { status, code } = await recordOf(
    "/",
    {},
    throwing(new HttpError(409, "Deployed", { code: "DEPLOYED" })),
  );
  assertEquals([status, code], [409, "DEPLOYED"]);
});

Deno.test("createLogger() logs 500 for what escapes the app", async () => {
  const { app, records } = logged({}, throwing("no error"));
  assertEquals(await assertRejects(async () => await app.request("/")), "no error");
  assertEquals(records.map(({ status, level }) => [status, level]), [[500, "error"]]);
});

Deno.test("createLogger() gives each request an id of its own", async () => {
  const { app, records } = logged();
  for (let i = 0; i < 3; i++) await app.request("/");
  for (const { requestId } of records) assertMatch(requestId!, UUID);
  assertEquals(new Set(records.map(({ requestId }) => requestId)).size, 3);
});

Deno.test("createLogger() keeps an inbound id that is short and plain, and replaces any other", async () => {
  for (const id of ["1", "request-1", "a_b=c", "A".repeat(128), crypto.randomUUID()]) {
    assertEquals(await idFor(id), id);
  }
  const ids = ["", "A".repeat(129), "a b", "a,b", "a;b", 'a"b', "a<b>", "a/b", "a.b", "a%0ab"];
  for (const id of [...ids, "one, two", "a\tb", "\xe9", "a\x7fb", "a\x1b[31m"]) {
    const given = String(await idFor(id));
    assertMatch(given, UUID);
    assert(given !== id);
  }
});

Deno.test("createLogger() answers with the id that it logs", async () => {
  const handlers: Handler[] = [
    (c) => c.text("hello"),
    (c) => c.notFound(),
    throwing(new Error()),
    () => new Response("own"),
  ];
  for (const handler of handlers) {
    const { app, records } = logged({}, handler);
    const response = await app.request("/");
    assertEquals(response.headers.get("X-Request-Id"), records.at(-1)?.requestId);
  }
});

Deno.test("createLogger() gives handlers the id and the log", async () => {
  const { app, records } = logged({}, (c) => {
    c.get("log")({ level: "info", time: "", message: "own", requestId: c.get("requestId") });
    return c.text("hello");
  });
  await app.request("/");
  assertEquals(records.map(({ message }) => message), ["own", "request"]);
  assertEquals(records[0]?.requestId, records[1]?.requestId);
});

Deno.test("createLogger() leaves out what is to be skipped once the response is ready, and gives it an id", async () => {
  const { app, records } = logged(
    { skip: (c) => c.res.status < 400 },
    (c) => c.text("", c.req.path === "/bad" ? 400 : 200),
  );
  for (const path of ["/good", "/bad"]) {
    assertMatch((await app.request(path)).headers.get("X-Request-Id")!, UUID);
  }
  assertEquals(records.map(({ path }) => path), ["/bad"]);
});

Deno.test("createLogger() logs the client's address", async () => {
  const headers = { "X-Forwarded-For": "198.51.100.7" };
  const env = { remoteAddr: { transport: "tcp", hostname: "192.0.2.1", port: 1 } };
  for (const [hops, ip] of [[0, "192.0.2.1"], [1, "198.51.100.7"]] as const) {
    const { app, records } = logged({ trustedProxyHops: hops });
    await app.request("/", { headers }, env);
    assertEquals(records[0]?.ip, ip);
  }
});

/** Serves an app with this handler, and waits for its second record of a request. */
async function served(
  handler: Handler,
  use: (base: string, port: number) => Promise<void>,
): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  const second = Promise.withResolvers<void>();
  const app = logged({
    log: (record) => {
      if (records.push(record) === 2) second.resolve();
    },
  }, handler).app;
  const quiet = { onListen: () => {}, onError: () => new Response(null, { status: 500 }) };
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", ...quiet }, app.fetch);
  try {
    await use(`http://127.0.0.1:${server.addr.port}`, server.addr.port);
    await withDeadline(second.promise, 30_000);
  } finally {
    await server.shutdown();
  }
  return records;
}

/** Sends a request, and hangs up at a moment. */
async function hangUp(port: number, at: (peer: Deno.Conn) => Promise<unknown>): Promise<void> {
  using peer = await Deno.connect({ hostname: "127.0.0.1", port });
  await peer.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  await at(peer);
}

testWith(["net"], "createLogger() logs a stream that breaks midway, with its error", async () => {
  const cause = new Error("the database is gone");
  const breaking = () => {
    let sent = 0;
    return new Response(
      new ReadableStream({
        pull: (controller) =>
          sent++ < 3 ? controller.enqueue(new Uint8Array(10)) : controller.error(cause),
      }),
    );
  };
  const records = await served(breaking, async (base) => {
    await assertRejects(async () => await (await fetch(`${base}/?token=secret`)).bytes());
  });
  const [request, broken] = records;
  assertEquals([request?.message, request?.status, records.length], ["request", 200, 2]);
  assertEquals([broken?.level, broken?.message], ["error", "response broke off"]);
  assertEquals([broken?.requestId, broken?.status, broken?.path], [request?.requestId, 200, "/"]);
  assertEquals(broken?.error, cause);
});

testWith(["net"], "createLogger() logs that a client left a stream midway", async () => {
  const endless = () =>
    new Response(
      new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) }),
    );
  const [request, gone] = await served(
    endless,
    (_, port) => hangUp(port, (peer) => peer.read(new Uint8Array(10))),
  );
  assertEquals([gone?.level, gone?.message, gone?.status], ["warn", "client gone", 200]);
  assertEquals(gone?.requestId, request?.requestId);
});

testWith(["net"], "createLogger() logs that a client was gone before its answer", async () => {
  const started = Promise.withResolvers<void>();
  const slow: Handler = async (c) => {
    started.resolve();
    // On a busy machine it takes a while until the server sees that the client has gone.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    return c.text("too late");
  };
  const [request, gone] = await served(slow, (_, port) => hangUp(port, () => started.promise));
  assertEquals([gone?.level, gone?.message, gone?.status], ["warn", "client gone", 200]);
  assertEquals(gone?.requestId, request?.requestId);
});

testWith(
  ["net"],
  "createLogger() logs once what is sent to its end, slow or a stream",
  async () => {
    using clock = new MonotonicClock();
    const handlers: Handler[] = [
      (c) => {
        clock.advance(250);
        return c.text("slow", 200, { "X-Own": "kept" });
      },
      () => new Response(new Blob(["slow"]).stream(), { headers: { "X-Own": "kept" } }),
    ];
    for (const handler of handlers) {
      const records = await served(handler, async (base) => {
        for (let i = 0; i < 2; i++) {
          const response = await fetch(base);
          assertEquals([await response.text(), response.headers.get("X-Own")], ["slow", "kept"]);
        }
      });
      assertEquals(records.map(({ message }) => message), ["request", "request"]);
    }
  },
);

Deno.test("createLogger() hands a stream's error on as one that is logged", async () => {
  const cause = new Error("the database is gone");
  const { app } = logged({}, () => {
    return new Response(new ReadableStream({ pull: (controller) => controller.error(cause) }));
  });
  const response = await app.request("/");
  assertEquals((await assertRejects(() => response.text(), BrokenBodyError)).cause, cause);
});

Deno.test("createLogger() hands a watched response on to its end while time is faked", async () => {
  using _time = new FakeTime();
  const { app } = logged(
    {},
    () => new Response(ReadableStream.from(["slow"]).pipeThrough(new TextEncoderStream())),
  );
  assertEquals(await (await app.request("/")).text(), "slow");
});

Deno.test("createLogger() says nothing more of a skipped request that breaks", async () => {
  const { app, records } = logged({ skip: () => true }, () => {
    return new Response(new ReadableStream({ pull: (controller) => controller.error("gone") }));
  });
  await assertRejects(async () => await (await app.request("/")).text());
  assertEquals(records, []);
});
