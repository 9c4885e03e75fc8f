/**
 * Makes screenshots of the console, in both themes and at the width of a phone:
 * `deno run -A dev/tools/console_screenshots.ts FOLDER`. With `--write` it makes only those that the
 * documents show, in `docs/images/`.
 *
 * @module
 */

import { events } from "../../app/mod.ts";
import { consoleMount } from "../../console/mod.ts";
import { defineApp, github, startApp } from "../../mod.ts";
import { forgeDelivery } from "../../testing/mod.ts";
import { findChromium, startBrowser } from "../harness/browser.ts";

const [folder = "."] = Deno.args;
/** Pictures of the documents, by page, in the light theme on a wide screen. */
const SHOWN: Readonly<Record<string, string>> = {
  overview: "console-overview",
  delivery: "console-delivery",
};
const isWriting = folder === "--write";
const IMAGES = new URL("../../docs/images/", import.meta.url).pathname;

/** Path of a picture; undefined if it is not wanted. */
function pathOf(name: string, theme: string, device: string): string | undefined {
  if (!isWriting) return `${folder}/${name}-${theme}-${device}.png`;
  const isShown = SHOWN[name] !== undefined && theme === "light" && device === "wide";
  return isShown ? `${IMAGES}${SHOWN[name]}.png` : undefined;
}

const TOKEN = "9f2c4b7e1d8a6053c9f2c4b7e1d8a605";
const SECRET = "It's a Secret to Everybody";

const mails = events<{ welcome: { to: string } }>("mails");
const bot = defineApp({
  ...{ name: "triage-bot", platform: github() },
  worker: { concurrency: 20, retry: { maxAttempts: 2, minDelayMs: 1_000, maxDelayMs: 1_000 } },
  mounts: [consoleMount()],
});
bot.on("push", () => new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 40)));
bot.on("issues", ({ payload }) => {
  if (payload.issue.number % 12 === 0) {
    throw new Error(`GitHub answered 502 to POST /repos/issues/${payload.issue.number}/labels`);
  }
});
bot.on(
  "release",
  (_event, { signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)),
);
bot.from(mails).on("welcome", () => {});

const env = {
  ...{ GITHUB_WEBHOOK_SECRET: SECRET, KV_URL: ":memory:", HOST: "127.0.0.1", PORT: "0" },
  ...{ CONSOLE_OPERATOR_TOKEN: TOKEN, CONSOLE_ENVIRONMENT: "development" },
};
await using app = await startApp(bot, { env, log: () => {}, graceMs: 0 });

async function send(type: string, payload: object, bad = false): Promise<void> {
  const secret = bad ? "wrong" : SECRET;
  const { headers, body } = forgeDelivery(type, payload, { secret });
  await (await fetch(`${app.url}/webhook`, { method: "POST", headers, body })).text();
}

const repository = (name: string) => ({
  ...{ id: 1_296_269, full_name: `octocat/${name}`, name, private: false, stars: 80 },
  owner: { login: "octocat", id: 583_231 },
});
const sender = { id: 583_231, login: "octocat", type: "User" };

// An hour in a few seconds: the time of day is set for each minute of it.
const now = Date.now.bind(Date);
let backMs = 0;
Date.now = () => now() - backMs;
let count = 0;
for (let minute = 59; minute >= 0; minute--) {
  backMs = minute * 60_000;
  for (let i = 0; i < 2 + Math.round(6 * (1 + Math.sin(minute / 7))) + minute % 3; i++) {
    count++;
    const common = { repository: repository(["hello-world", "docs", "api"][count % 3]!), sender };
    const issue = {
      id: count,
      number: count,
      title: "Found a bug",
      body: "Help!\n<b>It broke</b>",
      labels: [{ name: "bug", color: "d73a4a" }],
    };
    if (count % 4 === 0) await send("issues", { action: "opened", issue, ...common });
    else await send("push", { ref: "refs/heads/main", commits: [], ...common });
    if (count % 60 === 0) await send("push", {}, true);
  }
  await new Promise((resolve) => setTimeout(resolve, 150));
}
await send("release", {
  action: "published",
  release: { id: 1, tag_name: "v1.0" },
  repository: repository("site"),
  sender,
});
await send("release", {
  action: "published",
  release: { id: 2, tag_name: "v1.1" },
  repository: repository("site"),
  sender,
});
await app.store.emit(mails, "welcome", { to: "ada@example.com" }, { delayMs: 3_600_000 });
await new Promise((resolve) => setTimeout(resolve, 1_500));

const browser = await startBrowser(findChromium()!);
const dead = (await Array.fromAsync(app.store.list({ state: "dead", limit: 2 })))[0]?.id ?? "";
const other =
  (await Array.fromAsync(app.store.list({ state: "dead", order: "newest", limit: 1 })))[0]?.id ??
    "";
const release =
  (await Array.fromAsync(app.store.list({ type: "release", state: "running" })))[0]?.id ?? "";
const pages = {
  login: "login",
  overview: "./",
  deliveries: "deliveries",
  dead: "deliveries?state=dead",
  acting: `act?kind=replay&id=${encodeURIComponent(other)}`,
  delivery: `delivery?${new URLSearchParams({ id: other })}`,
  running: `delivery?${new URLSearchParams({ id: release })}`,
  confirm: "act?kind=replay&state=dead",
  acts: "acts",
  send: "send",
  empty: "deliveries?type=nothing",
};
const operator = await browser.newPage();
await operator.goto(`${app.url}/console/login`);
await operator.fill("#token", TOKEN);
await operator.click("button");
for (
  const path of [
    `act?${new URLSearchParams({ kind: "purge", id: dead })}`,
    "act?kind=cancel&state=queued",
  ]
) {
  await operator.goto(`${app.url}/console/${path}`);
  await operator.click("main button");
}
await operator.waitForTimeout(3_000);

for (const theme of ["light", "dark"] as const) {
  for (const [device, width, height] of [["wide", 1280, 640], ["phone", 390, 800]] as const) {
    const context = await browser.newContext({ colorScheme: theme, viewport: { width, height } });
    const page = await context.newPage();
    for (const [name, address] of Object.entries(pages)) {
      await page.goto(`${app.url}/console/${address}`);
      const isFull = device === "phone";
      if (name === "overview") await page.waitForTimeout(2_500);
      const path = pathOf(name, theme, device);
      if (path) await page.screenshot({ path, fullPage: isFull });
      if (name === "login") {
        await page.fill("#token", TOKEN);
        await page.click("button");
      }
    }
    await context.close();
  }
}
await browser.close();
Deno.exit(0);
