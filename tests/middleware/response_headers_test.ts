import { assertEquals } from "@std/assert";
import { Hono } from "@hono/hono";
import type { Handler } from "@hono/hono";
import {
  createLogger,
  createResponseHeaders,
  errorHandler,
  HttpError,
  notFoundHandler,
} from "../../middleware/mod.ts";

const REQUEST_ID = "request-1";

/** The response of a handler below the middleware. */
function responseOf(handler: Handler): Response | Promise<Response> {
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createLogger({ log: () => {} }));
  app.use(createResponseHeaders());
  app.get("/", handler);
  return app.request("/", { headers: { "X-Request-Id": REQUEST_ID } });
}

function headersOf({ headers }: Response): (string | null)[] {
  return ["X-Content-Type-Options", "Cache-Control", "X-Request-Id"].map((name) =>
    headers.get(name)
  );
}

Deno.test("createResponseHeaders() sets the headers on every kind of response", async () => {
  const handlers: Record<string, Handler> = {
    "of the context": (c) => c.text("hello"),
    "of its own": () => new Response("hello"),
    "with immutable headers": () => Response.redirect("http://localhost/elsewhere"),
    "without a body": (c) => c.body(null, 204),
    "of an error": () => {
      throw new Error("boom");
    },
  };
  for (const [name, handler] of Object.entries(handlers)) {
    const headers = headersOf(await responseOf(handler));
    assertEquals(headers, ["nosniff", "no-store", REQUEST_ID], name);
  }
});

Deno.test("createResponseHeaders() keeps status, body and headers of an immutable response", async () => {
  const response = await responseOf(() => Response.redirect("http://localhost/elsewhere", 307));
  assertEquals(response.status, 307);
  assertEquals(response.headers.get("Location"), "http://localhost/elsewhere");
});

Deno.test("createResponseHeaders() keeps a handler's Cache-Control", async () => {
  const response = await responseOf((c) => c.text("x", 200, { "Cache-Control": "max-age=60" }));
  assertEquals(response.headers.get("Cache-Control"), "max-age=60");
});

Deno.test("createResponseHeaders() overrules another X-Content-Type-Options and X-Request-Id", async () => {
  const headers = { "X-Content-Type-Options": "sniff", "X-Request-Id": "other" };
  const response = await responseOf(() => new Response("x", { headers }));
  assertEquals(headersOf(response), ["nosniff", "no-store", REQUEST_ID]);
});

Deno.test("createResponseHeaders() sets no request id where there is none", async () => {
  const app = new Hono().use(createResponseHeaders()).get("/", (c) => c.text("hello"));
  assertEquals(headersOf(await app.request("/")), ["nosniff", "no-store", null]);
});

Deno.test("createResponseHeaders() drops an error's headers from what takes its place", async () => {
  const replacements: [status: number, replacement: () => Response][] = [
    [301, () => Response.redirect("http://localhost/new", 301)],
    [200, () => new Response("<h1>Home</h1>", { headers: { "Content-Type": "text/html" } })],
  ];
  for (const [status, replacement] of replacements) {
    const app = new Hono().onError(errorHandler).notFound(notFoundHandler);
    app.use(createResponseHeaders());
    app.use(async (c, next) => {
      await next();
      c.res = replacement();
    });
    app.get("/login", () => {
      const headers = { "WWW-Authenticate": "Bearer", "Retry-After": "5", Allow: "GET" };
      throw new HttpError(401, "Unauthorized", { code: "UNAUTHORIZED", headers });
    });
    for (const path of ["/no/route", "/login"]) {
      const { headers, status: answered } = await app.request(path);
      const names = ["X-Error-Code", "WWW-Authenticate", "Retry-After", "Allow"];
      assertEquals([answered, names.filter((name) => headers.has(name))], [status, []]);
    }
  }
});

Deno.test("createResponseHeaders() leaves an error its headers", async () => {
  const app = new Hono().onError(errorHandler).use(createResponseHeaders());
  app.get("/", () => {
    throw new HttpError(503, "Busy", { code: "BUSY", headers: { "Retry-After": "5" } });
  });
  const { headers } = await app.request("/");
  assertEquals([headers.get("X-Error-Code"), headers.get("Retry-After")], ["BUSY", "5"]);
});
