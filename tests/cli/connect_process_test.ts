import { assertEquals, assertStringIncludes } from "@std/assert";
import { appCommand, startApp } from "../../dev/harness/start_app.ts";
import { freePort } from "../../dev/harness/free_port.ts";
import { until } from "../../dev/harness/until.ts";
import { TEST_SECRETS } from "../../testing/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { runHere } from "./_cli.ts";
import { startConnect, startIntakeApp, VARIABLES } from "./_connect.ts";
import { FakeGithub } from "../catch_up/_fake_github.ts";
import { ended } from "./_process.ts";
import { FakeTelegram, message } from "./_telegram_api.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const APPS = new URL("../../apps/", import.meta.url);
const MAIN = new URL("../../cli/main.ts", import.meta.url);

/** Longest wait for what another process does. */
const LONG_MS = 30_000;

/** Starts one of the package's apps on a port, with its events in a folder. */
function startAppAt(name: "forge" | "messenger", port: number, folder: string) {
  return startApp({
    script: new URL(`${name}.ts`, APPS),
    flags: ["-A", "--unstable-kv"],
    env: {
      ...{ PORT: String(port), KV_URL: `${folder}/kv.db`, MESSENGER_ALLOWED_USERS: "42" },
      FORGE_WEBHOOK_SECRET: TEST_SECRETS.signing,
      MESSENGER_SECRET_TOKEN: TEST_SECRETS.messenger,
    },
  });
}

/** Starts `connect` in a process that may read its variables and use loopback, and nothing else. */
function startTool(...args: string[]): Deno.ChildProcess {
  const names = [
    ...Object.keys(VARIABLES),
    "PORT",
    "MESSENGER_SECRET_TOKEN",
    "FORGE_WEBHOOK_SECRET",
  ];
  const flags = [`--allow-env=${names}`, "--allow-net=127.0.0.1"];
  return appCommand({ script: MAIN, args: ["connect", ...args], env: VARIABLES, flags }).spawn();
}

/** Lists the delivery ids that are stored, in the order received. */
async function storedIn(folder: string): Promise<string[]> {
  const { out } = await runHere(["events", "list", "--json", "--kv", `${folder}/kv.db`]);
  return out.map((line) => JSON.parse(line).deliveryId);
}

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

testWith(NEEDS, "connect telegram --forward waits for the app, and loses nothing", async () => {
  await withFolder(async (folder) => {
    await using telegram = new FakeTelegram();
    for (const id of numbers(120)) telegram.push(message(id));
    telegram.push(message(121, 43));
    telegram.push(message(122));
    const port = freePort();
    const url = `http://127.0.0.1:${port}`;
    const args = ["telegram", "--forward", "--api", telegram.url, "--url", url];
    const forward = startConnect(args);
    await forward.line(`Nothing listens at 127.0.0.1:${port}: start the app, or give its address`);
    assertEquals(telegram.callsOf("getUpdates").length, 1);
    await using app = startAppAt("messenger", port, folder);
    await forward.line("message 122  200 OK");
    assertEquals((await forward.interrupt()).code, 130);
    assertEquals(
      forward.out.filter((line) => line.startsWith("message 121  403 AUTH_001")).length,
      1,
    );
    assertEquals(await storedIn(folder), [...numbers(120), 122].map(String));
    assertEquals([await app.stop(), telegram.pending], [0, 0]);
  });
});

testWith(NEEDS, "connect github --forward outlives a restart of the app", async () => {
  await withFolder(async (folder) => {
    await using github = new FakeGithub("https://bot.example.com/webhook");
    const push = (number: number) =>
      github.push({
        ...{ id: `900719925474099${number}`, guid: `guid-${number}`, event: "issues" },
        payload: `{"action":"opened","issue":{"id":9007199254740993}}`,
      });
    const port = freePort();
    const url = `http://127.0.0.1:${port}`;
    const args = ["github", "acme/site", "--forward", "--api", github.url, "--url", url];
    const forward = startConnect(args);
    await forward.line("New deliveries go to the app");
    {
      await using app = startAppAt("forge", port, folder);
      await app.url;
      push(1);
      await forward.line("issues guid-1  200 OK");
      assertEquals(await app.stop(), 0);
    }
    for (const number of [2, 3, 4]) push(number);
    await forward.line(`Nothing listens at 127.0.0.1:${port}`);
    await using app = startAppAt("forge", port, folder);
    await forward.line("issues guid-4  200 OK");
    assertEquals((await forward.interrupt()).code, 130);
    assertEquals(await storedIn(folder), ["guid-1", "guid-2", "guid-3", "guid-4"]);
    assertEquals(await app.stop(), 0);
  });
});

testWith(
  NEEDS,
  "an update comes again if the tool is killed before it asks for the next",
  async () => {
    await using telegram = new FakeTelegram();
    const second = Promise.withResolvers<void>();
    await using app = await startIntakeApp("messenger", async (count) => {
      if (count === 1) await second.promise;
      return undefined;
    });
    telegram.push(message(1));
    telegram.push(message(2));
    const args = ["telegram", "--forward", "--api", telegram.url, "--url", app.url, "--json"];
    const killed = startTool(...args);
    await until(() => app.seen.length === 1, LONG_MS);
    killed.kill("SIGKILL");
    await ended(killed);
    assertEquals(telegram.pending, 2);
    second.resolve();
    const again = startTool(...args);
    await until(() => telegram.pending === 0, LONG_MS);
    again.kill("SIGINT");
    const { code, out, err } = await ended(again);
    assertEquals([code, err.includes("Ctrl-C ends this")], [130, true]);
    assertStringIncludes(out, '{"forwarded":2,"refused":0,"interrupted":true}');
    assertEquals((await app.events()).length, 2);
    assertEquals(app.seen.filter(({ status }) => status === 200).length >= 3, true);
  },
);

testWith(NEEDS, "Ctrl-C ends connect while it waits, and tells Telegram what is done", async () => {
  await using telegram = new FakeTelegram();
  await using app = await startIntakeApp("messenger");
  telegram.push(message(1));
  const tool = startTool("telegram", "--forward", "--api", telegram.url, "--url", app.url);
  await until(() => telegram.callsOf("getUpdates").length === 2, LONG_MS);
  tool.kill("SIGINT");
  const { code, out } = await ended(tool);
  assertEquals([code, out.trimEnd().split("\n").at(-1)], [
    130,
    "1 forwarded, 0 refused, interrupted",
  ]);
  assertEquals(telegram.pending, 0);
});
