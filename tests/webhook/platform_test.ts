import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  createBaseApp,
  createIntake,
  defineApp,
  definePlatform,
  HttpError,
  type LogRecord,
  openEventStore,
  type Platform,
  secrets,
} from "../../mod.ts";
import { FakeTime } from "@std/testing/time";
import { startTestBot } from "../../testing/mod.ts";
import type { PlatformDefinition } from "../../webhook/mod.ts";

type MeterEvents = { reading: { readonly value: number } };

const ENV = { METER_KEY: "a-key-of-the-meter" };

type Options = Partial<Omit<PlatformDefinition<MeterEvents, { METER_KEY: typeof secrets }>, "env">>;

/** A sender that puts its key into a header, and its type beside the document. */
function meter(options: Options = {}): Platform<MeterEvents> {
  return definePlatform({
    name: "meter",
    env: { METER_KEY: secrets },
    createVerifier: ({ METER_KEY }) => (headers) => {
      if (!METER_KEY.includes(headers.get("X-Key") ?? "")) {
        throw new HttpError(401, "Invalid key", { code: "INVALID_TOKEN" });
      }
      return () => "key";
    },
    parse: (headers, body) => ({
      type: headers.get("X-Type") ?? "reading",
      deliveryId: headers.get("X-Id") ?? undefined,
      payload: JSON.parse(new TextDecoder().decode(body)),
    }),
    testEnv: ENV,
    ...options,
  });
}

const reading = (headers: Record<string, string> = {}, body = '{"value":7}') => ({
  platform: "meter",
  method: "POST" as const,
  headers: new Headers({ "X-Key": ENV.METER_KEY, ...headers }),
  body,
});

/** Delivers to an app with this platform, and tells the answer and what was handled. */
async function delivered(options: Options, headers?: Record<string, string>, body?: string) {
  const bot = defineApp({ name: "bot", platform: meter(options) });
  const handled: unknown[] = [];
  bot.on("reading", ({ id, source, platform, payload }) => {
    handled.push([id, source, platform, payload.value]);
  });
  await using test = await startTestBot(bot);
  const { status, text, code } = await test.deliver(reading(headers, body));
  const warnings = test.logs.filter(({ level }) => level !== "info" && level !== "debug");
  const requests = test.logs.filter(({ message }) => message === "request");
  return { answer: [status, text, code], handled, warnings, request: requests[0] };
}

Deno.test("definePlatform() makes a platform whose events are verified, stored and handled", async () => {
  const { answer, handled, request } = await delivered({}, { "X-Id": "1" });
  assertEquals(answer, [200, "OK", null]);
  assertEquals(handled, [["meter:1", "meter", "meter", 7]]);
  assertEquals(request?.verifiedBy, "key");
});

Deno.test("a platform's head is verified before its body is read", async () => {
  const { answer, handled } = await delivered({}, { "X-Key": "wrong", "Content-Length": "11" });
  assertEquals(answer, [401, '{"error":"Invalid key"}', "INVALID_TOKEN"]);
  assertEquals(handled, []);
});

const refuse = () => {
  throw new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
};

for (
  const [how, verify] of [["at once", refuse], [
    "later",
    () => Promise.reject(new HttpError(401, "Invalid signature", { code: "INVALID_SIG" })),
  ]] as const
) {
  Deno.test(`a platform can refuse a body ${how}`, async () => {
    const { answer, handled } = await delivered({ createVerifier: () => () => verify });
    assertEquals(answer, [401, '{"error":"Invalid signature"}', "INVALID_SIG"]);
    assertEquals(handled, []);
  });
}

Deno.test("a platform verifies large bodies asynchronously, and gets them whole", async () => {
  let bytes = 0;
  const { answer } = await delivered(
    {
      createVerifier: () => () => async (body) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        bytes = body.bytes.byteLength;
      },
    },
    {},
    JSON.stringify({ value: 7, text: "x".repeat(300_000) }),
  );
  assertEquals([answer[0], bytes], [200, 300_021]);
});

Deno.test("a platform can answer a request itself, once it is verified: nothing is stored", async () => {
  const parse = (_headers: Headers, body: Uint8Array) =>
    new Response(body as BodyInit, { status: 200 });
  const challenge = await delivered({ parse }, {}, "challenge");
  assertEquals([challenge.answer, challenge.handled], [[200, "challenge", null], []]);
  const forged = await delivered({ parse }, { "X-Key": "wrong" }, "challenge");
  assertEquals(forged.answer[0], 401);
});

Deno.test("a platform can choose the answer to what was stored", async () => {
  const respond = ({ type }: { readonly type: string }) => Response.json({ type });
  const { answer, handled } = await delivered({ respond }, { "X-Id": "1" });
  assertEquals([answer, handled.length], [[200, '{"type":"reading"}', null], 1]);
});

Deno.test("an event stays stored if the platform's answer fails", async () => {
  const respond = () => {
    throw new Error("a secret cause");
  };
  const { answer, handled } = await delivered({ respond }, { "X-Id": "1" });
  assertEquals(answer, [500, '{"error":"Internal Server Error"}', "INTERNAL"]);
  assertEquals(handled.length, 1);
});

for (const unauthorized of ["reject", "ignore"] as const) {
  Deno.test(`a platform decides who is allowed, and is to ${unauthorized} the others`, async () => {
    const isAllowed: Options["isAllowed"] = ({ payload }, { METER_KEY }) =>
      METER_KEY.length === 1 && payload.value === 7;
    assertEquals((await delivered({ isAllowed, unauthorized })).handled.length, 1);
    const respond = () => new Response("stored");
    const { answer, handled, warnings } = await delivered(
      { isAllowed, unauthorized, respond },
      {},
      '{"value":8}',
    );
    const refused = [403, '{"error":"User not authorized"}', "AUTH_001"];
    assertEquals([answer, handled], [unauthorized === "reject" ? refused : [200, "OK", null], []]);
    assertEquals(warnings[0]?.code, "AUTH_001");
  });
}

Deno.test("a platform's check gets the app's bindings, which cannot replace its own variables", async () => {
  const seen: unknown[] = [];
  const isAllowed: Options["isAllowed"] = (_delivery, env) => {
    seen.push(env.GREETING, env.METER_KEY);
    return true;
  };
  using kv = await Deno.openKv(":memory:");
  const app = createBaseApp({ name: "bot", logger: false });
  app.route("/", createIntake(meter({ isAllowed }), { store: await openEventStore(kv), env: ENV }));
  const { method, headers, body } = reading();
  const bindings = { GREETING: "hi", METER_KEY: ["of the app"] };
  assertEquals((await app.request("/webhook", { method, headers, body }, bindings)).status, 200);
  assertEquals(seen, ["hi", [ENV.METER_KEY]]);
});

const BAD: readonly (readonly [Record<string, string>, string])[] = [
  [{ "X-Type": "no type" }, "INVALID_EVENT"],
  [{ "X-Type": "1" }, "INVALID_EVENT"],
  [{ "X-Type": "x".repeat(101) }, "INVALID_EVENT"],
  [{ "X-Id": "a b" }, "INVALID_DELIVERY"],
  [{ "X-Id": "x".repeat(129) }, "INVALID_DELIVERY"],
];

for (const [headers, code] of BAD) {
  Deno.test(`a platform's delivery is refused as ${code}: ${JSON.stringify(headers).slice(0, 40)}`, async () => {
    const { answer, handled } = await delivered({}, headers);
    assertEquals([answer[0], answer[2], handled], [400, code, []]);
  });
}

Deno.test("a body that a platform cannot parse is answered 400", async () => {
  const { answer, handled } = await delivered({}, {}, "{");
  assertEquals(answer, [400, '{"error":"Body is malformed"}', "INVALID_BODY"]);
  assertEquals(handled, []);
});

const ODD: readonly Record<string, unknown>[] = [
  { action: 7, source: 8, sender: "bob", chat: { id: "C1" }, repository: { id: 1 } },
  { action: "x".repeat(100_000), source: "y".repeat(100_000), deliveryId: null },
  { sender: { id: 1e300 }, chat: null, repository: { id: 1, fullName: 7 }, payload: { value: 8 } },
];

for (const [i, odd] of ODD.entries()) {
  Deno.test(`a platform that reads nonsense stores a record that can be read: ${i}`, async () => {
    const parse = () => ({ type: "reading", payload: {}, ...odd });
    const bot = defineApp({ name: "bot", platform: meter({ parse: parse as never }) });
    const handled: unknown[] = [];
    bot.on("reading", ({ payload, attempt }) => {
      handled.push(payload.value);
      if (attempt === 1) throw new Error("again");
    });
    await using test = await startTestBot(bot);
    const { status, event } = await test.deliver(reading(), { expectFailure: true });
    assertEquals([status, event?.state], [200, "queued"]);
    await test.advance(2_000);
    const events = await Array.fromAsync(test.store.list());
    assertEquals([events.map(({ state }) => state), handled], [["done"], [7, 7]]);
  });
}

Deno.test("a delivery id may be a number", async () => {
  const parse = () => ({ type: "reading", payload: {}, deliveryId: 7 });
  const { handled } = await delivered({ parse: parse as never });
  assertEquals(handled, [["meter:7", "meter", "meter", 7]]);
});

const FAIL_OPEN: readonly (readonly [string, unknown])[] = [
  ["false", () => false],
  ["a promise of false", () => Promise.resolve(false)],
  ["null", () => null],
  ["an object", () => ({ sub: "somebody" })],
  ["another promise that rejects", () => ({
    then: (_: unknown, reject: (error: Error) => void) =>
      reject(new HttpError(401, "Invalid signature", { code: "INVALID_SIG" })),
  })],
];

for (const [what, verify] of FAIL_OPEN) {
  Deno.test(`a verifier that returns ${what} lets nothing pass`, async () => {
    const { answer, handled } = await delivered({ createVerifier: () => () => verify as never });
    assertEquals([answer[0], handled], [what.startsWith("another") ? 401 : 500, []]);
  });
}

Deno.test("a verifier that is async by mistake refuses everything, and ends no process", async () => {
  const createVerifier = () => () =>
    Promise.reject(new HttpError(401, "no", { code: "INVALID_SIG" }));
  const { answer, handled } = await delivered({ createVerifier: createVerifier as never });
  assertEquals([answer[0], handled], [500, []]);
});

for (
  const [what, createVerifier] of [
    ["a promise: it must not be async", () => Promise.resolve(() => {})],
    ["undefined", () => undefined],
  ] as const
) {
  Deno.test(`createVerifier must return a function at the start, and not ${what}`, async () => {
    const bot = defineApp({
      name: "bot",
      platform: meter({ createVerifier: createVerifier as never }),
    });
    const message =
      `Cannot define the platform 'meter': 'createVerifier' must return a function, got ${what}`;
    await assertRejects(() => startTestBot(bot), TypeError, message);
  });
}

Deno.test("what createVerifier throws is not quoted: it may hold a secret", async () => {
  const createVerifier: Options["createVerifier"] = ({ METER_KEY }) => JSON.parse(METER_KEY[0]!);
  const bot = defineApp({ name: "bot", platform: meter({ createVerifier }) });
  const { message } = await assertRejects(() => startTestBot(bot), Error);
  assertEquals(message, "The platform 'meter' cannot use its variables: a SyntaxError was thrown");
});

for (const decision of ["no", 1, undefined, Promise.resolve("no")]) {
  Deno.test(`isAllowed must return a boolean, and not ${decision}`, async () => {
    const { answer, handled } = await delivered({ isAllowed: () => decision as never });
    assertEquals([answer[0], handled], [500, []]);
  });
}

for (const deliveryId of [{}, ["a"], true, 1.5]) {
  Deno.test(`a delivery id that is no text is refused: ${JSON.stringify(deliveryId)}`, async () => {
    const parse = () => ({ type: "reading", payload: {}, deliveryId });
    const { answer, handled } = await delivered({ parse: parse as never });
    assertEquals([answer[0], answer[2], handled], [400, "INVALID_DELIVERY", []]);
  });
}

for (const body of ["[]", "null", "7", `${'{"a":'.repeat(65)}1${"}".repeat(65)}`, "a=b"]) {
  Deno.test(`a platform's document must be a JSON object: ${body.slice(0, 20)}`, async () => {
    const parse = () => ({ type: "reading", payload: {} });
    const { answer, handled } = await delivered({ parse }, {}, body);
    assertEquals([answer[0], answer[2], handled], [400, "INVALID_BODY", []]);
  });
}

Deno.test("a platform whose parse() is async is told so in the log", async () => {
  const parse = () => Promise.resolve({ type: "reading", payload: {} });
  const bot = defineApp({ name: "bot", platform: meter({ parse: parse as never }) });
  await using test = await startTestBot(bot);
  assertEquals((await test.deliver(reading())).status, 500);
  const errors = test.logs.map(({ error }) => (error as Error | undefined)?.message);
  assertEquals(errors.filter((each) => each?.includes("must not be async")).length, 1);
});

Deno.test("a mistake in a platform is a 500 that says nothing, and nothing is stored", async () => {
  const parse: Options["parse"] = (_headers, body) =>
    (body as unknown as { mistake(): never }).mistake();
  const { answer, handled } = await delivered({ parse });
  assertEquals(answer, [500, '{"error":"Internal Server Error"}', "INTERNAL"]);
  assertEquals(handled, []);
});

Deno.test("a platform answers at its path, in that spelling only", async () => {
  const bot = defineApp({ name: "bot", platform: meter({ path: "/hooks/meter.v1" }) });
  await using test = await startTestBot(bot);
  assertEquals((await test.deliver(reading())).status, 200);
  const { method, headers, body } = reading();
  for (const path of ["/webhook", "/hooks/meter%2Ev1", "/hooks/meter.v1/", "/hooks/meterXv1"]) {
    const response = await test.fetch(path, { method, headers, body });
    assertEquals([path, response.status], [path, 404]);
    await response.body?.cancel();
  }
});

for (
  const path of ["", "/", "webhook", "/a b", "/:id", "/*", "/a//b", "/a%2fb", "/..", "/a?b", 5]
) {
  Deno.test(`definePlatform() refuses the path ${JSON.stringify(path)}`, () => {
    const message = "Cannot define the platform 'meter': 'path' must be a slash, ";
    assertThrows(() => meter({ path: path as string }), TypeError, message);
  });
}

Deno.test("createIntake() reads the platform's variables, and warns nobody", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const logs: LogRecord[] = [];
  const app = createBaseApp({ name: "bot", logger: { log: (record) => void logs.push(record) } });
  app.route("/", createIntake(meter(), { store, env: { METER_KEY: "short" } }));
  const { method, headers, body } = reading({ "X-Key": "short" });
  assertEquals((await app.request("/webhook", { method, headers, body })).status, 200);
  assertEquals(logs.map(({ message }) => message), ["request"]);
});

Deno.test("definePlatform() answers 503 after 5 s where a verifier does not end, and holds the body until then", async () => {
  using time = new FakeTime();
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const verifying = Promise.withResolvers<void>();
  const platform = meter({ createVerifier: () => () => () => verifying.promise });
  const app = createBaseApp({ name: "bot", logger: { log: () => {} } });
  app.route("/", createIntake(platform, { store, env: ENV }));
  const { method, headers, body } = reading();
  let status = 0;
  const answered = Promise.resolve(app.request("/webhook", { method, headers, body }))
    .then((response) => status = response.status);
  await time.tickAsync(4_999);
  assertEquals(status, 0);
  await time.tickAsync(1);
  assertEquals(await answered, 503);
  verifying.resolve();
});
