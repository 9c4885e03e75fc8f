/** Deliveries are signed as Linear does it, and each is checked by Linear's own library. */
import { Buffer } from "node:buffer";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import { assert, assertEquals } from "@std/assert";
import { hmac } from "../../dev/harness/sign.ts";
import { linear } from "../../examples/linear.ts";
import { defineApp } from "../../mod.ts";
import { checkContentTypes, startTestBot, type TestBot } from "../../testing/mod.ts";

const SECRET = "lin_wh_a_secret_of_the_tests";
const OTHER_SECRET = "lin_wh_another_secret_of_the_tests";

const ENV = { LINEAR_WEBHOOK_SECRET: SECRET };

const ID = "234d1a4e-b617-4388-90fe-adc3633d6b72";

interface Sent {
  readonly secret?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const issue = (title = "Crash on start", sentAt: unknown = Date.now()) => ({
  ...{ action: "create", type: "Issue", url: "https://linear.app/example/issue/LIN-1" },
  ...{ webhookTimestamp: sentAt, webhookId: "000042e3-d123-4980-b49f-8e140eef9329" },
  data: { id: "539068e2-ae88-4d09-bd75-22eb4a59612f", identifier: "LIN-1", title },
});

/** Makes a request as Linear sends it. */
function requestOf(content: object | string, { secret = SECRET, headers: more }: Sent = {}) {
  const body = typeof content === "string" ? content : JSON.stringify(content);
  const headers = new Headers({
    ...{ "Content-Type": "application/json; charset=utf-8", "User-Agent": "Linear-Webhook" },
    ...{ "Linear-Delivery": ID, "Linear-Event": "Issue" },
    ...{ "Linear-Signature": hmac(secret, body).toHex(), ...more },
  });
  return { platform: "linear", method: "POST", headers, body } as const;
}

/** Tells whether Linear's library takes a request. */
function isTakenByLinear({ headers, body }: ReturnType<typeof requestOf>): boolean {
  try {
    const signature = headers.get("Linear-Signature")!;
    return new LinearWebhookClient(SECRET).verify(Buffer.from(body), signature);
  } catch {
    return false;
  }
}

/** Starts a bot, and notes what it handles. */
async function startBot(
  env = ENV,
): Promise<{ test: TestBot; handled: unknown[] } & AsyncDisposable> {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: linear() });
  bot.on("Issue.create", ({ payload }) => handled.push(payload.data.title));
  bot.onOther(({ type, action }) => handled.push(`${type}.${action}`));
  const test = await startTestBot(bot, { env });
  return { test, handled, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

Deno.test("linear() takes what Linear's library takes, once", async () => {
  await using sut = await startBot();
  for (const at of [Date.now(), Date.now() + 30_000]) {
    const sent = requestOf(issue("Crash", at));
    assert(isTakenByLinear(sent));
    const { status, event } = await sut.test.deliver(sent);
    assertEquals([status, event?.id], [200, `linear:${ID}`]);
  }
  const headers = { "Linear-Delivery": "1" };
  await sut.test.deliver(requestOf({ ...issue(), type: "Project", action: "remove" }, { headers }));
  assertEquals(sut.handled, ["Crash", "Project.remove"]);
});

Deno.test("linear() takes a captured delivery for the same one, whatever id it is given", async () => {
  await using sut = await startBot();
  const content = issue();
  const captured = { headers: { "Linear-Delivery": "another" } };
  for (const options of [{}, captured]) {
    assertEquals((await sut.test.deliver(requestOf(content, options))).status, 200);
  }
  assertEquals(sut.handled, ["Crash on start"]);
});

const REFUSED: Readonly<Record<string, [code: string, ...Parameters<typeof requestOf>]>> = {
  "another secret": ["INVALID_SIG", issue(), { secret: OTHER_SECRET }],
  "no signature": ["MISSING_SIG", issue(), { headers: { "Linear-Signature": "" } }],
  "half of a signature": ["MISSING_SIG", issue(), { headers: { "Linear-Signature": "00" } }],
  "two signatures": ["MISSING_SIG", issue(), {
    headers: { "Linear-Signature": `${"0".repeat(64)}, ${"0".repeat(64)}` },
  }],
  "a time of a minute ago": ["STALE_SIG", issue("a", Date.now() - 70_000)],
  "a time in the future": ["STALE_SIG", issue("a", Date.now() + 3_600_000)],
  "a time that is a text": ["STALE_SIG", issue("a", String(Date.now()))],
  "a time that is a list": ["STALE_SIG", issue("a", [Date.now()])],
  "no time": ["STALE_SIG", { type: "Issue", action: "create" }],
  "no object": ["INVALID_BODY", "null"],
};

for (const [what, [code, ...sent]] of Object.entries(REFUSED)) {
  Deno.test(`linear() refuses a delivery with ${what}, as Linear's library does`, async () => {
    await using sut = await startBot();
    const request = requestOf(...sent);
    const answer = await sut.test.deliver(request);
    assertEquals([answer.code, answer.event, sut.handled], [code, undefined, []]);
    assertEquals(isTakenByLinear(request), false);
  });
}

Deno.test("linear() takes two secrets while one is being replaced", async () => {
  const env = { LINEAR_WEBHOOK_SECRET: OTHER_SECRET, LINEAR_WEBHOOK_SECRET_PREVIOUS: SECRET };
  await using sut = await startBot(env);
  for (const secret of [SECRET, OTHER_SECRET]) {
    const headers = { "Linear-Delivery": secret };
    const { status } = await sut.test.deliver(requestOf(issue(secret), { secret, headers }));
    assertEquals(status, 200);
  }
  assertEquals(sut.handled, [SECRET, OTHER_SECRET]);
});

Deno.test("linear() reads its deliveries by the body, whatever their content type", async () => {
  await checkContentTypes(linear(), (text) => requestOf(issue(text)), { env: ENV });
});
