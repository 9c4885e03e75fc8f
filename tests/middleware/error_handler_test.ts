import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { type Context, Hono } from "@hono/hono";
import { HTTPException } from "@hono/hono/http-exception";
import {
  catchNonErrors,
  createLogger,
  errorHandler,
  HttpError,
  type LogRecord,
  methodNotAllowedHandler,
  notFoundHandler,
} from "../../middleware/mod.ts";

/** Texts that no response may show. */
const CAUSE = "connect ECONNREFUSED 10.0.0.7 at /srv/app/store.ts:7 (v2.9.6)";

const NON_ERRORS = ["text", "", null, undefined, 0, 42n, false, Symbol("s"), {}, [], () => {}];

/** An app whose handler does this, and what it has logged of failures. */
function failing(handler: (c: Context) => unknown) {
  const records: LogRecord[] = [];
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createLogger({ log: (record) => records.push(record), skip: () => true }));
  app.use(catchNonErrors());
  app.get("/", async (c) => await handler(c) as Response);
  return { app, records };
}

/** The response to, and the log of, a handler that throws this. */
async function answerTo(error: unknown) {
  const { app, records } = failing(() => {
    throw error;
  });
  const response = await app.request("/?token=secret", {
    headers: { "X-Request-Id": "request-1" },
  });
  return { response, records };
}

/** Status, code and body of the answer. */
async function shapeOf(response: Response): Promise<[number, string | null, unknown]> {
  return [response.status, response.headers.get("X-Error-Code"), await response.json()];
}

/** An app whose middleware fails once the response is ready. */
function failLate(): Hono {
  const app = new Hono().onError(errorHandler).notFound(notFoundHandler);
  app.use(createLogger({ log: () => {}, skip: () => true }));
  app.use(async (_c, next) => {
    await next();
    throw new Error(CAUSE);
  });
  const headers = { "Content-Length": "5", ETag: '"1"', "Access-Control-Allow-Origin": "*" };
  return app.get("/", (c) => c.text("hello", 200, headers));
}

const INTERNAL = [500, "INTERNAL", { error: "Internal Server Error" }] as [number, string, unknown];

const exception = (status: number, init: ResponseInit & { body?: BodyInit } = {}, message = "") =>
  new HTTPException(status as 400, {
    message,
    cause: CAUSE,
    res: new Response(init.body ?? CAUSE, { ...init, status }),
  });

/** Makes an error that looks like an exception, but cannot be rendered. */
const unrenderable = (status: number, getResponse: () => Response) =>
  Object.assign(new Error(CAUSE), { status, getResponse });

const shared = exception(403, { body: "own" });

/** Errors of 500, of which nothing is shown. */
const HIDDEN: readonly Error[] = [
  new Error(CAUSE),
  new TypeError(CAUSE, { cause: new Error(CAUSE) }),
  new AggregateError([new Error(CAUSE), CAUSE], CAUSE),
  new DOMException(CAUSE, "AbortError"),
  new Deno.errors.NotFound(CAUSE),
  Object.assign(new Error(CAUSE), { status: 404, code: CAUSE, headers: { "X-Cause": CAUSE } }),
  unrenderable(403, () => {
    throw new Error(CAUSE);
  }),
  unrenderable(99, () => new Response(CAUSE)),
  new HTTPException(204 as 400, { res: new Response(CAUSE) }),
  new HttpError(409, "Deployed", { code: "DEPLOYED", headers: { "Bad Header": CAUSE } }),
];

/** Errors, and what they are answered with. */
const ANSWERS: readonly (readonly [unknown, number, string, string])[] = [
  ...HIDDEN.map((error) => [error, 500, "INTERNAL", "Internal Server Error"] as const),
  [new HttpError(409, "Deployed", { code: "DEPLOYED", cause: CAUSE }), 409, "DEPLOYED", "Deployed"],
  // An HTTPException is answered with its message,
  ...([
    [400, "BAD_REQUEST"],
    [401, "UNAUTHORIZED"],
    [403, "FORBIDDEN"],
    [409, "CONFLICT"],
    [413, "BODY_TOO_LARGE"],
    [429, "RATE_LIMITED"],
    [418, "BAD_REQUEST"],
  ] as const).map(([status, code]) =>
    [new HTTPException(status, { message: "No way" }), status, code, "No way"] as const
  ),
  // with a default one,
  [new HTTPException(400), 400, "BAD_REQUEST", "Bad Request"],
  [new HTTPException(404), 404, "NOT_FOUND", "Not Found"],
  [new HTTPException(418), 418, "BAD_REQUEST", "Bad Request"],
  // or, from 500 on, with that alone.
  [new HTTPException(500, { message: CAUSE }), 500, "INTERNAL", "Internal Server Error"],
  [new HTTPException(503, { message: CAUSE }), 503, "UNAVAILABLE", "Service Unavailable"],
  [new HTTPException(504, { message: CAUSE }), 504, "GATEWAY_TIMEOUT", "Gateway Timeout"],
  [new HTTPException(507, { message: CAUSE }), 507, "INTERNAL", "Internal Server Error"],
  [new HTTPException(400, { message: "m".repeat(1_000) }), 400, "BAD_REQUEST", "m".repeat(200)],
  // The error shape replaces its response, each time that it is thrown, and with another copy of Hono.
  [exception(401), 401, "UNAUTHORIZED", "Unauthorized"],
  [exception(502), 502, "BAD_GATEWAY", "Bad Gateway"],
  [shared, 403, "FORBIDDEN", "Forbidden"],
  [shared, 403, "FORBIDDEN", "Forbidden"],
  [unrenderable(403, () => new Response(CAUSE, { status: 403 })), 403, "FORBIDDEN", CAUSE],
];

Deno.test("errorHandler() answers each error in the error shape, and shows nothing of its cause", async () => {
  for (const [error, status, code, message] of ANSWERS) {
    const { response } = await answerTo(error);
    assertEquals(response.headers.get("Content-Type"), "application/json");
    assert(!JSON.stringify([...response.headers]).includes("10.0.0.7"));
    assertEquals(await shapeOf(response), [status, code, { error: message }]);
  }
});

Deno.test("errorHandler() keeps the headers of an error, and of an HTTPException's own response", async () => {
  const headers = { "WWW-Authenticate": "Basic", "Retry-After": "9" };
  const errors = [new HttpError(401, "No", { code: "NO", headers }), exception(401, { headers })];
  for (const error of errors) {
    const { response } = await answerTo(error);
    assertEquals(Object.keys(headers).map((name) => response.headers.get(name)), ["Basic", "9"]);
  }
});

Deno.test("errorHandler() drops the headers that describe the body it replaces", async () => {
  const headers = {
    "Content-Encoding": "gzip",
    "Content-Length": "1000",
    "Content-Range": "bytes 0-9/10",
    "Content-Disposition": "attachment",
    "ETag": '"1"',
    "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
  };
  const { response } = await answerTo(exception(403, { headers }));
  for (const name of Object.keys(headers)) assertEquals(response.headers.get(name), null, name);
});

Deno.test("errorHandler() lets go of the body that it replaces", async () => {
  let cancelled = false;
  const body = new ReadableStream({ cancel: () => void (cancelled = true) });
  await answerTo(exception(403, { body }));
  assert(cancelled);
});

Deno.test("errorHandler() answers an HTTPException below 400 as it is", async () => {
  const redirect = new Response(null, { status: 302, headers: { Location: "/elsewhere" } });
  const { response, records } = await answerTo(new HTTPException(302, { res: redirect }));
  assertEquals([response.status, response.headers.get("Location")], [302, "/elsewhere"]);
  assertEquals([response.headers.get("X-Error-Code"), await response.text()], [null, ""]);
  assertEquals(records, []);
});

Deno.test("errorHandler() logs a cause once, with the request id and no query string", async () => {
  const error = new Error(CAUSE);
  const { records } = await answerTo(error);
  assertEquals(records.length, 1);
  const { level, message, requestId, method, path, status, code } = records[0]!;
  assertEquals([level, message, requestId], ["error", "request failed", "request-1"]);
  assertEquals([method, path, status, code], ["GET", "/", 500, "INTERNAL"]);
  assertStrictEquals(records[0]!.error, error);
  assert(!JSON.stringify(records).includes("secret"));
});

Deno.test("errorHandler() logs the cause of every 5xx, and no failure of the client's", async () => {
  for (const [error, status] of ANSWERS) {
    const { records } = await answerTo(error);
    assertEquals(records.map((record) => record.status), status >= 500 ? [status] : []);
    assert(records.every((record) => record.error instanceof Error));
  }
});

Deno.test("errorHandler() logs to the console without a logger", async () => {
  const lines: string[] = [];
  const { log } = console;
  console.log = (line) => lines.push(line);
  try {
    await new Hono().onError(errorHandler).get("/", () => Promise.reject(new Error(CAUSE)))
      .request("/");
  } finally {
    console.log = log;
  }
  assertEquals(lines.map((line) => JSON.parse(line).error.message), [CAUSE]);
});

Deno.test("errorHandler() drops what the handler had set for the body it did not make", async () => {
  const names = ["Content-Encoding", "Content-Length", "Content-Range", "ETag", "Last-Modified"];
  const { app } = failing((c) => {
    for (const name of [...names, "Cache-Control"]) c.header(name, "public");
    throw new Error(CAUSE);
  });
  const { headers } = await app.request("/");
  assertEquals(names.filter((name) => headers.has(name)), []);
  assert(!headers.get("Cache-Control")?.includes("public"));
});

Deno.test("errorHandler() replaces a response that was ready, its code, and the headers of its body", async () => {
  const response = await failLate().request("/");
  assertEquals(["Content-Length", "ETag"].filter((name) => response.headers.has(name)), []);
  assertEquals(response.headers.get("Access-Control-Allow-Origin"), "*");
  assertEquals(await shapeOf(response), INTERNAL);
  assertEquals(await shapeOf(await failLate().request("/no/route")), INTERNAL);
});

Deno.test("errorHandler() lets go of the body of a response that was ready", async () => {
  let cancelled = false;
  const app = new Hono().onError(errorHandler);
  app.use(async (_c, next) => {
    await next();
    throw new Error(CAUSE);
  });
  app.get("/", () => new Response(new ReadableStream({ cancel: () => void (cancelled = true) })));
  assertEquals(await shapeOf(await app.request("/")), INTERNAL);
  assert(cancelled);
});

Deno.test("errorHandler() answers the errors of an app that is mounted", async () => {
  const { app } = failing(() => {});
  const mounted = new Hono().get("/", () => Promise.reject(new Error(CAUSE)));
  mounted.get("/text", () => Promise.reject(CAUSE));
  app.route("/sub", new Hono().route("/sub", mounted));
  app.get("/rejected", () => Promise.reject(CAUSE));
  for (const path of ["/sub/sub", "/sub/sub/text", "/rejected"]) {
    assertEquals(await shapeOf(await app.request(path)), INTERNAL);
  }
});

Deno.test("catchNonErrors() hands whatever was thrown to the error handler", async () => {
  for (const thrown of NON_ERRORS) {
    const { response, records } = await answerTo(thrown);
    assertEquals(await shapeOf(response), INTERNAL);
    assertEquals(records.length, 1);
    assertStrictEquals((records[0]?.error as Error).cause, thrown);
  }
});

Deno.test("notFoundHandler() answers 404 in the error shape", async () => {
  const response = await new Hono().notFound(notFoundHandler).request("/no/route");
  assertEquals(response.headers.get("Content-Type"), "application/json");
  assertEquals(await shapeOf(response), [404, "NOT_FOUND", { error: "Not Found" }]);
});

Deno.test("methodNotAllowedHandler() answers 405 with the methods in Allow", async () => {
  const app = new Hono().get("/", (c) => methodNotAllowedHandler(c, ["GET", "HEAD", "PUT"]));
  const response = await app.request("/");
  assertEquals(response.headers.get("Allow"), "GET, HEAD, PUT");
  assertEquals(response.headers.get("Content-Type"), "application/json");
  const expected = [405, "METHOD_NOT_ALLOWED", { error: "Method Not Allowed" }];
  assertEquals<unknown>(await shapeOf(response), expected);
});
