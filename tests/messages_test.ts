import { assertEquals, assertRejects } from "@std/assert";
import { events, runSchedule } from "../app/mod.ts";
import { catchUp } from "../catch_up/mod.ts";
import { exportEvents, importEvents } from "../events/mod.ts";
import {
  createLogSummary,
  createStdoutLog,
  KvRateLimitStore,
  MemoryRateLimitStore,
} from "../middleware/mod.ts";
import {
  bindEnv,
  createAuth,
  createBaseApp,
  createEventRouter,
  createIntake,
  createLogger,
  createRateLimiter,
  defineApp,
  definePlatform,
  type EventStore,
  forge,
  github,
  gitlab,
  type GroupBy,
  type HandlerContext,
  healthRoutes,
  isUserAuthorized,
  openApp,
  openEventStore,
  optional,
  required,
  RetryLaterError,
  runApp,
  startApp,
  startWorker,
  telegram,
} from "../mod.ts";
import {
  forgeDelivery,
  messengerUpdate,
  standardDelivery,
  startTestBot,
  type TestBot,
} from "../testing/mod.ts";
import { grouped } from "../webhook/grouping.ts";
import { forgeIntake, messengerIntake } from "./webhook/_intakes.ts";

/** Values that types forbid, and JavaScript, `any` and JSON let through. */
const wrong = (value: unknown): never => value as never;

/** A store by its methods, which are not called: the mistake is seen before. */
const store: EventStore = wrong({
  accept: () => {},
  listen: () => {},
  maxPayloadBytes: 2 ** 26,
});
/** A store that no worker may be started on. */
const listening: EventStore = wrong({
  ...store,
  listen: () => {
    throw new Error("Started");
  },
});
const secrets = ["It's a Secret to Everybody"];
const handler = () => {};
const definition = { name: "bot", platform: github() };
const app = defineApp(definition);
/** An app that has been opened. */
function opened() {
  const app = defineApp(definition);
  app.handlerWith({ env: {}, resources: undefined });
  return app;
}
const needy = defineApp({ ...definition, env: { API_TOKEN: required } });

/** Calls that make a mistake, and what is said of it: whole, or its beginning if that ends with a comma. */
type Mistakes<TSubject> = Readonly<
  Record<string, Readonly<Record<string, (subject: TSubject) => unknown>>>
>;

/** Registers a test for each mistake; `run` makes the call, and returns the message of its error. */
function testMistakes<TSubject>(
  mistakes: Mistakes<TSubject>,
  run: (call: (subject: TSubject) => unknown) => Promise<string>,
): void {
  for (const [what, calls] of Object.entries(mistakes)) {
    for (const [said, call] of Object.entries(calls)) {
      const message = what === "" ? said : `${what}: ${said}`;
      Deno.test(`It is said at once: ${message}`, async () => {
        const found = await run(call);
        assertEquals(said.endsWith(", ") ? found.slice(0, message.length) : found, message);
      });
    }
  }
}

/** Makes a call that must fail, and returns the message. An option that does not exist is a wrong type. */
async function messageOf(call: () => unknown): Promise<string> {
  const error = await assertRejects(async () => await call(), Error);
  if (error.message.includes("there is no option")) assertEquals(error.name, "TypeError");
  return error.message;
}

const group = (made: unknown) =>
  grouped(
    {
      ...{ platform: "forge", source: "github", type: "push", deliveryId: "d1" },
      ...{ payload: {}, body: new Uint8Array() },
    },
    (() => made) as GroupBy,
  );

/** Stops a worker as asked, and then in any case. */
async function stopIdle(options: unknown): Promise<void> {
  using kv = await Deno.openKv(":memory:");
  const worker = startWorker(await openEventStore(kv), handler, { log: () => {} });
  try {
    await worker.stop(wrong(options));
  } finally {
    await worker.stop();
  }
}

testMistakes<void>({
  "Cannot add the schedule": {
    "its name must be a letter and up to 99 letters, digits, '_', '.', ':' or '-', got \"7am\"":
      () => defineApp(definition).schedule("7am", "@daily", handler),
    "the app is open already. Do that before you run or open it": () =>
      opened().schedule("a", "@daily", handler),
  },
  "Cannot add the schedule 'a'": {
    [
      "the cron expression must have five fields (minute, hour, day of the month, month, day of the " +
      'week), such as "0 7 * * 1-5", or be one of @yearly, @annually, @monthly, @weekly, @daily, ' +
      '@midnight, @hourly, got "0 0 7 * * 1-5"'
    ]: () => defineApp(definition).schedule("a", "0 0 7 * * 1-5", handler),
    '\'timeZone\' must be the name of a time zone, such as "Europe/Berlin", got "Berlin"': () =>
      defineApp(definition).schedule("a", "@daily", handler, { timeZone: "Berlin" }),
    '\'missed\' must be "last", "none" or "all", got "first"': () =>
      defineApp(definition).schedule("a", "@daily", handler, { missed: wrong("first") }),
    'there is no option "timezone". There are timeZone, missed, id, timeoutMs, concurrency, rate, retry':
      () => defineApp(definition).schedule("a", "@daily", handler, wrong({ timezone: "UTC" })),
    "there is one of that name already": () =>
      defineApp(definition).schedule("a", "@daily", handler).schedule("a", "@daily", handler),
    "the options must be an object, got null": () =>
      defineApp(definition).schedule("a", "@daily", handler, wrong(null)),
    'there is no option "missing". There are timeZone, missed, id, timeoutMs, concurrency, rate, retry':
      () => defineApp(definition).schedule("a", "@daily", () => {}, wrong({ missing: "all" })),
  },
  "Cannot register the handler": {
    "it must be a function, got undefined": () =>
      defineApp(definition).schedule("a", "@daily", wrong(undefined)),
    "it must be for the name of an event, or an array of names, got 5": () =>
      createEventRouter().on(wrong(5), handler),
    "'timeoutMs' must be a whole number from 1 to 2147483647, got 0": () =>
      createEventRouter().on("push", handler, { timeoutMs: 0 }),
    "it must be a function, got an object": () => createEventRouter().on("push", wrong({})),
    "the options must be an object, got null": () =>
      createEventRouter().on("push", handler, wrong(null)),
    'there is no option "timeout". There are id, timeoutMs, concurrency, rate, retry': () =>
      defineApp(definition).on("push", () => {}, wrong({ timeout: 1 })),
    'there is no option "ids". There are id, timeoutMs, concurrency, rate, retry': () =>
      defineApp(definition).onDead(() => {}, wrong({ ids: "a" })),
  },
  "Cannot define the platform": {
    "'name' must not be \"schedule\", which is the source of events of the package": () =>
      github({ name: "schedule" }),
    "'name' must be a letter, then up to 31 letters, digits, _ and -, got \"\"": () =>
      github({ name: "" }),
  },
  "Cannot name the source": {
    [
      'the source must not be "schedule", whose events schedules make: run one at once with ' +
      "runSchedule()"
    ]: () => events("schedule"),
  },
  "Cannot create the app": {
    "'name' must be a text that is not blank, got undefined": () => createBaseApp(wrong({})),
    "'name' must be a text that is not blank, got \"\\n\"": () => createBaseApp({ name: "\n" }),
    "'before' must be an array of middleware, got a function": () =>
      createBaseApp({ name: "bot", before: wrong(() => {}) }),
    "'before[1]' must be a function, got \"/api\"": () =>
      createBaseApp({ name: "bot", before: [() => Promise.resolve(), wrong("/api")] }),
    "'telemetry' must be what openTelemetry() resolves with, got a promise: await it": () =>
      createBaseApp({ name: "bot", telemetry: wrong(Promise.resolve()) }),
    'the options must be an object, got "bot"': () => createBaseApp(wrong("bot")),
    "'ready' must be a function, got true": () =>
      createBaseApp({ name: "bot", ready: wrong(true) }),
    "'rateLimit' must be an object, got 100": () =>
      createBaseApp({ name: "bot", rateLimit: wrong(100) }),
    "'logger', if it is not a boolean, must be an object, got an array": () =>
      createBaseApp({ name: "bot", logger: wrong([]) }),
    [
      'there is no option "ratelimit". There are name, version, logger, rateLimit, before, health, ' +
      "ready, telemetry"
    ]: () => createBaseApp(wrong({ name: "bot", ratelimit: {} })),
  },
  "Cannot start the worker, in 'retry'": {
    "'maxAttempts' must be a whole number from 1 to 9007199254740991, got 0": () =>
      startWorker(store, handler, { retry: { maxAttempts: 0 } }),
    "'minDelayMs' must be from 0 to 31536000000, got \"5\"": () =>
      startWorker(store, handler, { retry: { minDelayMs: wrong("5") } }),
    'there is no option "attempts". There are minDelayMs, maxDelayMs, maxAttempts': () =>
      defineApp({ ...definition, worker: { retry: wrong({ attempts: 3 }) } }),
  },
  "Cannot start the worker": {
    "the handler must be a function, got undefined": () => startWorker(store, wrong(undefined)),
    "the handler must be a function, got an object": () =>
      startWorker(store, wrong(createEventRouter())),
    "the store must be what openEventStore() resolves with, got a promise: await it": () =>
      startWorker(wrong(Promise.resolve(store)), handler),
    "'concurrency' must be a whole number from 1 to 10000, got \"50\"": () =>
      startWorker(store, handler, { concurrency: wrong("50") }),
    "'retry' must be an object, got 3": () => startWorker(store, handler, { retry: wrong(3) }),
    "'log' must be a function, got an object": () =>
      startWorker(store, handler, { log: wrong(console) }),
    "'telemetry' must be what openTelemetry() resolves with, got an object": () =>
      startWorker(listening, handler, { telemetry: wrong({}) }),
    "'retry' must be an object, got an array": () =>
      startWorker(listening, handler, { retry: wrong([]) }),
    [
      'there is no option "parallel". There are concurrency, leaseMs, pollMs, timeoutMs, onStuck, ' +
      "reportDead, reportFailing, retry, rate, waitForHandlerMs, version, log, telemetry"
    ]: () => startWorker(wrong({ listen: () => {} }), () => {}, wrong({ parallel: 1 })),
  },
  "Cannot create the forge intake": {
    "'telemetry' must be what openTelemetry() resolves with, got a promise: await it": () =>
      forgeIntake({ secrets, store, telemetry: wrong(Promise.resolve()) }),
    "'store' must be what openEventStore() resolves with, or a store of your own, got undefined":
      () => forgeIntake(wrong({ secrets })),
    "the options must be an object, got undefined": () =>
      createIntake(forge({ secrets }), wrong(undefined)),
  },
  "Cannot create the messenger intake": {
    "'telemetry' must be what openTelemetry() resolves with, got 5": () =>
      messengerIntake({ secrets: ["token"], store, telemetry: wrong(5) }),
    [
      "'store' must be what openEventStore() resolves with, or a store of your own, got a promise: " +
      "await it"
    ]: () => messengerIntake({ secrets: ["token"], store: wrong(Promise.resolve(store)) }),
  },
  "Cannot create the intake": {
    [
      "the platform must be what github(), telegram() or another such function returns, got the " +
      "function itself: call it"
    ]: () => createIntake(wrong(github), { store }),
  },
  "Cannot create the github intake": {
    "'env' must be an object, got \"production\"": () =>
      createIntake(github(), { store, env: wrong("production") }),
    'there is no option "log". There are store, telemetry, env, describe': () =>
      createIntake(github(), wrong({ log: () => {} })),
  },
  "": {
    "GITHUB_WEBHOOK_SECRET is not set": () => createIntake(github(), { store }),
    "PORT must be a text, got number; LOG_FORMAT must be auto, json or text": () =>
      startApp(app, { env: { GITHUB_WEBHOOK_SECRET: "s", PORT: wrong(8000), LOG_FORMAT: "xml" } }),
    [
      "GITHUB_WEBHOOK_SECRET is not set; API_TOKEN is not set; PORT must be a whole number from 0 to " +
      "65535"
    ]: () => startApp(needy, { env: { PORT: "http" } }),
    "groupBy must return a key, a group with a 'key', or undefined, got an array": () =>
      group(["a"]),
  },
  "Cannot define the platform 'github'": {
    "'tokens' are GitLab's: this platform's deliveries are signed": () =>
      github(wrong({ tokens: ["a-token"] })),
    "'path' must be a slash, then letters, digits, _, -, . and slashes, got \"hooks\"": () =>
      github({ path: "hooks" }),
    "'maxBodyBytes' must be a whole number from 1 to 9007199254740991, got \"1MB\"": () =>
      github({ maxBodyBytes: wrong("1MB") }),
    'there is no option "secret". There are name, path, ': () => github(wrong({ secret: "x" })),
    "the options must be an object, got null": () => github(wrong(null)),
  },
  "Cannot define the platform 'gitlab'": {
    [
      "secret 1 does not begin with whsec_, as GitLab's signing tokens do: a secret token belongs " +
      "into the tokens"
    ]: () => gitlab({ secrets }),
  },
  "Cannot define the platform 'slack'": {
    "'createVerifier' must be a function, got undefined": () =>
      definePlatform(wrong({ name: "slack", parse: () => {} })),
  },
  "Cannot define the app": {
    "'name' must be a text that is not blank, got undefined": () =>
      defineApp({ ...definition, name: wrong(undefined) }),
    [
      "the platform must be what github(), telegram() or another such function returns, got the " +
      "function itself: call it"
    ]: () => defineApp({ ...definition, platform: wrong(github) }),
    'the platform must be what github(), telegram() or another such function returns, got "github"':
      () => defineApp({ ...definition, platform: wrong("github") }),
    [
      "the variable 'TOKEN' in 'env' must be required, optional() or secrets, got the function " +
      "itself: call it"
    ]: () => defineApp({ ...definition, env: { TOKEN: wrong(optional) } }),
    [
      "the variable 'TOKEN' in 'env' must be required, optional() or secrets, got a text: the value " +
      "is read at the start"
    ]: () => defineApp({ ...definition, env: { TOKEN: wrong("ghp_x") } }),
    'there is no option "setup". There are name, version, platform, store, ': () =>
      defineApp(wrong({ ...definition, setup: () => {} })),
    "'strict' must be true or false, got \"yes\"": () =>
      defineApp({ ...definition, strict: wrong("yes") }),
    "the definition must be an object, got undefined": () => defineApp(wrong(undefined)),
    "'resources' must be a function, got an object": () =>
      defineApp({ ...definition, resources: wrong({ api: {} }) }),
    "'rateLimit' must be an object, got 100": () =>
      defineApp({ ...definition, rateLimit: wrong(100) }),
    "'namespace' must be a text that is not blank, got \"\"": () =>
      defineApp({ ...definition, namespace: "" }),
    "'worker' must be an object, got 10": () => defineApp({ ...definition, worker: wrong(10) }),
    "'retentionMs' must be a whole number from 1 to 3153600000000, got \"7d\"": () =>
      defineApp({ ...definition, retentionMs: wrong("7d") }),
  },
  "Cannot define the app, in 'worker'": {
    [
      'there is no option "concurency". There are concurrency, leaseMs, pollMs, timeoutMs, retry, ' +
      "rate, waitForHandlerMs"
    ]: () => defineApp({ ...definition, worker: wrong({ concurency: 5 }) }),
  },
  "Cannot define the platform 'telegram'": {
    'the options must be an object, got "token"': () => telegram(wrong("token")),
    "secret 1 is not a secret token that Telegram accepts: 1 to 256 letters, digits, _ and -": () =>
      telegram({ secrets: ["123456:ABC-the-token-of-the-bot"] }),
  },
  "Cannot add the middleware": {
    "the app is open already. Do that before you run or open it": () => opened().use(() => {}),
    "'middleware' must be a function, got undefined": () =>
      defineApp(definition).use(wrong(undefined)),
  },
  "Cannot add the platform": {
    "the app is open already. Do that before you run or open it": () =>
      opened().from(telegram({ path: "/telegram" })),
    'a platform of this app has the name "github". Give this one its own': () =>
      defineApp(definition).from(github()),
  },
  "Cannot define the platform 'forge'": {
    "'secrets' must be an array with at least one secret, got a text": () =>
      forgeIntake({ secrets: wrong("a secret"), store }),
    "secret 2 must be a text, got undefined": () =>
      forgeIntake({ secrets: [...secrets, wrong(undefined)], store }),
    "'groupBy' must be a function, got \"repository\"": () =>
      forgeIntake({ secrets, store, groupBy: wrong("repository") }),
  },
  "Cannot define the platform 'messenger'": {
    "'isAuthorized' must be a function, got an array": () =>
      messengerIntake({ secrets: ["token"], store, isAuthorized: wrong([42]) }),
    '\'unauthorized\' must be "reject" or "ignore", got "drop"': () =>
      messengerIntake({ secrets: ["token"], store, unauthorized: wrong("drop") }),
    "secret 1 begins or ends with white space, such as a line break, which no header can bring":
      () => messengerIntake({ secrets: ["token\n"], store }),
  },
  "Cannot check the user": {
    "'MESSENGER_ALLOWED_USERS' must be a text of user ids separated by commas, got 42": () =>
      isUserAuthorized({ MESSENGER_ALLOWED_USERS: wrong(42) }, 42),
  },
  "Cannot bind the environment": {
    "'MESSENGER_ALLOWED_USERS' must be a text of user ids separated by commas, got an array": () =>
      bindEnv(createBaseApp({ name: "bot" }), { MESSENGER_ALLOWED_USERS: [42] }),
  },
  "Cannot create the health routes": {
    "'ready' must be a function, got true": () =>
      healthRoutes("bot", "1.0.0", { ready: wrong(true) }),
    'there is no option "isReady". There are ready': () =>
      healthRoutes("bot", "1.0.0", wrong({ isReady: () => {} })),
  },
  "Cannot create the logger": {
    "'trustedProxyHops' must be a whole number from 0 to 100, got 0.5": () =>
      createLogger({ trustedProxyHops: 0.5 }),
    "'log' must be a function, got an object": () => createLogger({ log: wrong(console) }),
    "the options must be an object, got null": () => createLogger(wrong(null)),
    "the options must be an object, got 5": () => createLogger(wrong(5)),
    'there is no option "sink". There are log, skip, trustedProxyHops': () =>
      createLogger(wrong({ sink: () => {} })),
  },
  "Cannot create the log summary": {
    "'limit' must be a whole number from 1 to 9007199254740991, got 0": () =>
      createLogSummary({ limit: 0 }),
    "'windowMs' must be a whole number from 1 to 9007199254740991, got NaN": () =>
      createLogSummary({ windowMs: NaN }),
    "'log' must be a function, got an object": () => createLogSummary({ log: wrong(console) }),
    "the options must be an object, got null": () => createLogSummary(wrong(null)),
    'there is no option "window". There are log, limit, windowMs': () =>
      createLogSummary(wrong({ window: 1 })),
  },
  "Cannot create the rate limiter": {
    "'limit' must be a whole number from 1 to 9007199254740991, got undefined": () =>
      createRateLimiter(wrong({ window: 1 })),
    "'window' must be a whole number from 1 to 9007199254740991, got undefined": () =>
      createRateLimiter(wrong({ limit: 1 })),
    "'trustedProxyHops' must be a whole number from 0 to 100, got 101": () =>
      createRateLimiter({ limit: 1, window: 1, trustedProxyHops: 101 }),
    "'ipv6Prefix' must be one of 16, 32, 48, 64, 80, 96, 112, 128, got 60": () =>
      createRateLimiter({ limit: 1, window: 1, ipv6Prefix: 60 }),
    "'limit' must be a whole number from 1 to 9007199254740991, got \"5\"": () =>
      createRateLimiter({ limit: wrong("5"), window: 1_000 }),
    "'key' must be a function, got \"ip\"": () =>
      createRateLimiter({ limit: 5, window: 1_000, key: wrong("ip") }),
    "'store' must be a store of counts, got an object": () =>
      createRateLimiter({ limit: 5, window: 1_000, store: wrong({}) }),
    "'failedOnly' must be true or false, got \"5\"": () =>
      createRateLimiter({ limit: 5, window: 1_000, failedOnly: wrong("5") }),
    [
      'there is no option "windowMs". There are limit, window, failedOnly, store, key, ipv6Prefix, ' +
      "trustedProxyHops"
    ]: () => createRateLimiter(wrong({ limit: 1, window: 1, windowMs: 1 })),
    [
      'there is no option "limits". There are limit, window, failedOnly, store, key, ipv6Prefix, ' +
      "trustedProxyHops"
    ]: () => defineApp({ ...definition, rateLimit: wrong({ limits: 1 }) }),
  },
  "Cannot create the rate limit store": {
    "'maxKeys' must be a whole number from 1 to 16777216, got 16777217": () =>
      new MemoryRateLimitStore({ maxKeys: 2 ** 24 + 1 }),
    "'timeoutMs' must be a whole number from 1 to 2147483647, got 0": () =>
      new KvRateLimitStore(wrong({ atomic: () => {} }), { timeoutMs: 0 }),
    "'recoveryMs' must be a whole number from 1 to 2147483647, got NaN": () =>
      new KvRateLimitStore(wrong({ atomic: () => {} }), { recoveryMs: NaN }),
    "the KV must be what Deno.openKv() resolves with, got undefined": () =>
      new KvRateLimitStore(wrong(undefined)),
    'the options must be an object, got "bot"': () =>
      new KvRateLimitStore(wrong({ atomic: () => {} }), wrong("bot")),
    "'log' must be a function, got an object": () =>
      new KvRateLimitStore(wrong({ atomic: () => {} }), { log: wrong(console) }),
    'there is no option "max". There are maxKeys': () =>
      new MemoryRateLimitStore(wrong({ max: 1 })),
    'there is no option "timeout". There are prefix, timeoutMs, recoveryMs, log': () =>
      new KvRateLimitStore(wrong({ atomic: () => {} }), wrong({ timeout: 1 })),
  },
  "Cannot create the authentication": {
    "'validate' must be a function, got 5": () => createAuth({ validate: wrong(5) }),
    "the options must be an object, got null": () => createAuth(wrong(null)),
    "the options must be an object, got an array": () => createAuth(wrong([])),
    'there is no option "token". There are tokens, validate, header, realm': () =>
      createAuth(wrong({ token: "a" })),
  },
  "Cannot create the log": {
    "'maxWaitingChars' must be a whole number from 1 to 9007199254740991, got 0": () =>
      createStdoutLog({ maxWaitingChars: 0 }),
    '\'format\' must be "json", "text" or "auto", got "JSON"': () =>
      createStdoutLog({ format: wrong("JSON") }),
    "the options must be an object, got null": () => createStdoutLog(wrong(null)),
    'there is no option "colour". There are format, maxWaitingChars, output': () =>
      createStdoutLog(wrong({ colour: true })),
  },
  "Cannot open the event store": {
    'the KV must be what Deno.openKv() resolves with, got "./bot.db"': () =>
      openEventStore(wrong("./bot.db")),
    '\'notifier\' must be "auto", "enqueue" or "watch", got "push"': () =>
      openEventStore(wrong({ atomic: () => {} }), { notifier: wrong("push") }),
    "'namespace' must be a text that is not empty, got \"\"": () =>
      openEventStore(wrong({ atomic: () => {} }), { namespace: "" }),
    "'retentionMs' must be from 1 to 3153600000000, got \"7d\"": () =>
      openEventStore(wrong({ atomic: () => {} }), { retentionMs: wrong("7d") }),
    "the options must be an object, got null": () =>
      openEventStore(wrong({ atomic: () => {} }), wrong(null)),
    'there is no option "name". There are namespace, notifier, retentionMs, keepPayloads, log':
      () => openEventStore(wrong({ atomic: () => {} }), wrong({ name: "bot" })),
  },
  "Cannot run the app": {
    "the app must be what defineApp() returns, got an object": () => runApp(wrong(definition)),
    "the options must be an object, got null": () => runApp(app, wrong(null)),
  },
  "Cannot start the app": {
    "'graceMs' must be a whole number from 0 to 2147483647, got \"4s\"": () =>
      startApp(app, { graceMs: wrong("4s") }),
    'there is no option "port". There are env, store, resources, log, telemetry, graceMs': () =>
      startApp(app, wrong({ port: 3000 })),
  },
  "Cannot open the app": {
    [
      "the platform 'gitlab' at \"/webhook\" is in the way of 'github' at \"/webhook\". " +
      'Give one of them its own: { path: "..." }'
    ]: () => {
      const bot = defineApp(definition);
      bot.from(gitlab());
      return openApp(bot);
    },
    "the app must be what defineApp() returns, got a promise: await it": () =>
      openApp(wrong(Promise.resolve(app))),
    "'store' must be a store, such as kv() makes, got a promise: await it": () =>
      openApp(app, { store: wrong(Promise.resolve({})) }),
    "'env' must be an object, got \".env\"": () => openApp(app, { env: wrong(".env") }),
  },
  "Cannot stop the worker": {
    "'graceMs' must be a number of milliseconds from 0 on, got -1": () => stopIdle({ graceMs: -1 }),
    "'graceMs' must be a number of milliseconds from 0 on, got null": () =>
      stopIdle({ graceMs: null }),
    "'graceMs' must be a number of milliseconds from 0 on, got \"5\"": () =>
      stopIdle({ graceMs: "5" }),
    'there is no option "grace". There are graceMs': () => stopIdle({ grace: 1 }),
    "the options must be an object, got null": () => stopIdle(null),
  },
  "Cannot group the delivery": {
    [
      'there is no option "quiet". There are key, quietMs, maxWaitMs, together, newer, interrupt, ' +
      "maxInterrupts, places"
    ]: () => group({ key: "a", quiet: 1 }),
    '\'newer\' must be "wait", "interrupt" or "steer", got "merge"': () =>
      group({ key: "a", newer: "merge" }),
    "'interrupt', which says what becomes of the steps, must be an object, got undefined": () =>
      group({ key: "a", newer: "interrupt" }),
    '\'interrupt.steps\' must be "keep" or "drop", got undefined': () =>
      group({ key: "a", newer: "interrupt", interrupt: {} }),
    "'maxInterrupts' must be a whole number from 1 to 1000, got 0": () =>
      group({ key: "a", newer: "interrupt", interrupt: { steps: "keep" }, maxInterrupts: 0 }),
    '\'interrupt\' needs newer: "interrupt", got "steer"': () =>
      group({ key: "a", newer: "steer", interrupt: { steps: "keep" } }),
    "'maxInterrupts' needs newer: \"interrupt\", got undefined": () =>
      group({ key: "a", maxInterrupts: 3 }),
    "'together' must be \"all\", got true": () => group({ key: "a", quietMs: 1, together: true }),
    "'quietMs' must be from 0 to 86400000, got undefined": () =>
      group({ key: "a", together: "all" }),
    "'maxWaitMs' must be from 5 to 604800000, got 4": () =>
      group({ key: "a", quietMs: 5, maxWaitMs: 4 }),
    "'places' must be a whole number from 1 to 100, got 0": () => group({ key: "a", places: 0 }),
    "'places' must be 1 with 'quietMs', since a handler gets all events that wait, got 2": () =>
      group({ key: "a", quietMs: 5, places: 2 }),
    "'places' must be 1 with 'newer', since a handler gets all events that wait, got 2": () =>
      group({ key: "a", newer: "steer", places: 2 }),
  },
  "Cannot create the router": {
    'there is no option "strikt". There are strict, platform, store': () =>
      createEventRouter(wrong({ strikt: true })),
  },
  "Cannot define the platform 'a'": {
    [
      'there is no option "verify". There are name, path, maxBodyBytes, bodyTimeoutMs, ' +
      "maxTotalBodyBytes, groupBy, replayWindowMs, kind, env, createVerifier, parse, isAllowed, " +
      "unauthorized, respond, retry, testEnv, testSecrets, events"
    ]: () => definePlatform(wrong({ name: "a", verify: () => {} })),
  },
  "Cannot build the delivery": {
    'there is no option "form_". There are from, secret, id, form, path, sentAt': () =>
      forgeDelivery("push", {}, wrong({ form_: true })),
    "it must have a type, such as push, got undefined": () => forgeDelivery(wrong(undefined), {}),
    "it must have a payload, got null": () => standardDelivery(wrong(null)),
    'there is no option "from". There are secret, id, sentAt, path, platform': () =>
      standardDelivery({}, wrong({ from: "a" })),
  },
  "Cannot run the schedule": {
    "the store must be what openEventStore() resolves with, or that of a route, got undefined":
      () => runSchedule(wrong(undefined), "a"),
  },
  "Cannot build the update": {
    "it must have a payload, got undefined": () => messengerUpdate(wrong(undefined)),
    'there is no option "id". There are from, secret, path': () =>
      messengerUpdate({}, wrong({ id: 1 })),
    '\'from\' must be "messenger" or "telegram", got "signal"': () =>
      messengerUpdate({}, { from: wrong("signal") }),
  },
  "Cannot start the test bot": {
    'there is no option "kv". There are env, resources, store, timeoutMs': () =>
      startTestBot(defineApp(definition), wrong({ kv: 1 })),
  },
}, (call) => messageOf(call as () => unknown));

/** Options of every filter. A misspelled one that was ignored would select all events. */
const FILTER =
  "There are ids, state, outcome, type, source, repository, chat, orderingKey, problem, " +
  "name, text, receivedAfter, " +
  "receivedBefore, settledBefore";

testMistakes<EventStore>({
  "Cannot list the events": {
    [`there is no option "stat". ${FILTER}, order, limit, maxReads, maxMs, cursor`]: (store) =>
      store.list(wrong({ stat: "dead" })),
    "'type' must be a text, got an array": (store) => store.list({ type: wrong(["push"]) }),
  },
  "Cannot count the events": {
    [`there is no option "stat". ${FILTER}`]: (store) => store.stats(wrong({ stat: "dead" })),
    "'receivedAfter' must be a time in milliseconds since the epoch, got NaN": (store) =>
      store.stats({ receivedAfter: NaN }),
  },
  "Cannot purge events": {
    [`there is no option "stat". ${FILTER}`]: (store) => store.purge(wrong({ stat: "dead" })),
    "the filter must be an object, got undefined": (store) => store.purge(wrong(undefined)),
    "'ids' must be an array of texts, got \"abc\"": (store) => store.purge({ ids: wrong("abc") }),
    "'dryRun' must be true or false, got \"no\"": (store) =>
      store.purge({}, { dryRun: wrong("no") }),
    "'receivedBefore' must be a time in milliseconds since the epoch, got \"2026-01-01\"": (
      store,
    ) => store.purge({ receivedBefore: wrong("2026-01-01") }),
    "'signal' must be an AbortSignal, got an object": (store) =>
      store.purge({}, { signal: wrong(new AbortController()) }),
    'there is no option "limit". There are onProgress, signal, dryRun': (store) =>
      store.purge({}, wrong({ limit: 1 })),
  },
  "Cannot cancel events": {
    [`there is no option "before". ${FILTER}`]: (store) => store.cancelAll(wrong({ before: 1 })),
  },
  "Cannot replay events": {
    [`there is no option "types". ${FILTER}`]: (store) =>
      store.replayAll(wrong({ types: ["push"] })),
    "'state' must be one of queued, running, parked, done, dead, unreadable, got \"ded\"": (
      store,
    ) => store.replayAll({ state: wrong("ded") }),
    "'outcome' must be one of handled, ignored, failed, cancelled, got \"lost\"": (store) =>
      store.replayAll({ outcome: wrong("lost") }),
    "'settledBefore' must be a time in milliseconds since the epoch, got null": (store) =>
      store.replayAll({ settledBefore: wrong(null) }),
  },
  "Cannot read the state": {
    'there is no option "inkate". There are intake': (store) =>
      store.state("a", wrong({ inkate: "github" })),
  },
  "Cannot set the state": {
    'there is no option "expireMs". There are expireAfterMs': async (store) =>
      (await store.state("a")).set(1, wrong({ expireMs: 1 })),
  },
  "Cannot list the states": {
    'there is no option "key". There are intake, prefix': (store) =>
      Array.fromAsync(store.states(wrong({ key: "a" }))),
  },
  "Cannot list the limits": {
    'there is no option "key". There are name': (store) =>
      Array.fromAsync(store.limits(wrong({ key: "a" }))),
  },
  "Cannot export events": {
    'there is no option "onLeft". There are onLeftOut': (store) =>
      Array.fromAsync(exportEvents(store, {}, wrong({ onLeft: () => {} }))),
  },
  "Cannot import events": {
    'there is no option "limit". There are onProgress, signal': (store) =>
      importEvents(store, ReadableStream.from([]), wrong({ limit: 1 })),
  },
  "Cannot emit the event": {
    'there is no option "delay". There are id, delayMs, group, quietMs, maxWaitMs, together, newer, interrupt, maxInterrupts, places':
      (
        store,
      ) => store.emit("jobs", "a", {}, wrong({ delay: 1 })),
  },
  "Cannot catch up": {
    [
      'there is no option "since". There are hooks, github, sinceMs, intake, paceMs, limit, ' +
      "delivered, dryRun, signal, telemetry"
    ]: (store) => catchUp(store, wrong({ since: "2h" })),
  },
}, async (call) => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  return await messageOf(() => call(store));
});

testMistakes<HandlerContext>({
  'Cannot wait for "a"': {
    'there is no option "timeout". There are timeoutMs': ({ waitFor }) =>
      waitFor("a", wrong({ timeout: 1 })),
    "the options must be an object, got 60000": ({ waitFor }) => waitFor("a", wrong(60_000)),
  },
  "Cannot read the state": {
    'there is no option "inkate". There are intake': ({ state }) =>
      state("a", wrong({ inkate: "github" })),
  },
  "Cannot set the state": {
    'there is no option "expireMs". There are expireAfterMs': async ({ state }) =>
      (await state("a")).set(1, wrong({ expireMs: 1 })),
    "the options must be an object, got null": async ({ state }) =>
      (await state("a")).set(1, wrong(null)),
  },
  "Cannot emit the event": {
    'there is no option "delay". There are id, delayMs, group, quietMs, maxWaitMs, together, newer, interrupt, maxInterrupts, places':
      (
        { emit },
      ) => emit("jobs", "a", {}, wrong({ delay: 1 })),
    "'quietMs' needs a 'group': it is the time without a new event of that": ({ emit }) =>
      emit("jobs", "a", {}, { quietMs: 1 }),
    "'interrupt' needs a 'group'": ({ emit }) => emit("jobs", "a", {}, { interrupt: true }),
    "'newer' needs a 'group'": ({ emit }) => emit("jobs", "a", {}, { newer: "steer" }),
    "'places' needs a 'group'": ({ emit }) => emit("jobs", "a", {}, { places: 2 }),
    "'interrupt', which says what becomes of the steps, must be an object, got true": ({ emit }) =>
      emit("jobs", "a", {}, wrong({ group: "a", newer: "interrupt", interrupt: true })),
    "'interrupt' needs newer: \"interrupt\", got undefined": ({ emit }) =>
      emit("jobs", "a", {}, wrong({ group: "a", interrupt: { steps: "keep" } })),
    "'quietMs' must be from 0 to 86400000, got -1": ({ emit }) =>
      emit("jobs", "a", {}, { group: "a", quietMs: -1 }),
    "'quietMs' must be from 0 to 86400000, got undefined": ({ emit }) =>
      emit("jobs", "a", {}, { group: "a", maxWaitMs: 1 }),
    [
      'the source must not be "github", which is a platform: only deliveries make its events. Give ' +
      'events of your own another source, such as "jobs"'
    ]: ({ emit }) => emit("github", "push", {}),
    [
      'the source must not be "schedule", whose events schedules make: run one at once with ' +
      "runSchedule()"
    ]: ({ emit }) => emit("schedule", "digest", {}),
    [
      'the source must not be "dead", whose events report dead ones: register a handler for them ' +
      "with onDead()"
    ]: ({ emit }) => emit("dead", "dead", {}),
  },
  "Cannot put the event off": {
    'there is no option "after". There are afterMs, cause': () =>
      new RetryLaterError("later", wrong({ after: 1, afterMs: 1 })),
  },
}, async (call) => {
  const bot = defineApp(definition);
  let said = "";
  bot.on("push", async (_event, context) => {
    said = await messageOf(() => call(context));
  });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}));
  assertEquals(event?.state, "done");
  return said;
});

testMistakes<TestBot>({
  "Cannot deliver": {
    'there is no option "expectFail". There are expectFailure': (test) =>
      test.deliver(forgeDelivery("push", {}), wrong({ expectFail: true })),
    "it must be what forgeDelivery() or another such function returns, got undefined": (test) =>
      test.deliver(wrong(undefined)),
  },
  "Cannot advance the time": {
    'there is no option "fails". There are expectFailure': (test) =>
      test.advance(1, wrong({ fails: true })),
  },
  "Cannot run the schedule": {
    "'expectFailure' must be true or false, got \"yes\"": (test) =>
      test.run("a", { expectFailure: wrong("yes") }),
  },
}, async (call) => {
  await using test = await startTestBot(defineApp(definition));
  return await messageOf(() => call(test));
});

Deno.test("step() refuses a name that is no text", async () => {
  for (const id of [undefined, "second"]) {
    const bot = defineApp(definition);
    let told: unknown;
    bot.on("push", async (_event, { step }) => {
      await step(wrong(5), () => {}).catch((error) => told = error.message);
    });
    if (id) bot.on("push", () => {}, { id });
    await using test = await startTestBot(bot);
    await test.deliver(forgeDelivery("push", {}));
    assertEquals(
      told,
      "Cannot take the step: the name must be a well-formed text of 1 to 200 characters, got 5",
    );
  }
});
