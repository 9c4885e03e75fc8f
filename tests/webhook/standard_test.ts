import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { defineApp, HttpError, type JsonObject, standard, VariableError } from "../../mod.ts";
import { forgeDelivery, standardDelivery, startTestBot, TEST_SECRETS } from "../../testing/mod.ts";
import { signStandard } from "../../dev/harness/sign.ts";
import { invoice, openShop, svixNamed } from "./_standard.ts";
import { preparePlatform } from "../../webhook/platform.ts";

const KEY = btoa("a key of the tests, of 32 bytes..");
const OTHER_KEY = btoa("another key of the tests........");

const shop = (options = {}) => standard({ name: "shop", ...options });

Deno.test("standard() takes a delivery end to end, by its type and its signed id", async () => {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: shop() });
  bot.onAny(({ id, type, source, payload }) => handled.push([id, type, source, payload.data]));
  await using test = await startTestBot(bot);
  const payload = { type: "invoice.paid", data: { total: 42 } };
  const { status, text, event } = await test.deliver(standardDelivery(payload, { id: "msg_1" }));
  assertEquals([status, text, event?.platform], [200, "OK", "standard"]);
  assertEquals(handled, [["shop:msg_1", "invoice.paid", "shop", { total: 42 }]]);
});

Deno.test("standard() hands events to handlers by their types, of any number of dots", async () => {
  type Events = {
    invoice: { data: { total: number } };
    "invoice.paid": { data: { total: number } };
    "invoice.payment.failed": { data: { reason: string } };
  };
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: standard<Events>({ name: "shop" }) });
  bot.on("invoice", ({ payload }) => handled.push(payload.data.total satisfies number));
  bot.on("invoice.paid", ({ payload }) => handled.push(payload.data.total satisfies number));
  bot.on("invoice.payment.failed", ({ payload }) => handled.push(payload.data.reason));
  // @ts-expect-error It is none of the types.
  bot.on("invoice.lost", () => handled.push("lost"));
  await using test = await startTestBot(bot);
  for (const type of ["invoice", "invoice.paid", "invoice.payment.failed", "invoice.other"]) {
    await test.deliver(standardDelivery({ type, data: { total: handled.length, reason: type } }));
  }
  assertEquals(handled, [0, 1, "invoice.payment.failed"]);
});

Deno.test("standard() takes handlers for any type if the types are not listed", async () => {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: shop() });
  bot.on("invoice.paid", ({ payload }: { payload: JsonObject }) => handled.push(payload.data));
  await using test = await startTestBot(bot);
  await test.deliver(standardDelivery({ type: "invoice.paid", data: 42 }));
  assertEquals(handled, [42]);
});

Deno.test("standard() takes the same id for the same event, also when it is signed again", async () => {
  using sut = await openShop();
  const [now, later] = [Date.now(), Date.now() + 60_000];
  assertEquals(await sut.send(...invoice({}, { sentAt: now })), [200, null]);
  assertEquals(await sut.send(...invoice({}, { sentAt: now })), [200, null]);
  assertEquals(await sut.send(...invoice({}, { sentAt: later })), [200, null]);
  assertEquals(await sut.events(), [["shop:msg_1", "invoice.paid"]]);
});

Deno.test("standard() takes the names of Svix, and the id from among them", async () => {
  using sut = await openShop();
  const [headers, body] = invoice();
  assertEquals(await sut.send(svixNamed(headers), body), [200, null]);
  const renamed = svixNamed(headers);
  renamed.set("webhook-id", "msg_2");
  renamed.set("webhook-timestamp", String(Math.floor(Date.now() / 1_000)));
  assertEquals(await sut.send(renamed, body), [200, null]);
  assertEquals(await sut.events(), [["shop:msg_1", "invoice.paid"]]);
});

Deno.test("standard() does not mix the headers of two names", async () => {
  using sut = await openShop();
  const [headers, body] = invoice();
  for (const name of ["webhook-id", "webhook-timestamp"]) {
    const mixed = new Headers(headers);
    mixed.set(name.replace("webhook", "svix"), headers.get(name)!);
    mixed.delete(name);
    assertEquals(await sut.send(mixed, body), [401, "INVALID_SIG"]);
  }
  const both = new Headers(headers);
  for (const [name, value] of svixNamed(headers)) both.set(name, value);
  both.set("svix-id", "msg_2");
  assertEquals(await sut.send(both, body), [200, null]);
  both.set("webhook-signature", `v1,${OTHER_KEY.slice(0, 43)}=`);
  assertEquals(await sut.send(both, body), [401, "INVALID_SIG"]);
  assertEquals(await sut.events(), [["shop:msg_1", "invoice.paid"]]);
});

/** Headers that replace the right ones. `$` is the right signature, without its version. */
const REFUSED: Readonly<Record<string, [string, Readonly<Record<string, string | null>>]>> = {
  "no signature": ["MISSING_SIG", { "webhook-signature": null }],
  "an empty signature": ["MISSING_SIG", { "webhook-signature": "" }],
  "GitLab's token in its place": ["MISSING_SIG", {
    "webhook-signature": null,
    "X-Gitlab-Token": TEST_SECRETS.gitlabToken,
  }],
  "no id": ["INVALID_SIG", { "webhook-id": null }],
  "an empty id": ["INVALID_SIG", { "webhook-id": "" }],
  "another id": ["INVALID_SIG", { "webhook-id": "msg_2" }],
  "no time": ["INVALID_SIG", { "webhook-timestamp": null }],
  "two headers with the right signature": ["INVALID_SIG", { "webhook-signature": "v1,$, v1,$" }],
  "commas between signatures": ["INVALID_SIG", { "webhook-signature": "v1,$,v1,$" }],
  "a signature without its version": ["INVALID_SIG", { "webhook-signature": "$" }],
  "a version in capitals": ["INVALID_SIG", { "webhook-signature": "V1,$" }],
  "the signature as that of a public key": ["INVALID_SIG", { "webhook-signature": "v1a,$" }],
  "a signature of a public key": ["INVALID_SIG", {
    "webhook-signature": `v1a,${"A".repeat(86)}==`,
  }],
};

for (const [what, [code, change]] of Object.entries(REFUSED)) {
  Deno.test(`standard() refuses a delivery with ${what}`, async () => {
    using sut = await openShop();
    const right = invoice()[0].get("webhook-signature")!.slice("v1,".length);
    const headers = Object.entries(change).map(([name, value]) =>
      [name, value?.replaceAll("$", right) ?? null] as const
    );
    assertEquals(await sut.send(...invoice(Object.fromEntries(headers))), [401, code]);
    assertEquals(await sut.events(), []);
  });
}

const ODD_TIMES = ["+1700000000", "1700000000.0", "0x6553f100", "1.7e9", "1700000000, 1700000000"];

Deno.test("standard() refuses a signed time that is not written in digits", async () => {
  using _time = new FakeTime(1_700_000_000_000);
  const ready = preparePlatform(shop({ secrets: [KEY] }), { get: () => undefined, warn: () => {} });
  const verify = async (time: string) => {
    const headers = new Headers({ "webhook-id": "msg_1", "webhook-timestamp": time });
    headers.set("webhook-signature", signStandard("", "msg_1", time, atob(KEY)));
    return await ready.verifyHead(headers)({ bytes: new Uint8Array() });
  };
  assertEquals(await verify("1700000000"), undefined);
  for (const time of ODD_TIMES) {
    await assertRejects(() => verify(time), HttpError, "Invalid signature", time);
  }
});

Deno.test("standard() refuses a changed body, and the signature of another delivery", async () => {
  using sut = await openShop();
  const [headers, body] = invoice();
  assertEquals(await sut.send(headers, `${body} `), [401, "INVALID_SIG"]);
  assertEquals(await sut.send(headers, body.replace("42", "43")), [401, "INVALID_SIG"]);
  const [other] = invoice({}, { id: "msg_2" });
  const mixed = invoice({ "webhook-signature": other.get("webhook-signature") });
  assertEquals(await sut.send(...mixed), [401, "INVALID_SIG"]);
});

Deno.test("standard() refuses a delivery once it is 5 minutes old, and one of the future", async () => {
  using sut = await openShop();
  const now = Date.now();
  for (const sentAt of [now - 302_000, now + 302_000]) {
    assertEquals(await sut.send(...invoice({}, { sentAt })), [401, "STALE_SIG"]);
    // A new time is not the one that is signed.
    const fresh = { "webhook-timestamp": String(Math.floor(now / 1_000)) };
    assertEquals(await sut.send(...invoice(fresh, { sentAt })), [401, "INVALID_SIG"]);
  }
  for (const sentAt of [now - 297_000, now + 297_000]) {
    assertEquals(await sut.send(...invoice({}, { sentAt })), [200, null]);
  }
});

Deno.test("standard() takes the old and the new secret during a rotation, with and without prefix", async () => {
  const secrets = [`whsec_${KEY}`, OTHER_KEY];
  using sut = await openShop({ secrets });
  for (const [i, secret] of [...secrets, KEY, `whsec_${OTHER_KEY}`].entries()) {
    assertEquals(await sut.send(...invoice({}, { secret, id: `msg_${i}` })), [200, null]);
  }
  const another = btoa("a key that nobody knows");
  assertEquals(await sut.send(...invoice({}, { secret: another })), [401, "INVALID_SIG"]);
  // A sender that rotates signs with both keys: one of them is enough.
  const [headers, body] = invoice({}, { secret: another, id: "msg_9" });
  const time = headers.get("webhook-timestamp")!;
  const old = signStandard(body, "msg_9", time, "another key of the tests........");
  headers.set("webhook-signature", `${headers.get("webhook-signature")} ${old}`);
  assertEquals(await sut.send(headers, body), [200, null]);
});

/**
 * The signed content is `id.time.body`. A captured one must not be verified for another id, time or body
 * that make the same content.
 */
const SPLIT: Readonly<Record<string, [id: string, time: string, body: string]>> = {
  "a time in the id": ["msg.NOW", "NOW", '{"type":"a"}'],
  "a time in the body": ["msg", "NOW", '1.NOW.{"type":"a"}'],
  "a delivery in a text of the body": ["msg", "NOW", '{"type":"a","text":".NOW.{}"}'],
  "a delivery in plain text": ["msg", "NOW", '.NOW.{"type":"evil"}'],
};

for (const [what, parts] of Object.entries(SPLIT)) {
  Deno.test(`standard() does not take a captured delivery as another one, with ${what}`, async () => {
    using sut = await openShop();
    const now = String(Math.floor(Date.now() / 1_000));
    const [id, time, body] = parts.map((part) => part.replace("NOW", now));
    const signature = signStandard(body!, id!, time!, atob(TEST_SECRETS.gitlab.slice(6)));
    const content = `${id}.${time}.${body}`;
    const dots = [...content.matchAll(/\./g)].map(({ index }) => index);
    const taken: string[] = [];
    for (const first of dots) {
      for (const second of dots.filter((at) => at > first)) {
        const headers = new Headers({
          "Content-Type": "application/json",
          "webhook-id": content.slice(0, first),
          "webhook-timestamp": content.slice(first + 1, second),
          "webhook-signature": signature,
        });
        const [status] = await sut.send(headers, content.slice(second + 1));
        if (status === 200) taken.push(content.slice(0, second));
      }
    }
    const isGenuine = what === "a delivery in a text of the body";
    assertEquals(taken, isGenuine ? [`${id}.${time}`] : []);
  });
}

Deno.test("standard() refuses ids that have dots, or no id could have", async () => {
  using sut = await openShop();
  for (const id of ["a.1", ".", "a b", "a/b", "\u00e9", "x".repeat(129)]) {
    assertEquals(await sut.send(...invoice({}, { id })), [400, "INVALID_DELIVERY"], id);
  }
  assertEquals(await sut.send(...invoice({}, { id: "x".repeat(128) })), [200, null]);
});

const UNREADABLE: Readonly<Record<string, [code: string, body: object | string]>> = {
  "no type": ["MISSING_EVENT", { data: {} }],
  "a type that is a number": ["INVALID_EVENT", { type: 7 }],
  "a type with a slash": ["INVALID_EVENT", { type: "invoice/paid" }],
  "a type of 101 letters": ["INVALID_EVENT", { type: "x".repeat(101) }],
  "a body that is not JSON": ["INVALID_BODY", "hello"],
};

for (const [what, [code, payload]] of Object.entries(UNREADABLE)) {
  Deno.test(`standard() answers 400 to a signed delivery with ${what}`, async () => {
    using sut = await openShop();
    assertEquals(await sut.send(...invoice({}, {}, payload)), [400, code]);
    assertEquals(await sut.events(), []);
  });
}

Deno.test("standard() takes JSON only, and no more than 1 MiB by default", async () => {
  using sut = await openShop();
  for (const type of ["text/plain", "application/x-www-form-urlencoded", null]) {
    const refusal = await sut.send(...invoice({ "Content-Type": type }));
    assertEquals(refusal, [415, "UNSUPPORTED_MEDIA_TYPE"]);
  }
  const charset = { "Content-Type": "Application/JSON; charset=utf-8" };
  assertEquals(await sut.send(...invoice(charset)), [200, null]);
  const large = (bytes: number) => `{"type":"a"}`.padEnd(bytes);
  const sizes = [[1_048_576, 200, null], [1_048_577, 413, "BODY_TOO_LARGE"]] as const;
  for (const [bytes, ...answer] of sizes) {
    assertEquals(await sut.send(...invoice({}, {}, large(bytes))), answer);
  }
});

Deno.test("standard() reads the type where 'typeOf' finds it", async () => {
  using sut = await openShop({ typeOf: ({ event_type }) => event_type as string });
  assertEquals(await sut.send(...invoice({}, {}, { event_type: "ping", type: "a" })), [200, null]);
  assertEquals(await sut.send(...invoice({}, {}, { type: "a" })), [400, "MISSING_EVENT"]);
  assertEquals(await sut.events(), [["shop:msg_1", "ping"]]);
});

Deno.test("standard() keeps several senders of one app apart", async () => {
  const bot = defineApp({ name: "my-bot", platform: standard({ name: "clerk", path: "/clerk" }) });
  bot.from(standard({ name: "my-shop", path: "/shop" }));
  const env = { MY_SHOP_WEBHOOK_SECRET: KEY };
  await using test = await startTestBot(bot, { env });
  const send = async (platform: string, secret?: string) => {
    const delivery = standardDelivery({ type: "a" }, { platform, secret, id: "msg_1" });
    const { status, event } = await test.deliver(delivery);
    return [status, event?.id];
  };
  assertEquals(await send("clerk"), [200, "clerk:msg_1"]);
  assertEquals(await send("my-shop", KEY), [200, "my-shop:msg_1"]);
  assertEquals(await send("clerk", KEY), [401, undefined]);
  const either = standardDelivery({ type: "a" });
  await assertRejects(() => test.deliver(either), TypeError, "several platforms");
});

Deno.test("standard() reads its secret from the variable of its name, and the old one", () => {
  const platform = standard({ name: "my-shop" });
  assertEquals(platform.variables, ["MY_SHOP_WEBHOOK_SECRET"]);
  const prepare = (env: Record<string, string>) =>
    preparePlatform(platform, { get: (name) => env[name], warn: () => {} });
  prepare({ MY_SHOP_WEBHOOK_SECRET: KEY, MY_SHOP_WEBHOOK_SECRET_PREVIOUS: `whsec_${OTHER_KEY}` });
  const flaws = {
    "MY_SHOP_WEBHOOK_SECRET is not set": {},
    "MY_SHOP_WEBHOOK_SECRET is not base64, with or without whsec_ before it": {
      MY_SHOP_WEBHOOK_SECRET: "not base64!",
    },
    "MY_SHOP_WEBHOOK_SECRET_PREVIOUS ends with white space, such as a line break": {
      MY_SHOP_WEBHOOK_SECRET: KEY,
      MY_SHOP_WEBHOOK_SECRET_PREVIOUS: `${KEY}\n`,
    },
  };
  for (const [message, env] of Object.entries(flaws)) {
    assertThrows(() => prepare(env as Record<string, string>), VariableError, message);
  }
});

Deno.test("standard() says what is wrong with its options, and quotes no key", () => {
  const define = "Cannot define the platform";
  const wrong: readonly (readonly [unknown, string])[] = [
    [undefined, `${define} 'standard': the options must be an object, got undefined`],
    [{}, `${define}: 'name' must be a letter`],
    [{ name: "dead" }, `${define}: 'name' must not be "dead", which is the source of events`],
    [{ name: "a", typeOf: "type" }, `${define} 'a': 'typeOf' must be a function, got "type"`],
    [{ name: "a", secrets: KEY }, `${define} 'a': 'secrets' must be an array`],
    [{ name: "a", secrets: [] }, "got an empty one"],
    [{ name: "a", secrets: [KEY, " "] }, `${define} 'a': secret 2 is blank`],
    [{ name: "a", secrets: ["whsec_?"] }, `${define} 'a': secret 1 is not base64`],
    [{ name: "a", secrets: [KEY, 7] }, `${define} 'a': secret 2 must be a text, got number`],
  ];
  for (const [options, message] of wrong) {
    assertThrows(() => standard(options as never), TypeError, message);
  }
});

Deno.test("standardDelivery() signs as the sender of the specification's vector does", () => {
  const { headers } = standardDelivery('{"test": 2432232314}', {
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    sentAt: 1_614_265_330_999,
  });
  assertEquals(headers.get("webhook-timestamp"), "1614265330");
  const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
  assertEquals(headers.get("webhook-signature"), signature);
});

Deno.test("standardDelivery() takes bytes as they are, and refuses a secret that is not base64", () => {
  const bytes = Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d);
  assertEquals(standardDelivery(bytes).body, bytes);
  assertThrows(() => standardDelivery({}, { secret: "a secret!" }), TypeError, "must be base64");
});

Deno.test("a delivery of another kind is not for standard()", async () => {
  await using test = await startTestBot(defineApp({ name: "my-bot", platform: shop() }));
  const push = forgeDelivery("push", {}, { path: "/webhook" });
  assertEquals((await test.deliver(push)).code, "MISSING_SIG");
});
