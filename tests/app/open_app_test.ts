import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { Hono } from "@hono/hono";
import {
  type App,
  defineApp,
  definePlatform,
  github,
  kv,
  type LogRecord,
  openApp,
  openEventStore,
  startApp,
} from "../../mod.ts";
import { events } from "../../app/mod.ts";
import { forgeDelivery, TEST_SECRETS } from "../../testing/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { assertWithin } from "../_within.ts";

const ENV = {
  GITHUB_WEBHOOK_SECRET: TEST_SECRETS.signing,
  KV_URL: ":memory:",
  HOST: "127.0.0.1",
  PORT: "0",
};

const FILES = ["read", "write"] as const;

const webhook = (url = "http://localhost") => {
  const { method, headers, body } = forgeDelivery("push", { ref: "main" }, { id: "1" });
  return new Request(`${url}/webhook`, { method, headers, body });
};

/** An app that notes what is opened, handled and closed, and in which order. */
function noting(fails?: "resources" | "routes") {
  const seen: string[] = [];
  const bot = defineApp({
    name: "bot",
    platform: github(),
    resources: ({ defer }) => {
      for (const each of ["first", "second"]) defer(() => seen.push(`closes the ${each}`));
      seen.push("opens");
      if (fails === "resources") throw new Error("no connection");
      return { seen };
    },
    routes: (app) => {
      if (fails === "routes") throw new Error("no route");
      app.get("/hello", (c) => c.text("hi"));
    },
  });
  bot.on("push", async () => {
    await new Promise((resolve) => setTimeout(resolve, 30));
    seen.push("handles");
  });
  return { bot, seen };
}

const CLOSED = ["closes the second", "closes the first"];

const quiet = { env: ENV, log: () => {} };

Deno.test("openApp() serves nothing, and can be mounted in a server of one's own", async () => {
  const { bot, seen } = noting();
  await using opened = await openApp(bot, quiet);
  const own = new Hono().get("/", (c) => c.text("mine")).mount("/bot", opened.fetch as never);
  assertEquals(await (await own.request("/")).text(), "mine");
  assertEquals(await (await own.request("/bot/hello")).text(), "hi");
  assertEquals((await own.request(webhook("http://localhost/bot"))).status, 200);
  await opened.worker.poll();
  assertEquals((await opened.store.get("github:1"))?.state, "done");
  assertEquals(seen, ["opens", "handles"]);
});

Deno.test("stop() waits for handlers, and then closes what was opened, the latest first, once", async () => {
  const { bot, seen } = noting();
  const opened = await openApp(bot, quiet);
  await opened.fetch(webhook());
  await Promise.all([opened.stop(), opened.stop()]);
  await opened.stop();
  assertEquals(seen.filter((each) => each !== "handles"), ["opens", ...CLOSED]);
  const ready = await opened.fetch(new Request("http://localhost/health/ready"));
  assertEquals(ready.status, 503);
  await ready.text();
});

for (const fails of ["resources", "routes"] as const) {
  Deno.test(`openApp() closes what it has opened if ${fails} fail`, async () => {
    const { bot, seen } = noting(fails);
    await assertRejects(() => openApp(bot, quiet), Error, "no ");
    assertEquals(seen, ["opens", ...CLOSED]);
  });
}

type Defer = (close: () => unknown) => void;

/** Opens an app whose resources defer this after a function that notes its call, and closes it. */
async function closing(more: (defer: Defer) => unknown) {
  const logs: LogRecord[] = [];
  const seen: string[] = [];
  const bot = defineApp({
    name: "bot",
    platform: github(),
    resources: async ({ defer }) => {
      defer(() => seen.push("closed"));
      await more(defer);
    },
  });
  const stop = async () =>
    await (await openApp(bot, { env: ENV, log: (record) => void logs.push(record) })).stop();
  await assertWithin(15_000, async () => {
    const start = performance.now();
    await stop().catch((error) => seen.push(error.message));
    return performance.now() - start;
  });
  const failed = logs.filter(({ message }) => message === "resource not closed");
  return { seen, failed: failed.map(({ level, error }) => `${level} ${(error as Error).message}`) };
}

Deno.test("stop() goes on closing when a resource cannot be closed, or takes too long, and logs that", async () => {
  const rejecting = await closing((defer) => defer(() => Promise.reject(new Error("stuck"))));
  assertEquals([rejecting.seen, rejecting.failed], [["closed"], ["error stuck"]]);
  const hanging = await closing((defer) => defer(() => new Promise(() => {})));
  assertEquals([hanging.seen, hanging.failed], [["closed"], ["error No answer within 1000 ms"]]);
});

Deno.test("defer() refuses what is no function, and closes at once what comes when all is closed", async () => {
  const message = "Cannot defer closing: 'close' must be a function, got undefined";
  const wrong = await closing((defer) => defer(undefined as never));
  assertEquals(wrong.seen, ["closed", message]);
  let late: Defer | undefined;
  const failing = await closing((defer) => {
    late = defer;
    return Promise.reject(new Error("no connection"));
  });
  late!(() => failing.seen.push("closed late"));
  await new Promise((resolve) => setTimeout(resolve, 0));
  assertEquals(failing.seen, ["closed", "no connection", "closed late"]);
});

Deno.test("stop() with a grace that makes no sense can be called again", async () => {
  const { bot, seen } = noting();
  const app = await openApp(bot, quiet);
  await assertRejects(() => app.stop({ graceMs: -1 }), RangeError, "'graceMs'");
  await app.stop();
  assertEquals(seen, ["opens", ...CLOSED]);
});

Deno.test("openApp() takes a KV, and leaves it open", async () => {
  using opened = await Deno.openKv(":memory:");
  const { bot } = noting();
  {
    await using app = await openApp(bot, { ...quiet, store: kv(opened) });
    await app.fetch(webhook());
  }
  const store = await openEventStore(opened, { namespace: "bot" });
  assert(await store.get("github:1"));
});

Deno.test("openApp() opens no resources where others are given", async () => {
  const { bot, seen } = noting();
  const fake: string[] = ["fake"];
  await using opened = await openApp(bot, { ...quiet, resources: { seen: fake } });
  await opened.fetch(webhook());
  assertEquals(seen, []);
});

Deno.test("openApp() passes the app's variables on as bindings, and no secret", async () => {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    routes: (app) => app.get("/env", (c) => c.json(Object.keys(c.env))),
  });
  await using opened = await openApp(bot, quiet);
  const response = await opened.fetch(new Request("http://localhost/env"));
  assertEquals(await response.json(), ["remoteAddr"]);
});

Deno.test("openApp() counts the 4xx of a client, by the connection, and lets the genuine through", async () => {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    rateLimit: { limit: 2, window: 60_000 },
  });
  await using opened = await openApp(bot, quiet);
  const from = (hostname: string) =>
    ({ remoteAddr: { transport: "tcp", hostname, port: 1 } }) as const;
  const forged = () => new Request("http://localhost/webhook", { method: "POST", body: "{}" });
  const statuses = [];
  for (const address of ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"]) {
    statuses.push((await opened.fetch(forged(), from(address))).status);
  }
  assertEquals(statuses, [401, 401, 429, 401]);
  assertEquals((await opened.fetch(webhook(), from("192.0.2.1"))).status, 200);
});

testWith(
  ["net"],
  "startApp() listens at the address of the variables, and ends with its scope",
  async () => {
    const { bot, seen } = noting();
    let url = "";
    {
      await using app = await startApp(bot, quiet);
      url = app.url;
      assertEquals(await (await fetch(`${url}/hello`)).text(), "hi");
      const response = await fetch(webhook(url));
      assertEquals([response.status, await response.text()], [200, "OK"]);
      await app.worker.poll();
      app.stop();
      await app.finished;
    }
    assertEquals(seen, ["opens", "handles", ...CLOSED]);
    await assertRejects(() => fetch(url));
  },
);

testWith(["net"], "startApp() closes what it has opened if the port is taken", async () => {
  const { bot } = noting();
  await using first = await startApp(bot, quiet);
  const { bot: second, seen } = noting();
  const env = { ...ENV, PORT: new URL(first.url).port };
  const { message } = await assertRejects(() => startApp(second, { ...quiet, env }), Error);
  assertStringIncludes(message, "(HOST and PORT) cannot be listened on");
  assertEquals(seen, ["opens", ...CLOSED]);
});

testWith(["net"], "finished rejects if no handler ends any more", async () => {
  const released = Promise.withResolvers<void>();
  const bot = defineApp({
    name: "bot",
    platform: github(),
    worker: { concurrency: 1, timeoutMs: 20 },
  });
  bot.on("push", () => released.promise);
  await using app = await startApp(bot, { ...quiet, graceMs: 0 });
  assertEquals(await (await fetch(webhook(app.url))).text(), "OK");
  await assertRejects(() => app.finished, Error, "Handlers did not end within their time limits");
  released.resolve();
});

testWith(
  FILES,
  "openApp() finds its events again in the file that KV_URL names",
  () =>
    withFolder(async (folder) => {
      const env = { ...ENV, KV_URL: `${folder}/kv.db` };
      const { bot, seen } = noting();
      {
        await using opened = await openApp(bot, { ...quiet, env });
        await opened.fetch(webhook());
        await opened.worker.poll();
      }
      await using opened = await openApp(bot, { ...quiet, env });
      assertEquals((await opened.fetch(webhook())).status, 200);
      await opened.worker.poll();
      assertEquals(seen.filter((each) => each === "handles").length, 1);
    }),
);

Deno.test("an app without handlers says that it ignores each event, and others do not", async () => {
  const messagesOf = async (bot: App) => {
    const messages: string[] = [];
    const log = (record: LogRecord) => void messages.push(`${record.level} ${record.message}`);
    await using _opened = await openApp(bot, { env: ENV, log });
    return messages;
  };
  const define = () => defineApp({ name: "bot", platform: github() });
  assertEquals(await messagesOf(define()), ["warn no handlers"]);
  assertEquals(await messagesOf(define().onOther(() => {})), []);
  assertEquals(await messagesOf(define().schedule("digest", "@daily", () => {})), [
    "info cron schedule begins",
  ]);
  const own = define();
  own.from(events("jobs")).onAny(() => {});
  assertEquals(await messagesOf(own), []);
});

Deno.test("openApp() warns of handlers for events that are probably misspelt", async () => {
  const records: LogRecord[] = [];
  // Whoever runs an app without a check of types gets no error.
  const names = ["isues.opened", "push", "deploy.done"] as unknown as "push"[];
  const bot = defineApp({ name: "bot", platform: github() }).on(names, () => {}).onAny(() => {});
  await using _app = await openApp(bot, { env: ENV, log: (record) => records.push(record) });
  const warned = records.filter(({ level }) => level === "warn");
  assertEquals(warned.map(({ time: _, ...record }) => record), [{
    ...{ level: "warn", message: "no such event", name: "bot", platform: "github" },
    ...{ event: "isues.opened", didYouMean: "issues.opened" },
  }]);
});

Deno.test("openApp() has no names for a platform of the app's own, whatever its kind", async () => {
  const records: LogRecord[] = [];
  const platform = definePlatform({
    ...{ name: "own", kind: "forge", createVerifier: () => () => () => {} },
    parse: () => ({ type: "isues", payload: {} }),
  });
  const bot = defineApp({ name: "bot", platform }).on("isues", () => {});
  await using _app = await openApp(bot, { env: ENV, log: (record) => records.push(record) });
  assertEquals(records.filter(({ level }) => level === "warn"), []);
});

testWith(["net"], "startApp() logs text if LOG_FORMAT says so", async () => {
  const { log } = console;
  const lines: unknown[] = [];
  console.log = (line: unknown) => lines.push(line);
  try {
    const bot = defineApp({ name: "bot", platform: github() }).onAny(() => {});
    await using _app = await startApp(bot, { env: { ...ENV, LOG_FORMAT: "text" } });
  } finally {
    console.log = log;
  }
  assertMatch(String(lines[0]), /^[\d:.]{12} .*INFO.* listening .*name=bot/);
});
