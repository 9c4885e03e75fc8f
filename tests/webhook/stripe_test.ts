/** Deliveries are signed by the package `stripe`, as the sender does. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import Stripe from "stripe";
import { variablesIn } from "../../core/env.ts";
import { hmac } from "../../dev/harness/sign.ts";
import type { Delivery } from "../../events/mod.ts";
import { byObject, defineApp, HttpError, stripe, VariableError } from "../../mod.ts";
import {
  checkContentTypes,
  startTestBot,
  stripeDelivery,
  type TestBot,
  type TestDelivery,
} from "../../testing/mod.ts";
import { STRIPE_EXAMPLES } from "../../testing/stripe_delivery.ts";
import { preparePlatform } from "../../webhook/platform.ts";

const SECRET = "whsec_a_secret_of_the_tests_of_Stripe";
const OTHER_SECRET = "whsec_another_secret_of_the_tests";

const ENV = { STRIPE_WEBHOOK_SECRET: SECRET };

const encoder = new TextEncoder();

const sender = new Stripe("sk_test_of_the_tests");

interface Sent {
  readonly secret?: string;
  readonly sentAt?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Signs a body as Stripe's library does. */
function signed(payload: string, { secret = SECRET, sentAt = Date.now() }: Sent = {}) {
  const timestamp = Math.floor(sentAt / 1_000);
  return sender.webhooks.generateTestHeaderStringAsync({ payload, secret, timestamp });
}

/** Makes a request as Stripe sends it. */
async function requestOf(
  content: object | string,
  options: Sent = {},
): Promise<TestDelivery> {
  const body = typeof content === "string" ? content : JSON.stringify(content);
  const headers = new Headers({
    ...{ "Content-Type": "application/json; charset=utf-8", "User-Agent": "Stripe/1.0" },
    ...{ "Stripe-Signature": await signed(body, options), ...options.headers },
  });
  return { platform: "stripe", method: "POST", headers, body };
}

/** Sends a request as Stripe does. */
async function send(test: TestBot, content: object | string, options: Sent = {}) {
  return await test.deliver(await requestOf(content, options));
}

const paid = (id = "evt_1") => ({
  ...{ id, object: "event", type: "invoice.paid", created: 1_767_225_600, livemode: false },
  data: { object: { id: "in_1", amount_paid: 4_200 } },
});

const thin = (id = "evt_test_1") => ({
  ...{ id, object: "v2.core.event", type: "v1.billing.meter.error_report_triggered" },
  ...{ created: "2026-01-01T00:00:00.000Z", livemode: false },
  related_object: { id: "mtr_1", type: "billing.meter", url: "/v1/billing/meters/mtr_1" },
});

/** Starts a bot, and notes what it handles. */
async function startBot(): Promise<{ test: TestBot; handled: unknown[] } & AsyncDisposable> {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: stripe<Stripe.Event>() });
  bot.on("invoice.paid", ({ payload }) => {
    handled.push(payload.data.object.amount_paid satisfies number);
  });
  bot.on("v1.billing.meter.error_report_triggered", ({ payload }) => {
    handled.push(payload.related_object?.url satisfies string | undefined);
  });
  bot.onOther(({ type }) => handled.push(type));
  const test = await startTestBot(bot, { env: ENV });
  return { test, handled, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

Deno.test("stripe() takes what Stripe's library signs, whole and thin, once each", async () => {
  await using sut = await startBot();
  for (const sentAt of [Date.now(), Date.now() + 60_000]) {
    const whole = await send(sut.test, paid(), { sentAt });
    assertEquals([whole.status, whole.text, whole.event?.id], [200, "OK", "stripe:evt_1"]);
    const named = await send(sut.test, thin(), { sentAt });
    assertEquals([named.status, named.event?.id], [200, "stripe:evt_test_1"]);
  }
  assertEquals(sut.handled, [4_200, "/v1/billing/meters/mtr_1"]);
});

Deno.test("stripe() takes the types of accounts, which have brackets", async () => {
  const types = [
    "v2.core.account[requirements].updated",
    "v2.core.account[configuration.merchant].capability_status_updated",
  ];
  const bot = defineApp({ name: "my-bot", platform: stripe() });
  const handled: string[] = [];
  for (const name of types) bot.on(name, ({ type }) => handled.push(type));
  await using test = await startTestBot(bot, { env: ENV });
  for (const [number, type] of types.entries()) {
    const sent = await send(test, { ...thin(`evt_test_${number}`), type });
    assertEquals([sent.status, sent.event?.type, sent.event?.outcome], [200, type, "handled"]);
  }
  assertEquals(handled, types);
});

Deno.test("stripe() takes any type without the types of the package", async () => {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: stripe() });
  bot.on("invoice.paid", ({ payload }) => {
    handled.push(payload.data?.object);
    if (payload.object === "event") payload.data.object satisfies object;
    else payload.related_object?.url satisfies string | undefined;
  });
  await using test = await startTestBot(bot, { env: ENV });
  await send(test, paid());
  assertEquals(handled, [paid().data.object]);
});

Deno.test("stripe() knows the types of the package, and only these", () => {
  const bot = defineApp({ name: "my-bot", platform: stripe<Stripe.Event>() });
  bot.on("customer.subscription.updated", ({ payload }) => payload.data.object.status);
  bot.on("v2.core.event_destination.ping", ({ payload }) => payload.object satisfies string);
  // @ts-expect-error Stripe has no such event.
  bot.on("invoice.payed", () => {});
});

Deno.test("stripeDelivery() signs so that Stripe's library verifies it", async () => {
  const whole = stripeDelivery(paid(), { secret: SECRET });
  const header = whole.headers.get("Stripe-Signature")!;
  const event = await sender.webhooks.constructEventAsync(String(whole.body), header, SECRET);
  assertEquals([event.id, event.type], ["evt_1", "invoice.paid"]);
  const named = stripeDelivery(thin(), { secret: SECRET });
  const notification = await sender.parseEventNotificationAsync(
    ...[String(named.body), named.headers.get("Stripe-Signature")!, SECRET] as const,
  );
  assertEquals(notification.type, "v1.billing.meter.error_report_triggered");
  const sentAt = 1_492_774_577_999;
  const both = stripeDelivery("{}", { secret: SECRET, sentAt });
  assertEquals(both.headers.get("Stripe-Signature"), await signed("{}", { sentAt }));
});

Deno.test("stripeDelivery() sends each example as Stripe does, and stripe() takes it", async () => {
  const heard: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: stripe() });
  bot.onAny(({ type, payload: { object } }) => heard.push([type, object]));
  await using test = await startTestBot(bot);
  for (const [type, example] of Object.entries(STRIPE_EXAMPLES)) {
    const { status, event } = await test.deliver(stripeDelivery({ type, ...example }));
    assertEquals([status, event?.type, event?.platform], [200, type, "stripe"]);
  }
  const kindOf = (type: string) => type.startsWith("v1.") ? "v2.core.event" : "event";
  assertEquals(heard, Object.keys(STRIPE_EXAMPLES).map((type) => [type, kindOf(type)]));
  const wrong = stripeDelivery(paid(), { secret: "another" });
  assertEquals((await test.deliver(wrong)).code, "INVALID_SIG");
});

const TIME = 1_767_225_600;

const BODY = JSON.stringify(paid());

/** Signs the body at that time as Stripe's library does, and returns the signature alone. */
async function signatureBy(secret: string): Promise<string> {
  return (await signed(BODY, { secret, sentAt: TIME * 1_000 })).split("v1=")[1]!;
}

const GOOD = await signatureBy(SECRET);

const BAD = "0".repeat(64);

/** Verifies the body with a header, at the time at which it was signed. */
async function verify(header: string | null, body = BODY, env: Record<string, string> = ENV) {
  using _time = new FakeTime(TIME * 1_000);
  const { verifyHead } = preparePlatform(stripe(), variablesIn(env, () => {}));
  const headers = new Headers(header === null ? {} : { "Stripe-Signature": header });
  return await verifyHead(headers)({ bytes: encoder.encode(body) });
}

/** Verifies as Stripe's library does, and tells whether it takes the request. */
async function isTakenByStripe(header: string): Promise<boolean> {
  const more = [undefined, undefined, TIME * 1_000] as const;
  const event = sender.webhooks.constructEventAsync(BODY, header, SECRET, ...more);
  return await event.then(({ id }) => id === "evt_1", () => false);
}

const TAKEN: Readonly<Record<string, string>> = {
  "one signature": `t=${TIME},v1=${GOOD}`,
  "a wrong one before it": `t=${TIME},v1=${BAD},v1=${GOOD}`,
  "a wrong one behind it": `t=${TIME},v1=${GOOD},v1=${BAD}`,
  "one of a version of tests": `t=${TIME},v1=${GOOD},v0=${BAD}`,
  "one of a version that is new": `t=${TIME},v2=anything,v1=${GOOD}`,
  "the signature before the time": `v1=${GOOD},t=${TIME}`,
  "malformed ones": `t=${TIME},v1=,v1=00,=,,a,v1=${GOOD}`,
  "a part without a value": `tx,t=${TIME},v1=${GOOD}`,
  "700 wrong ones": `t=${TIME},${`v1=${BAD},`.repeat(700)}v1=${GOOD}`,
};

for (const [what, header] of Object.entries(TAKEN)) {
  Deno.test(`stripe() takes ${what}, as Stripe's library does`, async () => {
    assertEquals(await verify(header), undefined);
    assert(await isTakenByStripe(header));
  });
}

const REFUSED: Readonly<Record<string, string>> = {
  "another signature": `t=${TIME},v1=${BAD}`,
  "no signature of this version": `t=${TIME},v0=${GOOD}`,
  "700 wrong ones": `t=${TIME}${`,v1=${BAD}`.repeat(700)}`,
  "a part of the signature": `t=${TIME},v1=${GOOD.slice(0, -1)}`,
  "more than the signature": `t=${TIME},v1=${GOOD}0`,
  "a signature in capitals": `t=${TIME},v1=${GOOD.toUpperCase()}`,
  "a signature with a prefix": `t=${TIME},v1=v1=${GOOD}`,
  "no time": `v1=${GOOD}`,
  "an empty time": `t=,v1=${GOOD}`,
  "another time": `t=${TIME + 1},v1=${GOOD}`,
  "a time that is no number": `t=now,v1=${GOOD}`,
  "a time below zero": `t=-${TIME},v1=${GOOD}`,
  "a time that overflows": `t=${"9".repeat(400)},v1=${GOOD}`,
  "a time with a dot": `t=${TIME}.,v1=${GOOD}`,
  "nothing but a name": "v1",
  "a name without a value": `t=${TIME},v1`,
  "times without a value": `t,tx,v1=${GOOD}`,
  "nothing but commas": ",,,",
};

for (const [what, header] of Object.entries(REFUSED)) {
  Deno.test(`stripe() refuses ${what}`, async () => {
    const { status, code } = await assertRejects(() => verify(header), HttpError);
    assertEquals([status, code], [401, "INVALID_SIG"]);
  });
}

Deno.test("stripe() refuses two times and two headers, which Stripe never sends", async () => {
  const headers = [
    `t=${TIME},v1=${GOOD},t=${TIME}`,
    `t=${TIME},v1=${GOOD}, t=${TIME},v1=${GOOD}`,
    `t=${TIME},v1=${BAD}, v1=${GOOD}`,
  ];
  for (const header of headers) {
    assertEquals((await assertRejects(() => verify(header), HttpError)).code, "INVALID_SIG");
  }
});

Deno.test("stripe() refuses a request without the header, or with an empty one", async () => {
  for (const header of [null, ""]) {
    const { status, code } = await assertRejects(() => verify(header), HttpError);
    assertEquals([status, code], [401, "MISSING_SIG"]);
  }
});

Deno.test("stripe() refuses another body, and a body that was moved to the time", async () => {
  const header = `t=${TIME},v1=${GOOD}`;
  for (const body of [`${BODY} `, BODY.slice(1), ""]) {
    assertEquals((await assertRejects(() => verify(header, body), HttpError)).code, "INVALID_SIG");
  }
  // The content `1.7.{}` is signed for the time 1 and the body `7.{}`.
  const moved = `t=${TIME}.7,v1=${hmac(SECRET, `${TIME}.7.{}`).toHex()}`;
  assertEquals((await assertRejects(() => verify(moved, "{}"), HttpError)).code, "INVALID_SIG");
});

Deno.test("stripe() takes both secrets while one is being replaced", async () => {
  const env = { STRIPE_WEBHOOK_SECRET: OTHER_SECRET, STRIPE_WEBHOOK_SECRET_PREVIOUS: SECRET };
  const old = `t=${TIME},v1=${GOOD}`;
  const now = await signatureBy(OTHER_SECRET);
  assertEquals(await verify(old, BODY, env), "secret 2");
  assertEquals(await verify(`t=${TIME},v1=${now}`, BODY, env), "secret 1");
  // As Stripe does it for up to 24 hours: a verifier takes it with either.
  const both = `${old},v1=${now}`;
  assertEquals(await verify(both), undefined);
  assertEquals(await verify(both, BODY, { STRIPE_WEBHOOK_SECRET: OTHER_SECRET }), undefined);
});

Deno.test("stripe() refuses what is over 5 minutes old, or of the future", async () => {
  await using sut = await startBot();
  for (const sentAt of [Date.now() - 302_000, Date.now() + 302_000]) {
    const { status, code } = await send(sut.test, paid(), { sentAt });
    assertEquals([status, code], [401, "STALE_SIG"]);
  }
  assertEquals(sut.handled, []);
});

const UNREADABLE: Readonly<Record<string, [code: string, body: object | string]>> = {
  "no JSON": ["INVALID_BODY", "hello"],
  "a list": ["INVALID_BODY", [paid()]],
  "null": ["INVALID_BODY", "null"],
  "another object": ["INVALID_BODY", { ...paid(), object: "invoice" }],
  "no object": ["INVALID_BODY", { id: "evt_1", type: "invoice.paid" }],
  "an object in a prototype": [
    "INVALID_BODY",
    '{"__proto__":{"object":"event"},"id":"evt_1","type":"invoice.paid"}',
  ],
  "no type": ["MISSING_EVENT", { ...paid(), type: undefined }],
  "a type that is a list": ["INVALID_EVENT", { ...paid(), type: ["invoice.paid"] }],
  "a type with a slash": ["INVALID_EVENT", { ...paid(), type: "invoice/paid" }],
  "no id": ["INVALID_DELIVERY", { ...paid(), id: undefined }],
  "an id that is an object": ["INVALID_DELIVERY", { ...paid(), id: {} }],
  "an id with a space": ["INVALID_DELIVERY", { ...paid(), id: "evt 1" }],
};

for (const [what, [code, content]] of Object.entries(UNREADABLE)) {
  Deno.test(`stripe() answers 400 to a signed request with ${what}`, async () => {
    await using sut = await startBot();
    const answer = await send(sut.test, content);
    assertEquals([answer.status, answer.code, answer.event], [400, code, undefined]);
    assertEquals(sut.handled, []);
  });
}

Deno.test("stripe() answers 400 to a signed body that is not UTF-8", async () => {
  await using sut = await startBot();
  const bytes = Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d);
  const delivery = stripeDelivery(bytes, { secret: SECRET });
  assertEquals((await sut.test.deliver(delivery)).code, "INVALID_BODY");
});

Deno.test("stripe() verifies a large body, which is hashed beside the others", async () => {
  await using sut = await startBot();
  const large = { ...paid(), padding: "x".repeat(600_000) };
  assertEquals((await send(sut.test, large)).event?.id, "stripe:evt_1");
  const forged = await send(sut.test, { ...large, id: "evt_2" }, { secret: OTHER_SECRET });
  assertEquals(forged.code, "INVALID_SIG");
  assertEquals(sut.handled, [4_200]);
});

Deno.test("stripe() takes JSON only, in one way", async () => {
  await using sut = await startBot();
  for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
    const answer = await send(sut.test, paid(), { headers: { "Content-Type": type } });
    assertEquals([answer.status, answer.code], [415, "UNSUPPORTED_MEDIA_TYPE"]);
  }
  const withText = (text: string) => requestOf({ ...paid(), text });
  await checkContentTypes(stripe(), withText, { env: ENV });
});

Deno.test("stripe() reads its secret from the variable of its name, and takes no key of the API", () => {
  assertEquals(stripe({ name: "stripe-thin" }).variables, ["STRIPE_THIN_WEBHOOK_SECRET"]);
  const prepare = (secret: string) =>
    preparePlatform(stripe(), variablesIn({ STRIPE_WEBHOOK_SECRET: secret }, () => {}));
  assert(prepare(SECRET));
  for (const key of ["sk_live_1", "rk_live_1", "pk_live_1"]) {
    const message = "STRIPE_WEBHOOK_SECRET is a key of Stripe's API, and not the signing secret";
    assertThrows(() => prepare(key), VariableError, message);
    assertThrows(() => stripe({ secrets: [key] }), TypeError, "secret 1 is a key of Stripe's API");
  }
  assertThrows(() => prepare(`${SECRET}\n`), VariableError, "ends with white space");
});

Deno.test("byObject() finds what an event is about", () => {
  const about = (payload: object) => byObject({ payload } as Delivery);
  assertEquals(about(paid()), "in_1");
  assertEquals(about(thin()), "mtr_1");
  for (
    const payload of [{}, { data: null }, { data: { object: "in_1" } }, { related_object: null }]
  ) {
    assertEquals(about(payload), undefined);
  }
});
