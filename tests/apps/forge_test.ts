import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import forge from "../../apps/forge.ts";
import { openEventStore, startApp } from "../../mod.ts";
import { forgeDelivery, sign } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { assertWithin } from "../_within.ts";
import { testDenokv } from "../events/store/kv/_denokv.ts";
import { APP_NEEDS, type Line, runToEnd, spawnApp } from "./_app.ts";
import { answerTo } from "./_deliver.ts";
import { connect, FORGED } from "./_raw.ts";

const SECRET = "It's a Secret to Everybody";
const ENV = { FORGE_WEBHOOK_SECRET: SECRET, KV_URL: ":memory:" };

const isHandled = (id: string) => (line: Line) =>
  line.message === "event handled" && line.deliveryId === id;

const signedWith = (secret: string) =>
  forgeDelivery("{}", { "X-Hub-Signature-256": sign("{}", secret) });

Deno.test("apps/forge.ts starts nothing when it is imported", () => {
  assertEquals(forge.definition.name, "forge");
});

const OTHERS_SECRET = "the messenger's secret";

testWith(
  APP_NEEDS,
  "apps/forge.ts hands what is signed with its secret to its handler",
  async () => {
    await using app = spawnApp("forge", { ...ENV, MESSENGER_SECRET_TOKEN: OTHERS_SECRET });
    const delivery = forgeDelivery("{}", { "X-Forge-Delivery": "d1" });
    assertEquals(await answerTo(app, delivery), [200, "OK"]);
    const { time: _, requestId, durationMs, ...line } = await app.line(isHandled("d1"));
    assertEquals(line, {
      ...{ level: "info", message: "event handled" },
      ...{ platform: "forge", type: "push", eventId: "forge:d1", deliveryId: "d1", attempt: 1 },
    });
    assertMatch(String(requestId), /^[\w-]{36}$/);
    assertEquals(typeof durationMs, "number");
    const refused = [401, `{"error":"Invalid signature"}`];
    assertEquals(await answerTo(app, signedWith(OTHERS_SECRET)), refused);
  },
);

testWith(
  APP_NEEDS,
  "apps/forge.ts takes two secrets, and logs which one has verified",
  async () => {
    const rotating = { FORGE_WEBHOOK_SECRET_PREVIOUS: "the old secret's text" };
    await using app = spawnApp("forge", { ...ENV, ...rotating });
    for (const secret of [SECRET, "the old secret's text"]) {
      assertEquals((await answerTo(app, signedWith(secret)))[0], 200);
    }
    await app.line(({ verifiedBy }) => verifiedBy === "secret 2");
    const requests = app.lines.filter(({ message }) => message === "request");
    assertEquals(requests.map(({ verifiedBy }) => verifiedBy), ["secret 1", "secret 2"]);
  },
);

testWith(APP_NEEDS, "apps/forge.ts takes GitLab's token by its own variable only", async () => {
  const token = "a-token-that-travels";
  await using app = spawnApp("forge", { KV_URL: ":memory:", FORGE_WEBHOOK_TOKEN: token });
  const headers = { "X-Gitlab-Token": token, "X-Gitlab-Event": "Push Hook" };
  const sent = { method: "POST", headers: { ...headers, "Content-Type": "application/json" } };
  assertEquals(await answerTo(app, { ...sent, body: "{}" }), [200, "OK"]);
  await using other = spawnApp("forge", { ...ENV, FORGE_WEBHOOK_SECRET: token });
  assertEquals((await answerTo(other, { ...sent, body: "{}" }))[0], 401);
});

testWith(
  APP_NEEDS,
  "apps/forge.ts limits an address that forges, and takes 2,000 genuine deliveries of it",
  async () => {
    await using app = spawnApp("forge", ENV);
    const forged = forgeDelivery("{}", FORGED);
    for (let i = 0; i < 100; i++) assertEquals((await answerTo(app, forged))[0], 401);
    assertEquals(await answerTo(app, forged), [429, `{"error":"Too Many Requests"}`]);
    const statuses = new Set<number>();
    for (let i = 0; i < 2_000; i += 50) {
      const batch = Array.from({ length: 50 }, () => answerTo(app, forgeDelivery("{}")));
      for (const [status] of await Promise.all(batch)) statuses.add(status);
    }
    assertEquals([...statuses], [200]);
  },
);

testWith(APP_NEEDS, "apps/forge.ts has stored what it acknowledged when it is killed", async () => {
  await withFolder(async (folder) => {
    const acknowledged: string[] = [];
    {
      await using app = spawnApp("forge", { ...ENV, KV_URL: `${folder}/kv.db` });
      await app.url;
      let sent = 0;
      const send = async () => {
        // Until the app is gone: several deliveries are acknowledged at once, and none may be the last.
        for (let id = `d${sent++}`;; id = `d${sent++}`) {
          const [status] = await answerTo(app, forgeDelivery("{}", { "X-Forge-Delivery": id }));
          if (status === 200) acknowledged.push(id);
          if (acknowledged.length === 50) app.process.kill("SIGKILL");
        }
      };
      const sending = Array.from({ length: 50 }, send);
      await Promise.allSettled(sending);
    }
    using kv = await Deno.openKv(`${folder}/kv.db`);
    const store = await openEventStore(kv, { namespace: "forge", notifier: "watch" });
    assert(acknowledged.length >= 50);
    for (const id of acknowledged) assertEquals((await store.get(`forge:${id}`))?.deliveryId, id);
  });
});

testWith(APP_NEEDS, "apps/forge.ts knows a delivery again after a restart", async () => {
  await withFolder(async (folder) => {
    const env = { ...ENV, KV_URL: `${folder}/kv.db` };
    const first = forgeDelivery("{}", { "X-Forge-Delivery": "d1" });
    {
      await using app = spawnApp("forge", env);
      await answerTo(app, first);
      await app.line(isHandled("d1"));
    }
    await using app = spawnApp("forge", env);
    assertEquals(await answerTo(app, first), [200, "OK"]);
    await answerTo(app, forgeDelivery("{}", { "X-Forge-Delivery": "d2" }));
    await app.line(isHandled("d2"));
    assertEquals(app.lines.filter(isHandled("d1")), []);
  });
});

testWith(
  APP_NEEDS,
  "apps/forge.ts ends with 0 on a signal, whatever a peer holds open",
  async () => {
    await Promise.all(
      (["SIGINT", "SIGTERM"] as const).map((signal) =>
        assertWithin(5_000, async () => {
          await using app = spawnApp("forge", ENV);
          using peer = await connect(app, { "X-Hub-Signature-256": "x", "Content-Length": "9" });
          await peer.write(new TextEncoder().encode("{"));
          const start = performance.now();
          app.process.kill(signal);
          assertEquals((await app.process.status).code, 0);
          return performance.now() - start;
        })
      ),
    );
  },
);

const BAD_START: readonly [string, Record<string, string>, RegExp][] = [
  ["its secret is missing", {}, /FORGE_WEBHOOK_SECRET is not set/],
  ["its secret is empty", { FORGE_WEBHOOK_SECRET: "" }, /FORGE_WEBHOOK_SECRET is blank/],
  ["its secret is blank", { FORGE_WEBHOOK_SECRET: " \t" }, /FORGE_WEBHOOK_SECRET is blank/],
  ["PORT is no number", { ...ENV, PORT: "http" }, /PORT must be a whole number/],
  ["PORT is too large", { ...ENV, PORT: "65536" }, /PORT must be a whole number/],
  ["NOTIFIER is unknown", { ...ENV, NOTIFIER: "push" }, /NOTIFIER must be/],
  [
    "LOG_FORMAT is unknown",
    { ...ENV, LOG_FORMAT: "pretty" },
    /LOG_FORMAT must be auto, json or text$/,
  ],
  [
    "TRUSTED_PROXY_HOPS is negative",
    { ...ENV, TRUSTED_PROXY_HOPS: "-1" },
    /TRUSTED_PROXY_HOPS must/,
  ],
  [
    "the folder of its KV is missing",
    { ...ENV, KV_URL: "./in-the-url/folder/kv.db" },
    /KV_URL names cannot be used: the folder .* does not exist/,
  ],
  ["its KV is a folder", { ...ENV, KV_URL: "." }, /KV_URL .* it is a folder/],
  ["its KV is a file of another kind", { ...ENV, KV_URL: "deno.json" }, /KV_URL .* not a database/],
  [
    "its KV is at a URL that no KV has",
    { ...ENV, KV_URL: "redis://user:in-the-url@127.0.0.1" },
    /KV_URL must be a path, :memory: or a URL with http or https, and begins with redis:$/,
  ],
  [
    "addresses would be taken from a header",
    { ...ENV, DENO_TRUST_PROXY_HEADERS: "1" },
    /DENO_TRUST_PROXY_HEADERS must not be set outside Deno Deploy/,
  ],
  ["HOST is not this machine's", { ...ENV, PORT: "0", HOST: "192.0.2.1" }, /./],
];

for (const [when, env, expected] of BAD_START) {
  testWith(APP_NEEDS, `apps/forge.ts does not start when ${when}`, async () => {
    const { message } = await assertRejects(() => startApp(forge, { env, log: () => {} }), Error);
    assertMatch(message, expected);
    for (const hidden of ["in-the-url", SECRET]) assert(!message.includes(hidden), message);
  });
}

const ON_DEPLOY = { FORGE_WEBHOOK_SECRET: SECRET, DENO_DEPLOY: "true" };

/** Wrong in a process: what Deno itself does with a variable, and what is written. */
const BAD_PROCESS: readonly [string, Record<string, string>, RegExp][] = [
  [
    "several variables are wrong, and names all",
    { FORGE_WEBHOOK_SECRET: " ", PORT: "http" },
    /FORGE_WEBHOOK_SECRET is blank.* PORT must be a whole number/,
  ],
  [
    "its KV is a file of another kind, and says so in a line",
    { ...ENV, KV_URL: "deno.json" },
    /KV_URL .* not a database/,
  ],
  [
    "Deno Deploy gives it no database",
    { ...ON_DEPLOY, DENO_KV_DEFAULT_PATH: ":memory:" },
    /no database is assigned to this app/,
  ],
  [
    "Deno Deploy gives it no database, and says so",
    {
      ...ON_DEPLOY,
      DENO_KV_REQUIRES_DISTRIBUTED_DATABASE: "error",
      DENO_KV_DEFAULT_PATH: "./kv.db",
    },
    /no (KV )?database is (assigned|attached) to this app/,
  ],
  [
    "its KV is a file on Deno Deploy",
    { ...ON_DEPLOY, KV_URL: "./kv.db" },
    /KV_URL .* no database is assigned to this app/,
  ],
];

for (const [when, env, expected] of BAD_PROCESS) {
  testWith(APP_NEEDS, `apps/forge.ts does not start when ${when}`, async () => {
    const { code, stderr } = await runToEnd("forge", env);
    assertEquals(code, 1);
    assertMatch(stderr, /^Cannot start forge: [^\n]+$/);
    assertMatch(stderr, expected);
  });
}

testWith(APP_NEEDS, "apps/forge.ts does without queues on Deno Deploy", async () => {
  await using app = spawnApp("forge", { ...ENV, DENO_DEPLOY: "true" });
  assertEquals((await app.line(({ message }) => message === "listening")).notifier, "watch");
  await answerTo(app, forgeDelivery("{}", { "X-Forge-Delivery": "d1" }));
  await app.line(isHandled("d1"));
});

testDenokv(APP_NEEDS, "apps/forge.ts works on a remote KV", async (url) => {
  await using app = spawnApp("forge", { ...ENV, KV_URL: url });
  assertEquals((await app.line(({ message }) => message === "listening")).notifier, "watch");
  await answerTo(app, forgeDelivery("{}", { "X-Forge-Delivery": "d1" }));
  await app.line(isHandled("d1"));
});

testDenokv(
  APP_NEEDS,
  "apps/forge.ts does not start with a notifier that its KV does not have",
  async (url) => {
    const { code, stderr } = await runToEnd("forge", {
      ...ENV,
      KV_URL: url,
      NOTIFIER: "enqueue",
    });
    assertEquals(code, 1);
    assertMatch(stderr, /^Cannot start forge: [^\n]*notifier 'enqueue' needs a KV with queues$/);
  },
);
