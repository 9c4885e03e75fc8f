import { assert, assertEquals, assertMatch } from "@std/assert";
import { environmentOf } from "../../dev/harness/environment.ts";
import { killNow } from "../../dev/harness/follow_app.ts";
import { until } from "../../dev/harness/until.ts";
import { startApp } from "../../dev/harness/start_app.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { testWith, unlessInstalled } from "../_permissions.ts";
import { APP_NEEDS, type OwnAppOptions } from "./_app.ts";
import { deliver } from "./_deliver.ts";

const SCRIPT = new URL("./_own_app.ts", import.meta.url);

const ENV = {
  ...{ FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: ":memory:", PORT: "0", HOST: "127.0.0.1" },
};

/** Tells the shell's process, which becomes the app: signals to `script` do not reach it. */
const RUN =
  'echo "pid $$"; exec "$DENO" run --cached-only --quiet --no-prompt -A "$SCRIPT" "$GIVEN"';

/** Runs the app in a terminal until it has written what is waited for, and returns it, with ␛ for ESC. */
async function writtenToTerminal(
  env: Record<string, string>,
  options: OwnAppOptions,
  until: RegExp,
  send: (url: string) => Promise<unknown> = () => Promise.resolve(),
): Promise<string> {
  const own = {
    ...ENV,
    DENO: Deno.execPath(),
    SCRIPT: SCRIPT.href,
    GIVEN: JSON.stringify(options),
  };
  const process = new Deno.Command("script", {
    args: ["-qec", RUN, "/dev/null"],
    clearEnv: true,
    env: environmentOf({ ...own, NO_COLOR: "", ...env }),
    ...{ stdin: "null", stdout: "piped" },
  }).spawn();
  const tooLong = setTimeout(() => killNow(process), 20_000);
  let text = "";
  let [sent, stopped] = [false, false];
  for await (const some of process.stdout.pipeThrough(new TextDecoderStream())) {
    text += some.replaceAll("\x1b", "␛");
    const port = /port=(?:␛\[0m)?(\d+) /.exec(text)?.[1];
    if (port && !sent) {
      sent = true;
      await send(`http://127.0.0.1:${port}`);
    }
    if (stopped || !until.test(text)) continue;
    stopped = true;
    Deno.kill(Number(/pid (\d+)/.exec(text)![1]), "SIGTERM");
  }
  clearTimeout(tooLong);
  assertEquals((await process.status).code, 0, text);
  return text.replace(/^pid \d+\r\n/, "");
}

/** Registers a test in a terminal, which `script` gives a command. */
function testInTerminal(name: string, fn: () => Promise<void>): void {
  testWith(APP_NEEDS, name, fn, unlessInstalled("script"));
}

testInTerminal(
  "runApp() logs text with colours to a terminal, with the stacks of errors",
  async () => {
    const send = async (url: string) => await deliver({ url: Promise.resolve(url) }, "d1");
    const options = { fails: true, retry: { maxAttempts: 1 } };
    const text = await writtenToTerminal({}, options, /now dead[^]*\n/, send);
    assertMatch(text, /^[\d:.]{12} ␛\[32mINFO ␛\[0m listening {6}.*notifier=/m);
    const failed = /^[\d:.]{12} ␛\[31mERROR␛\[0m event failed for the last time, now dead {2}/m;
    assertMatch(text, failed);
    assertMatch(text, /^␛\[2m {4}at .*_own_app\.ts:\d+:\d+␛\[0m\r$/m);
    assertMatch(text, /INFO ␛\[0m stopping {7}/);
  },
);

testInTerminal("runApp() logs text without colours to a terminal if NO_COLOR is set", async () => {
  const text = await writtenToTerminal({ NO_COLOR: "1" }, {}, /listening/);
  assertMatch(text, /^[\d:.]{12} INFO {2}listening {6}name=own hostname=127\.0\.0\.1 port=\d+/);
  assert(!text.includes("␛"));
});

testInTerminal("runApp() logs JSON to a terminal if LOG_FORMAT says so", async () => {
  const text = await writtenToTerminal({ LOG_FORMAT: "json" }, {}, /listening/);
  const messages = text.trim().split("\r\n").map((line) => JSON.parse(line).message);
  assertEquals(messages, ["listening", "stopping"]);
});

testWith(APP_NEEDS, "runApp() logs JSON to a pipe", async () => {
  await using app = startApp({ script: SCRIPT, args: ["{}"], env: { ...ENV, NO_COLOR: "" } });
  await app.url;
  assertEquals(await app.stop(), 0);
  assertEquals(app.lines.map(({ message }) => message), ["listening", "stopping"]);
});

for (const [where, env] of [["a pipe", {}], ["the console", { DENO_DEPLOY: "1" }]] as const) {
  testWith(APP_NEEDS, `runApp() logs text to ${where} if LOG_FORMAT says so`, async () => {
    const all = { ...ENV, ...env, LOG_FORMAT: "text", NO_COLOR: "" };
    await using app = startApp({ script: SCRIPT, args: ["{}"], env: all, text: true });
    app.url.catch(() => {});
    const isListening = (line: string) => /^[\d:.]{12} INFO {2}listening {6}name=own/.test(line);
    await until(() => app.output.some(isListening), 20_000);
    assertEquals(await app.stop(), 0);
    assert(!app.output.join("").includes("\x1b"));
  });
}
