import { assertEquals, assertStringIncludes } from "@std/assert";
import { TEST_SECRETS } from "../../testing/mod.ts";
import { testWith } from "../_permissions.ts";
import { connect, startConnect, startIntakeApp, VARIABLES } from "./_connect.ts";
import { BOT_TOKEN, FakeTelegram, message, refusal } from "./_telegram_api.ts";

function testTelegram(name: string, fn: (telegram: FakeTelegram) => Promise<void>): void {
  testWith(["net"], `connect telegram ${name}`, async () => {
    await using telegram = new FakeTelegram();
    await fn(telegram);
  });
}

const apiOf = ({ url }: FakeTelegram) => ["--api", url];

/** Arguments that fetch updates for an app. */
const forwardTo = (app: { readonly url: string }, telegram: FakeTelegram, ...more: string[]) => [
  ...["telegram", "--forward", "--url", app.url, ...more, ...apiOf(telegram)],
];

testTelegram("URL registers the webhook, and shows it", async (telegram) => {
  telegram.push(message(1));
  const args = ["telegram", "https://bot.example.com", "--events", "message, poll"];
  const { code, out, err } = await connect([...args, ...apiOf(telegram)]);
  assertEquals([code, err], [0, []]);
  assertEquals(telegram.webhook, {
    ...{ url: "https://bot.example.com/webhook", secret_token: TEST_SECRETS.messenger },
    allowed_updates: '["message","poll"]',
  });
  assertEquals(out, [
    "registered  https://bot.example.com/webhook",
    "webhook     https://bot.example.com/webhook",
    "pending     1 update",
    "events      message, poll",
  ]);
});

testTelegram("keeps the path of a URL, and what else is registered", async (telegram) => {
  const register = ["telegram", "https://bot.example.com/a/b?c=d#e", "--drop-pending"];
  await connect([...register, ...apiOf(telegram)]);
  const { url, allowed_updates, drop_pending_updates } = telegram.webhook;
  assertEquals([url, allowed_updates], ["https://bot.example.com/a/b?c=d", undefined]);
  assertEquals(drop_pending_updates, "true");
  await connect(["telegram", "https://bot.example.com", "--events", "*", ...apiOf(telegram)]);
  assertEquals(telegram.webhook.allowed_updates, "[]");
});

testTelegram("without a URL only shows", async (telegram) => {
  const args = ["telegram", ...apiOf(telegram)];
  const variables = { TELEGRAM_BOT_TOKEN: BOT_TOKEN };
  assertEquals((await connect(args, variables)).out, [
    "webhook     none",
    "pending     0 updates",
    "events      those that Telegram sends by default",
  ]);
  telegram.webhook = { url: "https://ada:pw@bot.example.com/w?key=1" };
  telegram.info = {
    last_error_date: 1_700_000_000,
    last_error_message: "Wrong response from the webhook: 401 Unauthorized",
  };
  const { out } = await connect(args, variables);
  assertEquals(out[0], "webhook     https://bot.example.com/w?***");
  assertStringIncludes(out[3]!, "last error  2023-11-14T22:13:20.000Z (");
  assertStringIncludes(out[3]!, "ago): Wrong response from the webhook: 401 Unauthorized");
  const json = await connect([...args, "--json"], variables);
  assertEquals(json.out.map((line) => JSON.parse(line)), [{
    ...{ url: "https://bot.example.com/w?***", pending: 0 },
    lastError: {
      at: 1_700_000_000_000,
      message: "Wrong response from the webhook: 401 Unauthorized",
    },
  }]);
  assertEquals(telegram.calls.every(({ method }) => method === "getWebhookInfo"), true);
});

testTelegram("takes the secret that apps for MESSENGER_* have", async (telegram) => {
  const args = ["telegram", "https://bot.example.com", ...apiOf(telegram)];
  const secret = "of_the-messenger";
  await connect(args, { TELEGRAM_BOT_TOKEN: BOT_TOKEN, MESSENGER_SECRET_TOKEN: secret });
  assertEquals(telegram.webhook.secret_token, secret);
});

const REFUSALS: readonly (readonly [string, () => Response, string])[] = [
  ["a wrong token", () => refusal(401, "Unauthorized"), "answers 401 Unauthorized: the token in"],
  [
    "an unknown method",
    () => refusal(404, "Not Found"),
    "or --api is not the address of a Bot API",
  ],
  ["a refused URL", () => refusal(400, "Bad Request: bad webhook"), "400 Bad Request: bad webhook"],
  ["JSON of another kind", () => Response.json(["ok"]), "answers 200 in an unknown form"],
  ["no result", () => Response.json({ ok: true }), "answers 200 in an unknown form"],
  [
    "a page",
    () => new Response("<p>", { status: 404 }),
    "404 with text/plain instead of JSON: the",
  ],
  [
    "a redirect",
    () => new Response(null, { status: 302, headers: { Location: "https://a.example/b" } }),
    "answers 302, a redirect to a.example, which is not followed",
  ],
];

for (const [what, answer, expected] of REFUSALS) {
  testTelegram(`explains ${what}`, async (telegram) => {
    telegram.insteadOf.setWebhook = [answer];
    const { code, err } = await connect([
      "telegram",
      "https://bot.example.com",
      ...apiOf(telegram),
    ]);
    assertEquals([code, err.length], [1, 1]);
    assertStringIncludes(err[0]!, "Telegram's API (setWebhook) answers ");
    assertStringIncludes(err[0]!, expected);
  });
}

testTelegram("shows neither token nor secret", async (telegram) => {
  const secret = "a-secret-that-only-this-test-has";
  const variables = { ...VARIABLES, TELEGRAM_SECRET_TOKEN: secret };
  const leaky = `see https://api.telegram.org/bot${BOT_TOKEN}/x and ${secret}`;
  telegram.insteadOf.setWebhook = [() => refusal(400, leaky)];
  const register = ["telegram", "https://bot.example.com", ...apiOf(telegram)];
  const { code, err } = await connect(register, variables);
  assertEquals(code, 1);
  assertStringIncludes(err[0]!, "and ***");
  telegram.webhook = { url: `https://bot.example.com/${BOT_TOKEN}` };
  telegram.info = { last_error_date: 1, last_error_message: encodeURIComponent(BOT_TOKEN) };
  const { out } = await connect(["telegram", ...apiOf(telegram), "--json"]);
  assertEquals(JSON.parse(out[0]!).url, "https://bot.example.com/***");
  const unreachable = await connect(["telegram", "--api", "http://127.0.0.1:9"]);
  assertEquals(unreachable.code, 1);
  assertStringIncludes(unreachable.err[0]!, "Telegram's API (getWebhookInfo) cannot be reached: ");
  const all = JSON.stringify([err, out, unreachable.err]);
  for (const each of [BOT_TOKEN, BOT_TOKEN.split(":")[1]!, secret]) {
    assertEquals(all.includes(each), false);
  }
});

testTelegram("--forward hands on updates byte for byte, in order", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  const from = '"from":{"id":42}';
  const first =
    `{ "update_id": 7,\t"message": {${from},"chat":{"id":9007199254740993},"text":"\\u0041ä😀}" } }`;
  telegram.push(first);
  telegram.push(
    `{"update_id":8,"poll_answer":{"user":{"id":42},"n":12345678901234567890,"x":1.0e5}}`,
  );
  const forward = startConnect(forwardTo(app, telegram));
  await forward.line("poll_answer 8  200 OK");
  telegram.push(message(9));
  await forward.line("message 9  200 OK");
  assertEquals((await forward.interrupt()).code, 130);
  assertEquals(forward.out.at(-1), "3 forwarded, 0 refused, interrupted");
  const bodies = (await app.events()).map(({ body }) => body);
  assertEquals(bodies.slice(0, 2), [
    first,
    `{"update_id":8,"poll_answer":{"user":{"id":42},"n":12345678901234567890,"x":1.0e5}}`,
  ]);
  assertEquals(bodies.length, 3);
  assertEquals(telegram.pending, 0);
});

testTelegram("--forward goes past what the app refuses for good", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  telegram.push(message(1, 43));
  telegram.push(`{"update_id":2}`);
  telegram.push(message(3));
  const forward = startConnect(forwardTo(app, telegram, "--json"));
  await forward.line('"id":"3"');
  assertEquals((await forward.interrupt()).code, 130);
  const lines = forward.out.map((line) => JSON.parse(line));
  assertEquals(lines.slice(0, 3).map(({ id, status, code }) => [id, status, code]), [
    ["1", 403, "AUTH_001"],
    ["2", 400, "INVALID_BODY"],
    ["3", 200, null],
  ]);
  assertEquals(lines[3], { forwarded: 1, refused: 2, interrupted: true });
  assertEquals(telegram.pending, 0);
});

/** Answers that end it, whatever is sent, and what is said of them. */
const MISTAKEN = {
  307: "a redirect, which is not followed",
  401: "its secret is another one",
  404: "it has no webhook there",
};

for (const [status, hint] of Object.entries(MISTAKEN)) {
  testTelegram(
    `--forward ends at ${status}, and loses nothing`,
    async (telegram) => {
      await using app = await startIntakeApp(
        "messenger",
        (count) =>
          count === 1
            ? new Response(null, {
              ...{
                status: Number(status),
                headers: { "X-Error-Code": "WHY", Location: "/webhook" },
              },
            })
            : undefined,
      );
      for (const id of [1, 2, 3]) telegram.push(message(id));
      const { code, err } = await connect(forwardTo(app, telegram));
      assertEquals([code, err.length], [1, 2]);
      assertStringIncludes(err[1]!, `answers ${status} WHY to 2: ${hint}`);
      assertEquals([app.seen.length, telegram.pending], [2, 2]);
    },
  );
}

testTelegram("--forward tries again at 429 and 5xx, as late as asked", async (telegram) => {
  await using app = await startIntakeApp("messenger", (count) => {
    if (count === 0) return new Response(null, { status: 503 });
    return count < 3
      ? new Response(null, { status: 429, headers: { "Retry-After": "17" } })
      : undefined;
  });
  telegram.push(message(1));
  telegram.push(message(2));
  const forward = startConnect(forwardTo(app, telegram));
  await forward.line("message 2  200 OK");
  await forward.interrupt();
  assertEquals(forward.pauses.slice(0, 3), [1_000, 17_000, 17_000]);
  const { host } = new URL(app.url);
  assertEquals(forward.err.slice(1), [
    `The app at ${host} answers 503 to 1; trying again`,
    `The app at ${host} answers 429 to 1; trying again in 17 s`,
  ]);
  assertEquals((await app.events()).length, 2);
});

testTelegram("--forward outlives an API that fails", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  telegram.insteadOf.getUpdates = [
    () =>
      new Response("<html>Bad Gateway</html>", {
        status: 502,
        headers: { "Content-Type": "text/html" },
      }),
    () => Response.json({ error: "?" }, { status: 500 }),
    () => new Response('{"ok":true,"result":[{"update_id":1'),
    () => refusal(429, "Too Many Requests: retry after 40", { retry_after: 40 }),
    () => Response.json({ ok: true, result: [] }),
  ];
  telegram.push(message(1));
  const forward = startConnect(forwardTo(app, telegram));
  await forward.line("message 1  200 OK");
  await forward.interrupt();
  assertEquals(forward.pauses.slice(0, 5), [1_000, 2_000, 4_000, 40_000, 1_000]);
  const name = "Telegram's API (getUpdates)";
  assertStringIncludes(
    forward.err[1]!,
    `${name} answers 502 with text/html instead of JSON; trying`,
  );
  assertStringIncludes(
    forward.err[4]!,
    "429 Too Many Requests: retry after 40; trying again in 40 s",
  );
});

/** Answers that are over later, and the pause that they lead to, in milliseconds. */
const PASSING: readonly (readonly [() => Response, number])[] = [
  [() => refusal(429, "Too Many Requests: retry after 7", { retry_after: 7 }), 7_000],
  [() => refusal(500, "Internal Server Error"), 1_000],
  [() => new Response("<html>", { status: 429, headers: { "Retry-After": "9" } }), 9_000],
  [
    () =>
      Response.json({ ok: false, error_code: 503, description: "Restart" }, {
        status: 503,
        headers: { "Retry-After": "11" },
      }),
    11_000,
  ],
];

for (const [answer, pauseMs] of PASSING) {
  const { status } = answer();
  testTelegram(
    `--forward outlives ${status} at its start, for ${pauseMs} ms`,
    async (telegram) => {
      await using app = await startIntakeApp("messenger");
      telegram.webhook = { url: "https://bot.example.com/webhook" };
      telegram.insteadOf.getWebhookInfo = [answer];
      telegram.insteadOf.deleteWebhook = [answer];
      telegram.push(message(1));
      const forward = startConnect(forwardTo(app, telegram, "--take-over"));
      await forward.line("message 1  200 OK");
      assertEquals((await forward.interrupt()).code, 130);
      assertEquals(forward.pauses.slice(0, 2), [pauseMs, pauseMs]);
      assertEquals(telegram.webhook.url, "");
    },
  );

  testTelegram(
    `tries again after ${status}, for ${pauseMs} ms`,
    async (telegram) => {
      telegram.insteadOf.setWebhook = [answer];
      telegram.insteadOf.getWebhookInfo = [answer];
      const args = ["telegram", "https://bot.example.com", ...apiOf(telegram)];
      const connecting = startConnect(args);
      assertEquals((await connecting.ended).code, 0);
      assertEquals(connecting.pauses, [pauseMs, pauseMs]);
      assertEquals(connecting.out.filter((line) => line.startsWith("registered")).length, 1);
    },
  );
}

testTelegram("ends after three tries, and at a limit that lasts", async (telegram) => {
  const args = ["telegram", "https://bot.example.com", ...apiOf(telegram)];
  telegram.insteadOf.setWebhook = Array(3).fill(() => refusal(502, "Bad Gateway"));
  const failing = startConnect(args);
  assertEquals((await failing.ended).code, 1);
  assertEquals([failing.pauses, failing.err.length], [[1_000, 2_000], 2]);
  telegram.insteadOf.setWebhook = [() => refusal(429, "Slow", { retry_after: 61 })];
  const limited = startConnect(args);
  assertEquals([(await limited.ended).code, limited.pauses], [1, []]);
  assertStringIncludes(limited.err[0]!, "429 Slow");
});

testWith(
  ["net"],
  "connect telegram --forward waits for an API that nobody answers at",
  async () => {
    await using app = await startIntakeApp("messenger");
    const closed = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const nowhere = `http://127.0.0.1:${(closed.addr as Deno.NetAddr).port}`;
    closed.close();
    const args = ["telegram", "--forward", "--url", app.url, "--api", nowhere];
    const forward = startConnect(args);
    await forward.line("cannot be reached: ");
    assertEquals((await forward.interrupt()).code, 130);
  },
);

testTelegram("--forward says what to do about a webhook", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  telegram.webhook = { url: "https://bot.example.com/webhook" };
  const refused = await connect(forwardTo(app, telegram));
  assertEquals([refused.code, refused.err], [1, [
    "A webhook is registered at bot.example.com, so Telegram hands out no updates: --take-over deletes it, " +
    "and then the app there gets none",
  ]]);
  assertEquals(telegram.webhook.url, "https://bot.example.com/webhook");
  telegram.push(message(1));
  const forward = startConnect(forwardTo(app, telegram, "--take-over"));
  await forward.line("message 1  200 OK");
  await forward.interrupt();
  assertEquals(telegram.webhook.url, "");
  assertStringIncludes(forward.err[0]!, "The webhook https://bot.example.com/webhook is deleted: ");
});

testTelegram("--forward ends when a webhook is registered meanwhile", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  telegram.push(message(1));
  const forward = startConnect(forwardTo(app, telegram));
  await forward.line("message 1");
  telegram.webhook = { url: "https://bot.example.com/webhook" };
  telegram.insteadOf.getUpdates = [];
  // It ends the call that waits, if there is one already: the next one is refused.
  telegram.push(message(2));
  const { code, err } = await forward.ended;
  assertEquals(code, 1);
  assertStringIncludes(
    err.at(-1)!,
    "another program fetches this bot's updates, or a webhook was",
  );
});

testTelegram("--forward asks for updates after those that are answered", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  telegram.push(message("9223372036854775807"));
  const forward = startConnect(forwardTo(app, telegram, "--events", "message"));
  await forward.line("message 9223372036854775807  400 INVALID_BODY");
  await forward.interrupt();
  const calls = telegram.callsOf("getUpdates").map(({ params }) => params);
  assertEquals(calls[0], { timeout: "30", allowed_updates: '["message"]' });
  assertEquals(calls.at(-1)?.offset, "9223372036854775808");
});

testTelegram("Ctrl-C lets the app answer what it was handed", async (telegram) => {
  const answered = Promise.withResolvers<undefined>();
  const asked = Promise.withResolvers<void>();
  await using app = await startIntakeApp("messenger", () => {
    asked.resolve();
    return answered.promise;
  });
  for (const id of [1, 2]) telegram.push(message(id));
  const forward = startConnect(forwardTo(app, telegram));
  await asked.promise;
  const ended = forward.interrupt();
  answered.resolve(undefined);
  assertEquals((await ended).code, 130);
  assertEquals(forward.out.at(-1), "1 forwarded, 0 refused, interrupted");
  assertEquals(telegram.pending, 1);
});

testTelegram("--forward says if Telegram does not learn what is done", async (telegram) => {
  await using app = await startIntakeApp("messenger", () => {
    telegram.insteadOf.getUpdates = [
      () => refusal(401, "Unauthorized"),
      () => refusal(500, "No"),
    ];
    return undefined;
  });
  telegram.push(message(1));
  const forward = startConnect(forwardTo(app, telegram));
  const { code, err } = await forward.ended;
  assertEquals(code, 1);
  assertStringIncludes(err[1]!, "some come again, as duplicates");
});

testTelegram("--forward does not run in circles", async (telegram) => {
  await using app = await startIntakeApp("messenger");
  const same = () => new Response(`{"ok":true,"result":[${message(1)}]}`);
  telegram.insteadOf.getUpdates = Array.from({ length: 5 }, () => same);
  const forward = startConnect(forwardTo(app, telegram));
  telegram.push(message(2));
  await forward.line("message 2");
  await forward.interrupt();
  assertEquals(forward.pauses, [1_000, 1_000, 1_000, 1_000]);
});
