import { assertEquals } from "@std/assert";
import { Hono } from "@hono/hono";
import type { Handler } from "@hono/hono";
import {
  createHostCheck,
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

/** The response to a request with this `Host`. */
function requestTo(host?: string): Response | Promise<Response> {
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createHostCheck());
  app.get("/", (c) => c.text("reached"));
  return app.request("/", host === undefined ? {} : { headers: { Host: host } });
}

Deno.test("createHostCheck() lets hosts pass", async () => {
  const names = [
    "localhost",
    "Example.COM",
    "example.com.",
    "xn--bcher-kva.example",
    "a_b.example",
  ];
  const addresses = ["192.0.2.1", "192.0.2.1:8000", "[::1]", "[2001:db8::1]:443"];
  for (const host of [...names, "example.com:8443", "example.com:", ...addresses]) {
    assertEquals((await requestTo(host)).status, 200, host);
  }
});

Deno.test("createHostCheck() answers 400 to a host that rewrites the URL", async () => {
  const hosts = ["x/webhook?", "x/webhook", "x?", "x#", "x\\webhook", "user@x", "user:pw@x", "/x"];
  for (const host of hosts) assertEquals((await requestTo(host)).status, 400, host);
});

Deno.test("createHostCheck() answers 400 to a malformed host", async () => {
  const hosts = ["", "a b", "a, b", "a\tb", ":80", "x:80:80", "x:port", "x:123456", "::1", "[::1"];
  for (const host of [...hosts, "[]", "[x]", "[::1]x", "<x>", '"x"', "b\xfccher", "x^y", "x|y"]) {
    assertEquals((await requestTo(host)).status, 400, host);
  }
});

Deno.test("createHostCheck() answers in the error shape", async () => {
  const response = await requestTo("x/webhook?");
  assertEquals(response.headers.get("X-Error-Code"), "INVALID_HOST");
  assertEquals(await response.json(), { error: "Invalid host" });
});

Deno.test("createHostCheck() lets a request made in the process pass without a host", async () => {
  assertEquals((await requestTo()).status, 200);
});

/** URLs that Deno makes as they come: `new Request()` does not take all of them. */
function cameAs(url: string, headers: HeadersInit = {}): Request {
  const request = new Request("http://localhost/", { headers });
  return Object.defineProperty(request, "url", { value: url });
}

/** An app whose requests come over a connection: gives the status for a URL and headers. */
function connected(): (url: string, headers?: HeadersInit) => Promise<number> {
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createHostCheck());
  app.get("/", (c) => c.text("reached"));
  const remoteAddr = { transport: "tcp", hostname: "192.0.2.1", port: 50_000 } as const;
  return async (url, headers) => (await app.fetch(cameAs(url, headers), { remoteAddr })).status;
}

/** Sends a request over a connection with this URL, and returns the answer. */
function statusAt(url: string, headers: HeadersInit = {}): Promise<number> {
  return connected()(url, headers);
}

const HTTP1_HEADERS = [
  "Connection",
  "Transfer-Encoding",
  "Upgrade",
  "Keep-Alive",
  "Proxy-Connection",
];

for (const name of HTTP1_HEADERS) {
  Deno.test(`createHostCheck() answers 400 to a request without a host that brings ${name}`, async () => {
    for (const host of ["localhost:8000", "192.0.2.1:8000", "localhost"]) { // What Deno makes up.
      assertEquals(await statusAt(`http://${host}/`, { [name]: "x" }), 400, host);
    }
  });
}

/** All forms of an authority (RFC 3986, section 3.2), in both cases. */
const AUTHORITIES = [
  ...["localhost", "localhost:8000", "LocalHost:8000", "EXAMPLE.com", "example.com:"],
  ...[
    "192.0.2.1",
    "192.0.2.1:443",
    "[::1]",
    "[::1]:8000",
    "[2001:DB8::A]:80",
    "[::ffff:192.0.2.1]",
  ],
  ...["a_b", "a-b.example.", "xn--bcher-kva.example:65535", "a%41b", "a~b", "a!$&'()*+,;=b"],
];

Deno.test("createHostCheck() goes by the authority of HTTP/2", async () => {
  for (const host of AUTHORITIES) assertEquals(await statusAt(`http://${host}/`), 200, host);
});

/** Texts that have the form of a host, and make no URL. */
const NO_HOSTS = [
  ...["a%20b", "a%zz", "a%00b", "a%2fb", "a%ff", "%", "a%40b", "xn--", "xn--a", "a.xn--.b"],
  ...["256.256.256.256", "1.2.3.4.5", "1.2.3.256", "1.2.3.0x100", "0400.1.1.1", "4294967296"],
  ...["a:65536", "a:99999", "[::1]:99999", "[1:2]", "[::1::]", "[1.2.3.4]", "[:]"],
];

for (const host of NO_HOSTS) {
  Deno.test(`createHostCheck() answers 400 to the host ${host}, which no URL can have`, async () => {
    const url = `http://${host}/?token=a`;
    assertEquals(await statusAt(url), 400, "as the authority");
    assertEquals(await statusAt(url, { Host: host }), 400, "as the header");
    assertEquals(await statusAt(url, { Host: "localhost" }), 400, "in the target");
    assertEquals((await requestTo(host)).status, 400, "beside another one in the target");
  });
}

Deno.test("createHostCheck() answers 400 to a target without a path", async () => {
  for (
    const url of ["http://x?/", "http://x?q=/", "http://x#/", "http://x?", "http://x", "http://x*"]
  ) {
    assertEquals(await statusAt(url, { Host: "x" }), 400, url);
  }
});

/** Requests of all kinds: URL, `Host` header if any, and the answer. */
const REQUESTS: readonly [url: string, host: string | undefined, status: number][] = [
  ["http://a/", "a", 200],
  ["http://b:8000/", "b:8000", 200],
  ["http://a/", "b", 200],
  ["http://a/", undefined, 200],
  ["http://b:8000/", "", 400],
  ["http://a/", "a/webhook?", 400],
  ["http://a/", "256.256.256.256", 400],
  ["http://256.256.256.256/", "a", 400],
  ["http://a?/", "a", 400],
  ["http://a", "a", 400],
];

Deno.test("createHostCheck() answers a request the same after any other one", async () => {
  const request = connected();
  for (const before of REQUESTS) {
    for (const after of REQUESTS) {
      for (const [url, host, expected] of [before, before, after, after, before]) {
        const status = await request(url, host === undefined ? {} : { Host: host });
        assertEquals(status, expected, JSON.stringify([before, after, url, host]));
      }
    }
  }
});

Deno.test("createHostCheck() refuses a request over HTTP/1 without a host after one that had it", async () => {
  const request = connected();
  assertEquals(await request("http://a/", { Host: "a" }), 200);
  assertEquals(await request("http://a/", { Connection: "close" }), 400);
  assertEquals(await request("http://a/"), 200);
});
