import { assert, assertEquals, assertRejects } from "@std/assert";
import { type ConsoleOptions, createConsole } from "../../console/mod.ts";
import { createBaseApp, openEventStore } from "../../mod.ts";
import { testWith } from "../_permissions.ts";
import { OPERATOR, VIEWER } from "./_board.ts";

Deno.test("createConsole() makes a console for an app that is composed by hand", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  await using board = await createConsole({
    name: "bot",
    store,
    viewerToken: VIEWER,
    log: () => {},
  });
  const app = createBaseApp({ name: "bot", logger: false });
  app.route("/", board.app);
  assertEquals((await app.request("/console/login")).status, 200);
  assertEquals((await app.request("/health")).status, 200);
  assert(board.telemetry);
});

Deno.test("createConsole() makes none without a token", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  await using board = await createConsole({ name: "bot", store });
  const app = createBaseApp({ name: "bot", logger: false });
  app.route("/", board.app);
  assertEquals((await app.request("/console/login")).status, 404);
  assertEquals(board.telemetry, undefined);
});

Deno.test("createConsole() refuses options that are not valid", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const cases: [object, string][] = [
    [{ name: "" }, "'name' must be a text that is not blank, got \"\""],
    [{ store: {} }, "'store' must be what openEventStore() resolves with, got an object"],
    [
      { viewerToken: "short" },
      "'viewerToken' must be at least 32 random characters, as `openssl rand -hex 32` makes them",
    ],
    [{ operatorToken: VIEWER }, "'viewerToken' and 'operatorToken' must differ"],
    [{ operatorToken: ` ${OPERATOR}` }, "'operatorToken' begins or ends with white space"],
    [{ operatorToken: `${OPERATOR}\ud800` }, "'operatorToken' has a lone surrogate"],
    [{ operatorToken: OPERATOR.repeat(9) }, "'operatorToken' must have at most 256 characters"],
    [{ path: "console" }, "'path' must be a slash, then letters, digits, _, -, . and slashes"],
    [{ environment: 1 }, "'environment' must be a text of at most 40 characters"],
    [{ hidePayloads: "no" }, "'hidePayloads' must be true or false, got \"no\""],
    [{ token: "x" }, 'there is no option "token". There are name, store'],
  ];
  for (const [wrong, message] of cases) {
    const options = { name: "bot", store, viewerToken: VIEWER, ...wrong } as ConsoleOptions;
    await assertRejects(
      () => createConsole(options),
      TypeError,
      `Cannot create the console: ${message}`,
    );
  }
});

testWith(
  ["read"],
  "without a token nothing of the console's pages and data is loaded",
  async () => {
    const loaded = new Set<string>();
    const folder = new URL("../../console/", import.meta.url).href;
    const waiting = [`${folder}mod.ts`];
    for (let url = waiting.pop(); url !== undefined; url = waiting.pop()) {
      if (loaded.has(url)) continue;
      loaded.add(url);
      const code = await Deno.readTextFile(new URL(url));
      // Types are erased, and what `import()` names is loaded when it is called.
      for (const [, to] of code.matchAll(/^(?:import|export) (?!type )[^;]*?from "(\.[^"]+)";/gm)) {
        waiting.push(new URL(to!, url).href);
      }
    }
    const own = [...loaded].filter((url) => url.startsWith(folder)).map((url) =>
      url.split("/").at(-1)
    );
    assertEquals(own.sort(), ["_tokens.ts", "console_mount.ts", "create_console.ts", "mod.ts"]);
  },
);
