import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { consoleMount } from "../../console/mod.ts";
import {
  defineApp,
  definePlatform,
  github,
  gitlab,
  GiveUpError,
  kv,
  slack,
  standard,
  stripe,
  telegram,
} from "../../mod.ts";
import {
  fixtureDelivery,
  forgeDelivery,
  messengerUpdate,
  slackDelivery,
  standardDelivery,
  startTestBot,
  stripeDelivery,
  type TestBot,
  type TestDelivery,
} from "../../testing/mod.ts";
import { parseJsonObject } from "../../webhook/mod.ts";

const TOKEN = "4b1c7f0e9d2a5836c0f1e2d3b4a59687";

/** Starts a bot with several platforms, and a console that may hide payloads. */
function start(hidePayloads = false) {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    store: kv(),
    mounts: [consoleMount({ hidePayloads })],
    keepPayloads: { forMs: 60_000, maxBytes: 1_000_000 },
  });
  bot.onAny(() => {});
  bot.from(gitlab({ path: "/lab" })).onAny(() => {});
  bot.from(telegram({ path: "/chat" })).onAny(() => {});
  bot.from(standard({ name: "shop", path: "/shop" })).onAny(() => {});
  bot.from(slack({ path: "/slack" })).onAny(() => {});
  bot.from(stripe({ path: "/stripe" })).onAny(() => {});
  return startTestBot(bot, { env: { CONSOLE_TOKEN: TOKEN } });
}

/** Downloads the fixture of an event. */
async function download(bot: TestBot, id: string): Promise<Response> {
  const login = await bot.fetch("/console/login", {
    method: "POST",
    headers: { Origin: "http://localhost" },
    body: new URLSearchParams({ token: TOKEN }),
  });
  const Cookie = login.headers.get("Set-Cookie")!.split(";")[0]!;
  return await bot.fetch(`/console/fixture?${new URLSearchParams({ id })}`, {
    headers: { Cookie },
  });
}

const DOCUMENT =
  `{ "action":"opened",  "object_kind":"issue", "n":12345678901234567890,\n"t":"é\\u00e9" }`;

const DELIVERIES: readonly TestDelivery[] = [
  forgeDelivery("issues", DOCUMENT, { id: "72d3162e", path: "/webhook" }),
  forgeDelivery("issues", DOCUMENT, { form: true, id: "form", path: "/webhook" }),
  forgeDelivery("issue", DOCUMENT, { from: "gitlab", id: "lab", path: "/lab" }),
  messengerUpdate(
    `{"update_id":7, "message":{"message_id":1,"date":0,"chat":{"id":9},"text":"hi"}}`,
  ),
  standardDelivery(`{"type":"invoice.paid", "data":{}}`, { platform: "shop", id: "msg_1" }),
  slackDelivery(
    `{"type":"event_callback", "event_id":"Ev1","event":{"type":"message","text":"é"}}`,
  ),
  slackDelivery({ command: "/deploy", text: "ä & b=c\n{}", trigger_id: "1.2" }),
  slackDelivery(`{"type":"shortcut", "callback_id":"help","trigger_id":"1.3"}`),
  stripeDelivery(`{"id":"evt_1", "object":"event","type":"invoice.paid"}`),
];

Deno.test("a fixture of the console is delivered again, byte for byte", async () => {
  await using bot = await start();
  for (const delivery of DELIVERIES) {
    const { event } = await bot.deliver(delivery);
    const response = await download(bot, event!.id);
    assertEquals([response.status, response.headers.get("Content-Disposition")], [
      200,
      'attachment; filename="fixture.json"',
    ]);
    const fixture = await response.json();
    await using other = await start();
    const again = await other.deliver(fixtureDelivery(fixture));
    const { id, type, source, intake } = event!;
    assertEquals([again.status, again.event?.id], [200, id]);
    assertEquals([again.event?.type, again.event?.source], [type, source]);
    assertEquals(again.event?.intake, intake);
    const [before, after] = await Promise.all([
      bot.store.load({ record: event! }),
      other.store.load({ record: again.event! }),
    ]);
    assertEquals(after, before);
    const renamed = await other.deliver(fixtureDelivery(fixture, { id: "another" }));
    const hasIdInPayload = ["messenger", "slack", "stripe"].includes(fixture.kind);
    assertEquals(renamed.event?.id === id, hasIdInPayload);
  }
});

Deno.test("a fixture has no credentials, and all else byte for byte", async () => {
  await using bot = await start();
  const event =
    `"type":"event_callback","event_id":"Ev2", "event":{"type":"message","text":"\\"token\\": \\"mine\\""}`;
  const cases = [
    [slackDelivery(`{"token" : "se\\"cret", ${event}}`), `{"token" : "LEFT", ${event}}`],
    [
      slackDelivery(`{"type":"shortcut","trigger_id":"1.4","response_url":"https://h/secret",
        "response_urls":[{"response_url":"secret"}],"bot_access_token":"secret"}`),
      `{"type":"shortcut","trigger_id":"1.4","response_url":"LEFT",
        "response_urls":[{"response_url":"LEFT"}],"bot_access_token":"LEFT"}`,
    ],
    [
      stripeDelivery(
        `{"id":"evt_2","object":"event","type":"setup","data":{"object":{"client_secret":"secret"}}}`,
      ),
      `{"id":"evt_2","object":"event","type":"setup","data":{"object":{"client_secret":"LEFT"}}}`,
    ],
    [
      forgeDelivery("push", `{"secret":"secret","token":"a"}`, { id: "old", path: "/webhook" }),
      `{"secret":"LEFT","token":"a"}`,
    ],
  ] as const;
  for (const [delivery, expected] of cases) {
    const { event, status } = await bot.deliver(delivery);
    assertEquals(status, 200, expected);
    const { body } = await (await download(bot, event!.id)).json();
    assertEquals(body, expected.replaceAll("LEFT", "https://left-out.invalid/"));
  }
  const { event: command } = await bot.deliver(
    slackDelivery({ command: "/go", trigger_id: "1.5", token: "secret", response_url: "secret" }),
  );
  assert(!(await (await download(bot, command!.id)).text()).includes("secret"));
});

Deno.test("a fixture is not given away where payloads are hidden", async () => {
  await using bot = await start(true);
  const { event } = await bot.deliver(DELIVERIES[0]!);
  assertEquals((await download(bot, event!.id)).status, 403);
});

Deno.test("an event of a platform of one's own has no fixture, and the answer says why", async () => {
  const own = definePlatform({
    ...{ name: "pager", kind: "pager" },
    createVerifier: () => () => () => {},
    parse: (_headers, body) => ({ type: "page", deliveryId: "1", payload: parseJsonObject(body) }),
  });
  const mounts = [consoleMount()];
  const bot = defineApp({ name: "bot", platform: own, store: kv(), mounts });
  bot.onAny(() => {
    throw new GiveUpError("kept");
  });
  await using test = await startTestBot(bot, { env: { CONSOLE_TOKEN: TOKEN } });
  const delivery = {
    platform: "pager",
    method: "POST",
    headers: new Headers(),
    body: "{}",
  } as const;
  await test.deliver(delivery, { expectFailure: true });
  const response = await download(test, "pager:1");
  assertEquals(response.status, 404);
  assertStringIncludes(
    await response.text(),
    "Only deliveries of built-in platforms have fixtures",
  );
});

Deno.test("only a fixture is delivered", () => {
  const fixture = { format: "edge-base.fixture", kind: "forge", platform: "github" };
  const whole = { ...fixture, source: "github", type: "push", body: "{}" };
  assert(fixtureDelivery({ ...whole, base64: undefined }).body === "{}");
  const bytes = fixtureDelivery({ ...whole, body: undefined, base64: "e30=" }).body;
  assertEquals(bytes, new TextEncoder().encode("{}"));
  for (const wrong of [{}, fixture, { ...whole, kind: 1 }, { ...whole, format: "x" }]) {
    assertThrows(() => fixtureDelivery(wrong), TypeError, "what the console has saved");
  }
  const own = { ...whole, kind: "pagerduty" };
  assertThrows(() => fixtureDelivery(own), TypeError, "'kind' must be that of a built-in platform");
  for (const wrong of [{ ...whole, base64: "e30=" }, { ...whole, body: undefined }]) {
    assertThrows(() => fixtureDelivery(wrong), TypeError, "either a 'body' or 'base64'");
  }
  assertThrows(() => fixtureDelivery(whole, { secrets: "x" } as object), TypeError);
});
