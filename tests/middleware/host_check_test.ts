import { assertEquals } from "@std/assert";
import { Hono } from "@hono/hono";
import { createHostCheck, errorHandler } from "../../middleware/mod.ts";

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

/** The response to a request over a connection without a `Host` header, whose URL is this. */
async function statusAt(url: string): Promise<number> {
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createHostCheck());
  app.get("/", (c) => c.text("reached"));
  const remoteAddr = { transport: "tcp", hostname: "192.0.2.1", port: 50_000 } as const;
  return (await app.fetch(new Request(url), { remoteAddr })).status;
}

Deno.test("createHostCheck() answers 400 to a request over HTTP/1 without a host", async () => {
  assertEquals(await statusAt("http://localhost:8000/"), 400); // What Deno makes up.
});

Deno.test("createHostCheck() goes by the authority of HTTP/2", async () => {
  for (const host of ["localhost", "example.com:8000", "[::1]:8000"]) {
    assertEquals(await statusAt(`http://${host}/`), 200, host);
  }
});
