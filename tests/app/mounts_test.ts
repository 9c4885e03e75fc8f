import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { Hono } from "@hono/hono";
import { defineApp, github, type LogRecord, openApp, startApp } from "../../mod.ts";
import type { AppDefinition, Mount, MountParts } from "../../app/mod.ts";
import type { Telemetry } from "../../telemetry/mod.ts";
import { consoleMount } from "../../console/mod.ts";
import { forgeDelivery, startTestBot, TEST_SECRETS } from "../../testing/mod.ts";
import { until } from "../../dev/harness/until.ts";
import { testWith } from "../_permissions.ts";

const OPERATOR = "0f9e8d7c6b5a49382716f0e9d8c7b6a5";

const env = { GITHUB_WEBHOOK_SECRET: TEST_SECRETS.signing, KV_URL: ":memory:" };

/** Defines an app with mounts. */
function appWith(...mounts: unknown[]) {
  return defineApp({ name: "mounted", platform: github(), mounts: mounts as Mount[] });
}

/** Makes a mount that notes what is done with it. */
function mountAt(path: string, variables: string[] = []) {
  const notes: string[] = [];
  let given: MountParts | undefined;
  const mount: Mount = {
    ...{ name: `mount of ${path}`, path, variables },
    prepare: () => ({
      open(parts) {
        given = parts;
        notes.push("opened");
        const app = new Hono();
        app.get(path, (c) => c.text("here"));
        return { app, close: () => void notes.push("closed") };
      },
    }),
  };
  return { mount, notes, parts: () => given! };
}

Deno.test("an app serves its mounts, and closes them at the end", async () => {
  const { mount, notes, parts } = mountAt("/board");
  const test = await startTestBot(appWith(mount));
  assertEquals(await (await test.fetch("/board")).text(), "here");
  assertEquals([parts().name, parts().namespace, parts().platforms.length], [
    "mounted",
    "mounted",
    1,
  ]);
  const health = await parts().fetch(new Request("http://localhost/health/ready"));
  assertEquals(health.status, 200);
  await test[Symbol.asyncDispose]();
  assertEquals(notes, ["opened", "closed"]);
});

Deno.test("telemetry of a mount counts deliveries and attempts, and names no request", async () => {
  const told: string[] = [];
  const note = (what: string) => () => void told.push(what);
  const telemetry: Telemetry = {
    nameRequest: note("request"),
    storing: (_, store) => store(undefined),
    countDelivery: note("delivery"),
    countStep: () => {},
    attempt: () => ({ run: (part) => part(), handlerEnded() {}, settled: note("attempt") }),
    watchOldestDue: () => () => {},
  };
  const open = () => ({ app: new Hono(), telemetry, close() {} });
  const mount: Mount = { name: "counter", path: "/c", variables: [], prepare: () => ({ open }) };
  await using test = await startTestBot(appWith(mount));
  await test.deliver(forgeDelivery("push", { ref: "refs/heads/main" }));
  assertEquals(told, ["delivery", "attempt"]);
});

Deno.test("defineApp() checks its mounts", () => {
  const { mount } = mountAt("/a");
  const cases: [unknown, string][] = [
    [
      { ...mount, path: "a" },
      `'mounts[0].path' must be a slash, then letters, digits, _, -, . and slashes, got "a"`,
    ],
    [{ ...mount, path: "/:a" }, "'mounts[0].path' must be"],
    [{ ...mount, prepare: 1 }, "'mounts[0].prepare' must be a function, got 1"],
    [1, "'mounts[0]' must be an object, got 1"],
  ];
  for (const [wrong, message] of cases) {
    assertStringIncludes(assertThrows(() => appWith(wrong), TypeError).message, message);
  }
  const definition = { name: "x", platform: github(), mounts: {} } as unknown;
  assertThrows(
    () => defineApp(definition as AppDefinition<object, Record<never, never>, undefined>),
    TypeError,
    "Cannot define the app: 'mounts' must be an array, got an object",
  );
});

Deno.test("openApp() refuses a mount in the way of another part", async () => {
  const { mount } = mountAt("/a", ["A"]);
  const cases: [Mount[], string][] = [
    [[mountAt("/webhook").mount], "'mount of /webhook' at \"/webhook\" is in the way of 'github'"],
    [[mountAt("/webhook/below").mount], "is in the way of 'github' at \"/webhook\""],
    [[mount, mountAt("/a/b").mount], "is in the way of 'mount of /a' at \"/a\""],
    [[mount, { ...mount, path: "/b" }], "both read the variable 'A'"],
    [
      [mountAt("/c", ["GITHUB_WEBHOOK_SECRET"]).mount],
      "both read the variable 'GITHUB_WEBHOOK_SECRET'",
    ],
  ];
  for (const [mounts, message] of cases) {
    await assertRejects(() => openApp(appWith(...mounts), { env }), TypeError, message);
  }
});

Deno.test("an app has no console without a token", async () => {
  await using test = await startTestBot(appWith(consoleMount()));
  for (const path of ["/console", "/console/", "/console/login", "/console/style.css"]) {
    const response = await test.fetch(path);
    assertEquals([response.status, response.headers.get("X-Error-Code")], [404, "NOT_FOUND"]);
  }
});

testWith(
  ["net"],
  "startApp() logs the address of the console, with the port that it has",
  async () => {
    const records: LogRecord[] = [];
    const lineIn = async (more: Readonly<Record<string, string>>) => {
      const served = { ...env, HOST: "127.0.0.1", PORT: "0", ...more };
      const app = appWith(consoleMount({ path: "/admin" }));
      await using started = await startApp(app, { env: served, log: (each) => records.push(each) });
      const listening = records.findLast(({ message }) => message === "listening");
      return { logged: listening?.console, url: started.url };
    };
    const { logged, url } = await lineIn({ CONSOLE_OPERATOR_TOKEN: OPERATOR });
    assertEquals(logged, `${url}/admin`);
    assertEquals((await lineIn({})).logged, undefined);
  },
);

Deno.test("an app has a console with a token, behind its log and its headers", async () => {
  const env = { CONSOLE_OPERATOR_TOKEN: OPERATOR, CONSOLE_ENVIRONMENT: "staging" };
  await using test = await startTestBot(appWith(consoleMount({ path: "/admin/console" })), { env });
  const body = new URLSearchParams({ token: OPERATOR });
  const headers = { Origin: "http://localhost" };
  const login = await test.fetch("/admin/console/login", { method: "POST", body, headers });
  const Cookie = login.headers.get("Set-Cookie")!.split(";")[0]!;
  await test.deliver(forgeDelivery("push", { ref: "refs/heads/main" }));
  const overview = async () =>
    await (await test.fetch("/admin/console/", { headers: { Cookie } })).text();
  // On a busy machine the first pages come before the numbers are read.
  await until(async () => (await overview()).includes("push"), 60_000);
  const page = await overview();
  assertStringIncludes(page, "staging");
  assert(!page.includes('href="send"'));
  assertEquals((await test.fetch("/admin/console/send", { headers: { Cookie } })).status, 404);
  const before = test.logs.length;
  await (await test.fetch("/admin/console/", { headers: { Cookie, "X-Poll": "1" } })).text();
  assertEquals(test.logs.length, before);
  // Reading a payload is news, whatever the request says.
  await (await test.fetch("/admin/console/payload?id=x", { headers: { Cookie, "X-Poll": "1" } }))
    .text();
  assertEquals(test.logs.length, before + 1);
  // Without a session a refresh is logged like any other request.
  await test.fetch("/admin/console/", { headers: { "X-Poll": "1" } });
  assertEquals(test.logs.length, before + 2);
});

Deno.test("an app reports wrong tokens of its console with all other variables", async () => {
  const cases: [Record<string, string>, string][] = [
    [{ CONSOLE_TOKEN: "short" }, "CONSOLE_TOKEN must be at least 32 random characters, as"],
    [{ CONSOLE_TOKEN: "a".repeat(40) }, "CONSOLE_TOKEN must be at least 32 random characters"],
    [
      { CONSOLE_OPERATOR_TOKEN: `${OPERATOR}\n` },
      "CONSOLE_OPERATOR_TOKEN begins or ends with white space",
    ],
    [{ CONSOLE_TOKEN: OPERATOR, CONSOLE_OPERATOR_TOKEN: OPERATOR }, "must differ"],
    [
      { CONSOLE_ENVIRONMENT: "x".repeat(41), CONSOLE_TOKEN: "short" },
      "CONSOLE_ENVIRONMENT must be a text",
    ],
  ];
  for (const [wrong, message] of cases) {
    const error = await assertRejects(() => openApp(appWith(consoleMount()), { env: wrong }));
    assertStringIncludes((error as Error).message, message);
    assertStringIncludes((error as Error).message, "GITHUB_WEBHOOK_SECRET");
    assert(!(error as Error).message.includes(OPERATOR));
  }
});
