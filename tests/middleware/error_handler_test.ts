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
  return app.get("/", (c) => c.text("hello", 200, { "Content-Length": "5", ETag: '"1"' }));
}

const INTERNAL = [500, "INTERNAL", { error: "Internal Server Error" }] as [number, string, unknown];

const exception = (status: number, init: ResponseInit & { body?: BodyInit } = {}, message = "") =>
  new HTTPException(status as 400, {
    message,
    cause: CAUSE,
    res: new Response(init.body ?? CAUSE, { ...init, status }),
  });

Deno.test("errorHandler() answers any error with 500 and nothing of its cause", async () => {
  const errors = [
    new Error(CAUSE),
    new TypeError(CAUSE, { cause: new Error(CAUSE) }),
    new AggregateError([new Error(CAUSE), CAUSE], CAUSE),
    new DOMException(CAUSE, "AbortError"),
    new Deno.errors.NotFound(CAUSE),
    Object.assign(new Error(CAUSE), { status: 404, code: CAUSE, headers: { "X-Cause": CAUSE } }),
  ];
  for (const error of errors) {
    const { response } = await answerTo(error);
    assert(!JSON.stringify([...response.headers]).includes("10.0.0.7"));
    assertEquals(await shapeOf(response), INTERNAL);
  }
});

Deno.test("errorHandler() answers a rejection like a thrown error", async () => {
  const { app } = failing(() => Promise.reject(new Error(CAUSE)));
  assertEquals(await shapeOf(await app.request("/")), INTERNAL);
});

Deno.test("errorHandler() answers in JSON", async () => {
  for (const error of [new Error(CAUSE), exception(403, { headers: { "Content-Type": "a/b" } })]) {
    const { response } = await answerTo(error);
    assertEquals(response.headers.get("Content-Type"), "application/json");
  }
});

Deno.test("errorHandler() answers an HttpError with what it says", async () => {
  const headers = { "Retry-After": "5" };
  const error = new HttpError(409, "Already deployed", { code: "DEPLOYED", headers, cause: CAUSE });
  const { response } = await answerTo(error);
  assertEquals(response.headers.get("Retry-After"), "5");
  assertEquals(await shapeOf(response), [409, "DEPLOYED", { error: "Already deployed" }]);
});

Deno.test("errorHandler() answers an HTTPException with its status and message", async () => {
  const cases = [
    [400, "BAD_REQUEST"],
    [401, "UNAUTHORIZED"],
    [403, "FORBIDDEN"],
    [409, "CONFLICT"],
    [413, "BODY_TOO_LARGE"],
    [429, "RATE_LIMITED"],
    [418, "BAD_REQUEST"],
  ] as const;
  for (const [status, code] of cases) {
    const { response } = await answerTo(new HTTPException(status, { message: "No way" }));
    assertEquals(await shapeOf(response), [status, code, { error: "No way" }]);
  }
});

Deno.test("errorHandler() has a message for an HTTPException without one", async () => {
  const cases = [[400, "Bad Request"], [404, "Not Found"], [418, "Bad Request"]] as const;
  for (const [status, message] of cases) {
    const { response } = await answerTo(new HTTPException(status));
    assertEquals([response.status, await response.json()], [status, { error: message }]);
  }
});

Deno.test("errorHandler() hides the message of an HTTPException of 5xx", async () => {
  const cases = [
    [500, "INTERNAL", "Internal Server Error"],
    [503, "UNAVAILABLE", "Service Unavailable"],
    [504, "GATEWAY_TIMEOUT", "Gateway Timeout"],
    [507, "INTERNAL", "Internal Server Error"],
  ] as const;
  for (const [status, code, message] of cases) {
    const { response } = await answerTo(new HTTPException(status, { message: CAUSE }));
    assertEquals(await shapeOf(response), [status, code, { error: message }]);
  }
});

Deno.test("errorHandler() cuts the message of an HTTPException", async () => {
  const { response } = await answerTo(new HTTPException(400, { message: "m".repeat(100_000) }));
  assertEquals((await response.json()).error.length, 200);
});

Deno.test("errorHandler() replaces an HTTPException's own response by the error shape", async () => {
  const cases = [[401, "UNAUTHORIZED", "Unauthorized"], [
    502,
    "BAD_GATEWAY",
    "Bad Gateway",
  ]] as const;
  for (const [status, code, message] of cases) {
    const { response } = await answerTo(exception(status));
    assertEquals(await shapeOf(response), [status, code, { error: message }]);
  }
});

Deno.test("errorHandler() keeps the headers of an HTTPException's own response", async () => {
  const headers = { "WWW-Authenticate": "Basic", "Retry-After": "9" };
  const { response } = await answerTo(exception(401, { headers }));
  assertEquals(response.headers.get("WWW-Authenticate"), "Basic");
  assertEquals(response.headers.get("Retry-After"), "9");
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

Deno.test("errorHandler() answers one exception that is thrown twice in the same way", async () => {
  const shared = exception(403, { body: "own" });
  for (let i = 0; i < 2; i++) {
    const { response } = await answerTo(shared);
    assertEquals(await shapeOf(response), [403, "FORBIDDEN", { error: "Forbidden" }]);
  }
});

Deno.test("errorHandler() answers an HTTPException below 400 as it is", async () => {
  const redirect = new Response(null, { status: 302, headers: { Location: "/elsewhere" } });
  const { response, records } = await answerTo(new HTTPException(302, { res: redirect }));
  assertEquals([response.status, response.headers.get("Location")], [302, "/elsewhere"]);
  assertEquals([response.headers.get("X-Error-Code"), await response.text()], [null, ""]);
  assertEquals(records, []);
});

Deno.test("errorHandler() knows an HTTPException of another copy of Hono", async () => {
  const getResponse = () => new Response(CAUSE, { status: 403 });
  const { response } = await answerTo(Object.assign(new Error("No"), { status: 403, getResponse }));
  assertEquals(await shapeOf(response), [403, "FORBIDDEN", { error: "No" }]);
});

Deno.test("errorHandler() answers 500 for an exception that cannot be rendered", async () => {
  const getResponse = () => {
    throw new Error(CAUSE);
  };
  const headers = { "Bad Header": CAUSE };
  const errors = [
    Object.assign(new Error(CAUSE), { status: 403, getResponse }),
    Object.assign(new Error(CAUSE), { status: 99, getResponse: () => new Response(CAUSE) }),
    new HTTPException(204 as 400, { res: new Response(CAUSE) }),
    new HttpError(409, "Deployed", { code: "DEPLOYED", headers }),
  ];
  for (const error of errors) {
    assertEquals(await shapeOf((await answerTo(error)).response), INTERNAL);
  }
});

Deno.test("errorHandler() logs a cause once, with the request id", async () => {
  const error = new Error(CAUSE);
  const { records } = await answerTo(error);
  assertEquals(records.length, 1);
  const { level, message, requestId, method, path, status, code } = records[0]!;
  assertEquals([level, message, requestId], ["error", "request failed", "request-1"]);
  assertEquals([method, path, status, code], ["GET", "/", 500, "INTERNAL"]);
  assertStrictEquals(records[0]!.error, error);
});

Deno.test("errorHandler() logs the cause of every 5xx", async () => {
  const errors = [
    new HttpError(503, "Try later", { code: "BUSY", cause: CAUSE }),
    new HTTPException(502, { message: CAUSE }),
    exception(500),
  ];
  for (const error of errors) {
    const { records } = await answerTo(error);
    assertEquals(records.map((record) => [record.error, record.status]), [[error, error.status]]);
  }
});

Deno.test("errorHandler() logs no failure of the client's", async () => {
  const errors = [
    new HttpError(409, "Deployed", { code: "DEPLOYED", cause: CAUSE }),
    new HTTPException(404),
    exception(499),
  ];
  for (const error of errors) assertEquals((await answerTo(error)).records, []);
});

Deno.test("errorHandler() logs no query string", async () => {
  const { records } = await answerTo(new Error("boom"));
  assertEquals(records[0]?.path, "/");
  assert(!JSON.stringify(records).includes("secret"));
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
    for (const name of names) c.header(name, "1");
    throw new Error(CAUSE);
  });
  const { headers } = await app.request("/");
  assertEquals(names.filter((name) => headers.has(name)), []);
});

Deno.test("errorHandler() lets nobody keep an error that a handler said could be kept", async () => {
  const { app } = failing((c) => {
    c.header("Cache-Control", "public, max-age=3600");
    throw new Error(CAUSE);
  });
  const { headers } = await app.request("/");
  assert(!headers.get("Cache-Control")?.includes("public"));
});

Deno.test("errorHandler() drops the headers of a response that was ready", async () => {
  const response = await failLate().request("/");
  assertEquals(["Content-Length", "ETag"].filter((name) => response.headers.has(name)), []);
  assertEquals(await shapeOf(response), INTERNAL);
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

Deno.test("errorHandler() keeps headers that do not describe the body it replaces", async () => {
  const app = new Hono().onError(errorHandler);
  app.use(async (_c, next) => {
    await next();
    throw new Error(CAUSE);
  });
  const headers = { "Access-Control-Allow-Origin": "*", "Content-Length": "5" };
  app.get("/", () => new Response("hello", { headers }));
  const response = await app.request("/");
  assertEquals(response.headers.get("Access-Control-Allow-Origin"), "*");
  assertEquals(response.headers.get("Content-Length"), null);
});

Deno.test("errorHandler() replaces the code of an error response that was ready", async () => {
  assertEquals(await shapeOf(await failLate().request("/no/route")), INTERNAL);
});

Deno.test("errorHandler() answers the errors of an app that is mounted", async () => {
  const { app } = failing(() => {});
  const mounted = new Hono().get("/", () => Promise.reject(new Error(CAUSE)));
  mounted.get("/text", () => Promise.reject(CAUSE));
  app.route("/sub", new Hono().route("/sub", mounted));
  for (const path of ["/sub/sub", "/sub/sub/text"]) {
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

Deno.test("catchNonErrors() hands a rejection with no error on as well", async () => {
  const { app, records } = failing(() => Promise.reject(CAUSE));
  assertEquals(await shapeOf(await app.request("/")), INTERNAL);
  assertEquals((records[0]?.error as Error).cause, CAUSE);
});

Deno.test("catchNonErrors() leaves an error as it is", async () => {
  const error = new RangeError("boom");
  assertStrictEquals((await answerTo(error)).records[0]?.error, error);
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
