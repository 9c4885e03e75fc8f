import { assert, assertEquals, assertThrows } from "@std/assert";
import { Hono } from "@hono/hono";
import {
  type AuthOptions,
  type AuthVariables,
  createAuth,
  createLogger,
  errorHandler,
  HttpError,
} from "../../middleware/mod.ts";
import type { RequestOptions } from "../_request_options.ts";

const TOKEN = "token-1.~+/_==";

/** Sends requests with these headers to an app that answers with the principal, and counts calls. */
function guarded(options: AuthOptions) {
  const calls = { count: 0 };
  const app = new Hono<{ Variables: AuthVariables }>();
  app.onError(errorHandler);
  app.use(createLogger({ log: () => {} }));
  app.use(createAuth(options));
  app.get("/", (c) => {
    calls.count++;
    return c.json({ principal: c.get("principal") });
  });
  return {
    calls,
    send: (headers: NonNullable<RequestOptions["headers"]> = {}) => app.request("/", { headers }),
  };
}

/** The status for this `Authorization`. */
async function statusOf(options: AuthOptions, authorization: string): Promise<number> {
  return (await guarded(options).send({ Authorization: authorization })).status;
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

Deno.test("createAuth() takes any case of the scheme and several spaces", async () => {
  for (const scheme of ["Bearer", "bearer", "BEARER", "Bearer  "]) {
    assertEquals(await statusOf({ tokens: TOKEN }, `${scheme} ${TOKEN}`), 200);
  }
});

Deno.test("createAuth() accepts each of several tokens", async () => {
  const tokens = ["new", "old", "older"];
  for (const token of tokens) assertEquals(await statusOf({ tokens }, `Bearer ${token}`), 200);
  for (const token of ["newold", "new,old", "ne"]) {
    assertEquals(await statusOf({ tokens }, `Bearer ${token}`), 401);
  }
});

Deno.test("createAuth() answers 401 in one way, whatever is wrong", async () => {
  const { send, calls } = guarded({ tokens: TOKEN });
  const values = ["", "Bearer", "Bearer wrong", TOKEN, `Basic ${TOKEN}`, `Bearer${TOKEN}`];
  const near = [TOKEN.slice(1), TOKEN.slice(0, -1), TOKEN.toUpperCase(), `${TOKEN}=`, `x${TOKEN}`];
  const odd = [`${TOKEN} x`, `${TOKEN},`, `${TOKEN}\xe9`, `"${TOKEN}"`, "t".repeat(10_000)];
  const wrong = [...values, ...[...near, ...odd].map((token) => `Bearer ${token}`)];
  for (const headers of [{}, ...wrong.map((Authorization) => ({ Authorization }))]) {
    const response = await send(headers);
    assertEquals([response.status, response.headers.get("X-Error-Code")], [401, "UNAUTHORIZED"]);
    assertEquals(response.headers.get("WWW-Authenticate"), 'Bearer realm="api"');
    assertEquals(await response.json(), { error: "Unauthorized" });
  }
  assertEquals(calls.count, 0);
});

Deno.test("createAuth() answers 401 to two headers, even if one is right", async () => {
  const { send } = guarded({ tokens: TOKEN });
  const right: [string, string] = ["Authorization", `Bearer ${TOKEN}`];
  const response = await send([right, ["Authorization", "Bearer wrong"]]);
  assertEquals(response.status, 401);
  assertEquals((await send([right, right])).status, 401);
});

Deno.test("createAuth() names the realm, quoted", async () => {
  const response = await guarded({ tokens: TOKEN, realm: 'a "b" \\c' }).send();
  assertEquals(response.headers.get("WWW-Authenticate"), 'Bearer realm="a \\"b\\" \\\\c"');
});

Deno.test("createAuth() takes the bare token from another header", async () => {
  const { send } = guarded({ tokens: TOKEN, header: "X-API-Key" });
  assertEquals((await send({ "x-api-key": TOKEN })).status, 200);
  for (
    const headers of [{ "X-API-Key": "wrong" }, { "X-API-Key": `Bearer ${TOKEN}` }, bearer(TOKEN)]
  ) {
    const response = await send(headers);
    assertEquals(response.status, 401);
    assertEquals(response.headers.get("WWW-Authenticate"), 'ApiKey realm="api"');
  }
});

/** Keys that are no bearer tokens. */
const KEYS = ["key:1", "a b", "{id}", "Basic YTpi", `"quoted"`, "a,b", "=", "k".repeat(10_000)];

Deno.test("createAuth() asks validate about whatever stands in a header of its own", async () => {
  for (const key of [...KEYS, TOKEN, "k\xe9y"]) {
    const asked: string[] = [];
    const { send } = guarded({ header: "X-API-Key", validate: (token) => asked.push(token) });
    assertEquals([(await send({ "X-API-Key": key })).status, asked], [200, [key]]);
  }
});

Deno.test("createAuth() asks validate about no empty header, and none of another name", async () => {
  let asked = false;
  const { send } = guarded({ header: "X-API-Key", validate: () => asked = true });
  for (const headers of [{}, { "X-API-Key": "" }, { "X-API-Key": " " }, bearer(TOKEN)]) {
    const response = await send(headers);
    assertEquals([response.status, asked], [401, false]);
    assertEquals(response.headers.get("WWW-Authenticate"), 'ApiKey realm="api"');
    assertEquals(await response.json(), { error: "Unauthorized" });
  }
});

Deno.test("createAuth() takes static keys of any printable characters from another header", async () => {
  const { send } = guarded({ tokens: KEYS, header: "X-API-Key" });
  for (const key of KEYS) {
    assertEquals((await send({ "X-API-Key": key })).status, 200);
    for (const wrong of [`${key}x`, `x${key}`, key.slice(1), key.toUpperCase() + "!"]) {
      assertEquals((await send({ "X-API-Key": wrong })).status, 401);
    }
  }
  const twice: [string, string][] = [["X-API-Key", "a b"], ["X-API-Key", "a b"]];
  assertEquals((await send(twice)).status, 401);
});

Deno.test("createAuth() refuses a static key that another header cannot bring whole", () => {
  for (const tokens of ["", " ", " a", "a ", "a\n", "a\0b", "tökén", "日本"]) {
    assertThrows(
      () => createAuth({ tokens: ["good key", tokens], header: "X-API-Key" }),
      SyntaxError,
      "token 2 is empty or has characters outside printable ASCII",
    );
  }
});

Deno.test("createAuth() puts what validate returns on the context", async () => {
  const principals = [{ id: 7 }, "alice", 7, true];
  for (const principal of principals) {
    for (const validate of [() => principal, () => Promise.resolve(principal)]) {
      const response = await guarded({ validate }).send(bearer("t"));
      assertEquals([response.status, await response.json()], [200, { principal }]);
    }
  }
});

Deno.test("createAuth() answers 401 when validate returns nobody", async () => {
  for (const nobody of [undefined, null, false]) {
    for (const validate of [() => nobody, () => Promise.resolve(nobody)]) {
      const { send, calls } = guarded({ validate });
      const response = await send(bearer("t"));
      assertEquals([response.status, calls.count], [401, 0]);
      assertEquals(await response.json(), { error: "Unauthorized" });
    }
  }
});

Deno.test("createAuth() hands validate the token and the context", async () => {
  const seen: string[] = [];
  const { send } = guarded({ validate: (token, c) => seen.push(token, c.req.path) });
  await send(bearer(TOKEN));
  assertEquals(seen, [TOKEN, "/"]);
});

Deno.test("createAuth() does not ask validate about what is no token", async () => {
  let asked = false;
  const { send } = guarded({ validate: () => asked = true });
  for (const value of ["", "Bearer", "Bearer a b", "Basic abc"]) {
    assertEquals((await send({ Authorization: value })).status, 401);
  }
  assert(!asked);
});

Deno.test("createAuth() lets nobody pass when validate fails", async () => {
  const failure = new Error("db at 10.0.0.7 is down");
  for (const reason of [failure, new HttpError(403, "Suspended", { code: "SUSPENDED" })]) {
    const { send, calls } = guarded({ validate: () => Promise.reject(reason) });
    const response = await send(bearer("t"));
    const expected = reason === failure ? [500, "Internal Server Error"] : [403, "Suspended"];
    assertEquals([response.status, (await response.json()).error, calls.count], [...expected, 0]);
  }
});

Deno.test("createAuth() has no principal for a static token", async () => {
  const response = await guarded({ tokens: TOKEN }).send(bearer(TOKEN));
  assertEquals(await response.json(), {});
});

Deno.test("createAuth() answers in the error shape without the error handler", async () => {
  const app = new Hono().use(createAuth({ tokens: TOKEN })).get("/", (c) => c.text("hello"));
  const response = await app.request("/");
  assertEquals(response.headers.get("WWW-Authenticate"), 'Bearer realm="api"');
  assertEquals([response.status, await response.json()], [401, { error: "Unauthorized" }]);
});

const WRONG: readonly [unknown, string][] = [
  ...[{}, { realm: "x" }, { tokens: TOKEN, validate: () => true }, {
    tokens: [],
    validate: () => true,
  }].map(
    (options): [unknown, string] => [options, "give either 'tokens' or 'validate'"],
  ),
  [{ tokens: [] }, "'tokens' is empty"],
  ...[undefined, null, 12345].map((
    token,
  ): [unknown, string] => [{ tokens: [token] }, "token 1 is empty"]),
  [{ tokens: null }, "token 1 is empty"],
  ...["", "X API Key", "X-API-Key:", "ключ"].map((header): [unknown, string] => [
    { tokens: TOKEN, header },
    "'header' is empty or has characters",
  ]),
  ...["a\nb", "a\0b", "日本"].map((realm): [unknown, string] => [
    { tokens: TOKEN, realm },
    "'realm' is empty or has characters",
  ]),
];

Deno.test("createAuth() refuses options that make no sense", () => {
  for (const [options, message] of WRONG) {
    const create = () => createAuth(options as AuthOptions);
    assertThrows(create, Error, `Cannot create the authentication: ${message}`);
  }
});

Deno.test("createAuth() refuses a token that no header can bring, without repeating it", () => {
  for (const bad of ["", " ", "a b", "=", "a=b", "tökén", "a\n", "a,b", `"a"`]) {
    for (const tokens of [["good", bad], ["good", "fine", bad]]) {
      const error = assertThrows(() => createAuth({ tokens }), SyntaxError);
      assert(error.message.includes(`token ${tokens.length} `));
      assert(bad.trim().length < 3 || !error.message.includes(bad));
    }
    assertThrows(() => createAuth({ tokens: bad }), SyntaxError, "token 1 ");
  }
});
