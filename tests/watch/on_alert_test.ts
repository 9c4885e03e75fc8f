import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { type Alert, events } from "../../app/mod.ts";
import { consoleMount } from "../../console/mod.ts";
import { defineApp, github, RetryLaterError, sqlite } from "../../mod.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../testing/mod.ts";
import { until } from "../../dev/harness/until.ts";

const TOKEN = "0f9e8d7c6b5a49382716f0e9d8c7b6a5";

const MINUTE = 60_000;

/** Defines an app whose alerts are noted; by default with the console. */
function alerting(hasConsole = true) {
  const told: Alert[] = [];
  const bot = defineApp({
    ...{ name: "alerting", platform: github(), store: sqlite(), rateLimit: false },
    mounts: hasConsole ? [consoleMount()] : [],
    onAlert: (alert) => void told.push(alert),
  });
  const words = () => told.map(({ key, state }) => `${key} ${state}`);
  return { bot, told, words, env: hasConsole ? { CONSOLE_OPERATOR_TOKEN: TOKEN } : {} };
}

/** Sends deliveries that are signed with another secret. */
async function sendForged(test: TestBot, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const { headers, body } = forgeDelivery("push", { i });
    const wrong = new Headers(headers);
    wrong.set("X-Hub-Signature-256", `sha256=${"0".repeat(64)}`);
    const response = await test.fetch("/webhook", { method: "POST", headers: wrong, body });
    assertEquals([response.status, await response.text()], [401, '{"error":"Invalid signature"}']);
  }
}

/** Asks for a page of the console as an operator. */
async function page(test: TestBot, path: string): Promise<string> {
  const headers = { Origin: "http://localhost", Host: "localhost" };
  const body = new URLSearchParams({ token: TOKEN });
  const login = await test.fetch("/console/login", { method: "POST", headers, body });
  const Cookie = login.headers.get("Set-Cookie")!.split(";", 1)[0]!;
  const response = await test.fetch(`/console/${path}`, { headers: { Cookie } });
  assertEquals(response.status, 200);
  return await response.text();
}

for (const hasConsole of [true, false]) {
  Deno.test(`a changed secret is told, ${hasConsole ? "with" : "without"} a console, and its end`, async () => {
    const { bot, words, told, env } = alerting(hasConsole);
    bot.on("push", () => {});
    await using test = await startTestBot(bot, { env });
    await test.deliver(forgeDelivery("push", {}));
    await test.advance(2 * MINUTE);
    assertEquals(words(), []);
    await sendForged(test, 3);
    await test.advance(MINUTE);
    assertEquals(words(), ["refused:github begun"]);
    assertMatch(
      told[0]!.text,
      /^3 deliveries to the platform github were refused since \d\d:\d\d UTC: the signature does not match$/,
    );
    await test.advance(MINUTE);
    await test.deliver(forgeDelivery("push", {}));
    await test.advance(0);
    assertEquals(words().length, 1);
    await test.advance(2 * MINUTE);
    assertEquals(words(), ["refused:github begun", "refused:github ended"]);
  });
}

Deno.test("whoever sends wrong signatures beside verified deliveries makes no alert", async () => {
  const { bot, words, env } = alerting(false);
  bot.on("push", () => {});
  await using test = await startTestBot(bot, { env });
  for (let i = 0; i < 6; i++) {
    await test.deliver(forgeDelivery("push", {}));
    await test.advance(MINUTE);
    await sendForged(test, 50);
    await test.advance(3 * MINUTE);
  }
  assertEquals(words(), []);
});

Deno.test("an API that is down is told once, with what has died, and its end", async () => {
  const { bot, words, told, env } = alerting();
  let isDown = true;
  // The problem is told as well, after three of them.
  const rates = () => words().filter((each) => !each.startsWith("problem"));
  bot.on("push", () => {
    if (isDown) throw new Error("503");
  });
  await using test = await startTestBot(bot, { env });
  for (let i = 0; i < 4; i++) {
    await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  }
  await test.advance(0, { expectFailure: true });
  assertEquals(rates(), []);
  await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  await test.advance(0, { expectFailure: true });
  assertEquals(rates(), ["failure_rate begun"]);
  assertEquals(
    told.find(({ kind }) => kind === "failure_rate")!.text,
    "100 % of the 5 attempts of the last 15 minutes have failed (in the hour before: none)",
  );
  isDown = false;
  await test.advance(20 * MINUTE);
  await test.advance(2 * MINUTE);
  assertEquals(rates(), ["failure_rate begun", "failure_rate ended"]);
});

Deno.test("an error that is new is told once it is met again and again, and its end once no event is left", async () => {
  const { bot, words, told, env } = alerting();
  let isBroken = true;
  bot.on("push", ({ payload }) => {
    if (isBroken) throw new Error(`Cannot read ${(payload as unknown as { n: number }).n}`);
  });
  await using test = await startTestBot(bot, { env });
  for (let n = 1; n <= 3; n++) {
    await test.advance(0, { expectFailure: true });
    assertEquals(words(), []);
    await test.deliver(forgeDelivery("push", { n }), { expectFailure: true });
  }
  await test.advance(0, { expectFailure: true });
  assertEquals(words(), [`${told[0]!.key} begun`]);
  assertMatch(
    `${told[0]!.kind} ${told[0]!.text}`,
    /^problem A new error of .*push.*: Error: Cannot read \d$/,
  );
  assertMatch(await page(test, ""), /A new error of [^<]+<\/p><a href="problem\?id=[0-9a-f]{16}">/);
  isBroken = false;
  // Long after the last failed attempt nobody would look for problems.
  await test.advance(100 * MINUTE);
  await test.advance(2 * MINUTE);
  assertEquals(words(), [`${told[0]!.key} begun`, `${told[0]!.key} ended`]);
});

Deno.test("an error that comes back after its end was told is told again", async () => {
  const { bot, words, told, env } = alerting(false);
  let isBroken = true;
  bot.on("push", () => {
    if (isBroken) throw new Error("no");
  });
  await using test = await startTestBot(bot, { env });
  const fail = async () => {
    isBroken = true;
    for (let n = 0; n < 3; n++) {
      await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
    }
    await test.advance(0, { expectFailure: true });
    isBroken = false;
  };
  await fail();
  await test.advance(30 * MINUTE);
  await test.advance(2 * MINUTE);
  // Nothing has failed for half an hour, which is too early to say that it is over.
  const begun = `${told[0]!.key} begun`;
  assertEquals(words(), [begun]);
  await test.advance(40 * MINUTE);
  await test.advance(2 * MINUTE);
  const ended = `${told[0]!.key} ended`;
  assertEquals(words(), [begun, ended]);
  await fail();
  assertEquals(words(), [begun, ended, begun]);
  assertMatch(told[2]!.text, /^An error of .*push.* is back: Error: no$/);
});

Deno.test("an alert gets the app's parts, and one that throws is told again", async () => {
  let tries = 0;
  const told: string[] = [];
  const bot = defineApp({
    ...{ name: "alerting", platform: github(), store: sqlite() },
    resources: () => ({ post: (text: string) => void told.push(text) }),
    onAlert: ({ app, kind }, { resources, signal }) => {
      if (kind === "problem") return;
      assert(!signal.aborted);
      if (++tries === 1) throw new Error("Slack is down");
      resources.post(`${app}: ${kind}`);
    },
  });
  bot.on("push", () => {
    throw new Error("no");
  });
  await using test = await startTestBot(bot);
  for (let i = 0; i < 5; i++) {
    await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  }
  await test.advance(1_000, { expectFailure: true });
  const [failed] = test.logs.filter(({ message }) => message.startsWith("alert"));
  assertEquals([failed?.message, failed?.key], [
    "alert not told, to be tried again",
    "failure_rate",
  ]);
  await test.advance(16_000, { expectFailure: true });
  assertEquals([tries, told], [2, ["alerting: failure_rate"]]);
});

Deno.test("without onAlert nothing is noted, and it must be a function", async () => {
  const bot = defineApp({ name: "quiet", platform: github(), store: sqlite() });
  bot.on("push", () => {
    throw new Error("no");
  });
  await using test = await startTestBot(bot);
  for (let i = 0; i < 6; i++) {
    await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  }
  await test.advance(MINUTE, { expectFailure: true });
  assertEquals(await Array.fromAsync(test.store.alertNotes.list()), []);
  const wrong = { name: "x", platform: github(), store: sqlite(), onAlert: "mail" } as never;
  assertThrows(() => defineApp(wrong), TypeError, "'onAlert' must be a function");
});

Deno.test("all that has come is somewhere, and the first page says so", async () => {
  const { bot, env } = alerting();
  const jobs = events<{ tidy: { n: number } }>("jobs");
  bot.from(jobs).on("tidy", () => {});
  bot.schedule("often", "* * * * *", () => {});
  bot.on("push", (_, { emit }) => void emit(jobs, "tidy", { n: 1 }));
  bot.on("issues", (_, { waitFor }) => waitFor("approval"));
  bot.on("release", () => {
    throw new RetryLaterError("night", { afterMs: 3_600_000 });
  });
  bot.on("fork", () => {
    throw new Error("no luck");
  });
  await using test = await startTestBot(bot, { env });
  await test.advance(MINUTE);
  const send = (type: string) => test.deliver(forgeDelivery(type, {}), { expectFailure: true });
  for (const type of ["push", "push", "issues", "release", "fork", "star", "star", "star"]) {
    await send(type);
  }
  const html = await page(test, "");
  assertStringIncludes(
    html,
    "Events of the last hour: 8 received + 3 of its own = 5 handled + 3 ignored + 0 dead + " +
      "0 cancelled + 3 open (2 queued, 0 running, 1 parked). 6 attempts have ended, and 1 of them has failed; " +
      "1 has parked its event, and 1 put it off.",
  );
  // A busy machine counts after the page has come.
  const waiting = "Queued: 0 due now, 1 retrying, 0 behind others, 1 put off, 0 planned.";
  await until(async () => (await page(test, "")).includes(waiting), 20_000);
});

Deno.test("what was refused is on a page, with samples, and what to do", async () => {
  const { bot, env } = alerting();
  bot.on("push", () => {});
  await using test = await startTestBot(bot, { env });
  assertStringIncludes(await page(test, "refusals"), "No delivery was refused");
  await sendForged(test, 4);
  const html = await page(test, "refusals");
  assertMatch(html, /github: the signature does not match/);
  for (const text of ["<dd>4</dd>", "Set the same secret", "GITHUB_WEBHOOK_SECRET", "127.0.0.1"]) {
    assertStringIncludes(html, text);
  }
  assertStringIncludes(html, "were not stored");
  assertStringIncludes(html, "GitHub calls it Redeliver");
  assertStringIncludes(html, "catch-up leaves out what was refused");
  // The same number as on the first page, beside that since the first one.
  const [, hour] = /<dt>in the last hour<\/dt><dd>(\d+)<\/dd>/.exec(html)!;
  assertMatch(await page(test, ""), new RegExp(`refused</span><b>${hour}</b>.*last hour, for any`));
  assertEquals(hour, "4");
  assertMatch(html, /<dt>x-github-event<\/dt><dd class="mono">push<\/dd>/);
  assertMatch(html, /<dt>x-hub-signature-256<\/dt><dd class="mono"><span class="dim">not shown/);
  assert(!html.includes("0".repeat(64)));
});

Deno.test("hostile headers of refused deliveries are text", async () => {
  const { bot, env } = alerting();
  bot.on("push", () => {});
  await using test = await startTestBot(bot, { env });
  const headers = { "X-Hub-Signature-256": "sha256=0", "User-Agent": "<script>alert(1)</script>" };
  await test.fetch("/webhook", { method: "POST", headers, body: "{}" });
  const html = await page(test, "refusals");
  assert(html.includes("&lt;script&gt;") && !html.includes("<script>alert"));
});
