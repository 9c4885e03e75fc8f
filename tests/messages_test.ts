import { assertRejects, assertThrows } from "@std/assert";
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
  healthRoutes,
  isUserAuthorized,
  openApp,
  openEventStore,
  optional,
  required,
  runApp,
  startApp,
  startWorker,
  telegram,
} from "../mod.ts";
import { events } from "../app/mod.ts";
import {
  createLogSummary,
  createStdoutLog,
  KvRateLimitStore,
  MemoryRateLimitStore,
} from "../middleware/mod.ts";
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

/** Mistakes that can be made, and what is said of them at once. */
const MISTAKES: readonly [string, () => unknown][] = [
  [
    "Cannot add the schedule: its name must be a letter and up to 99 letters, digits, '_', '.', ':' or '-', " +
    'got "7am"',
    () => defineApp(definition).schedule("7am", "@daily", handler),
  ],
  [
    "Cannot add the schedule 'a': the cron expression must have five fields (minute, hour, day of the month, " +
    'month, day of the week), such as "0 7 * * 1-5", or be one of @yearly, @annually, @monthly, @weekly, ' +
    '@daily, @midnight, @hourly, got "0 0 7 * * 1-5"',
    () => defineApp(definition).schedule("a", "0 0 7 * * 1-5", handler),
  ],
  [
    "Cannot add the schedule 'a': 'timeZone' must be the name of a time zone, such as \"Europe/Berlin\", got " +
    '"Berlin"',
    () => defineApp(definition).schedule("a", "@daily", handler, { timeZone: "Berlin" }),
  ],
  [
    'Cannot add the schedule \'a\': \'missed\' must be "last", "none" or "all", got "first"',
    () => defineApp(definition).schedule("a", "@daily", handler, { missed: wrong("first") }),
  ],
  [
    "Cannot add the schedule 'a': there is no option \"timezone\". There are timeZone, missed, id, timeoutMs",
    () => defineApp(definition).schedule("a", "@daily", handler, wrong({ timezone: "UTC" })),
  ],
  [
    "Cannot add the schedule 'a': there is one of that name already",
    () => defineApp(definition).schedule("a", "@daily", handler).schedule("a", "@daily", handler),
  ],
  [
    "Cannot add the schedule 'a': the options must be an object, got null",
    () => defineApp(definition).schedule("a", "@daily", handler, wrong(null)),
  ],
  [
    "Cannot register the handler: it must be a function, got undefined",
    () => defineApp(definition).schedule("a", "@daily", wrong(undefined)),
  ],
  [
    "Cannot define the platform: 'name' must not be \"schedule\", which is the source of events of the package",
    () => github({ name: "schedule" }),
  ],
  [
    'Cannot name the source: the source must not be "schedule", whose events schedules make: run one at once ' +
    "with runSchedule()",
    () => events("schedule"),
  ],
  [
    "Cannot add the schedule: the app is open already. Do that before you run or open it",
    () => opened().schedule("a", "@daily", handler),
  ],
  [
    "Cannot create the app: 'before' must be an array of middleware, got a function",
    () => createBaseApp({ name: "bot", before: wrong(() => {}) }),
  ],
  [
    "Cannot create the app: 'before[1]' must be a function, got \"/api\"",
    () => createBaseApp({ name: "bot", before: [() => Promise.resolve(), wrong("/api")] }),
  ],
  [
    "Cannot create the app: 'telemetry' must be what openTelemetry() resolves with, got a promise: " +
    "await it",
    () => createBaseApp({ name: "bot", telemetry: wrong(Promise.resolve()) }),
  ],
  [
    "Cannot start the worker: the handler must be a function, got undefined",
    () => startWorker(store, wrong(undefined)),
  ],
  [
    "Cannot start the worker: the handler must be a function, got an object",
    () => startWorker(store, wrong(createEventRouter())),
  ],
  [
    "Cannot start the worker: the store must be what openEventStore() resolves with, got a promise: " +
    "await it",
    () => startWorker(wrong(Promise.resolve(store)), handler),
  ],
  [
    "Cannot start the worker: 'concurrency' must be a whole number from 1 to 10000, got \"50\"",
    () => startWorker(store, handler, { concurrency: wrong("50") }),
  ],
  [
    "Cannot start the worker: 'retry' must be an object, got 3",
    () => startWorker(store, handler, { retry: wrong(3) }),
  ],
  [
    "Cannot start the worker: 'retry.maxAttempts' must be a whole number from 1 to " +
    "9007199254740991, got 0",
    () => startWorker(store, handler, { retry: { maxAttempts: 0 } }),
  ],
  [
    "Cannot start the worker: 'retry.minDelayMs' must be from 0 to 31536000000, got \"5\"",
    () => startWorker(store, handler, { retry: { minDelayMs: wrong("5") } }),
  ],
  [
    "Cannot start the worker: 'log' must be a function, got an object",
    () => startWorker(store, handler, { log: wrong(console) }),
  ],
  [
    "Cannot start the worker: 'telemetry' must be what openTelemetry() resolves with, got an object",
    () => startWorker(listening, handler, { telemetry: wrong({}) }),
  ],
  [
    "Cannot create the forge intake: 'telemetry' must be what openTelemetry() resolves with, got a " +
    "promise: await it",
    () => forgeIntake({ secrets, store, telemetry: wrong(Promise.resolve()) }),
  ],
  [
    "Cannot create the messenger intake: 'telemetry' must be what openTelemetry() resolves with, got 5",
    () => messengerIntake({ secrets: ["token"], store, telemetry: wrong(5) }),
  ],
  [
    "Cannot create the forge intake: 'store' must be what openEventStore() resolves with, or a store " +
    "of your own, got undefined",
    () => forgeIntake(wrong({ secrets })),
  ],
  [
    "Cannot create the messenger intake: 'store' must be what openEventStore() resolves with, or a " +
    "store of your own, got a promise: await it",
    () => messengerIntake({ secrets: ["token"], store: wrong(Promise.resolve(store)) }),
  ],
  [
    "Cannot create the forge intake: the options must be an object, got undefined",
    () => createIntake(forge({ secrets }), wrong(undefined)),
  ],
  [
    "Cannot create the intake: the platform must be what github(), telegram() or another such function " +
    "returns, got the function itself: call it",
    () => createIntake(wrong(github), { store }),
  ],
  [
    "Cannot create the github intake: 'env' must be an object, got \"production\"",
    () => createIntake(github(), { store, env: wrong("production") }),
  ],
  ["GITHUB_WEBHOOK_SECRET is not set", () => createIntake(github(), { store })],
  [
    "Cannot define the platform 'github': 'tokens' are GitLab's: this platform's deliveries are signed",
    () => github(wrong({ tokens: ["a-token"] })),
  ],
  [
    "Cannot define the platform 'gitlab': secret 1 does not begin with whsec_, as GitLab's signing tokens " +
    "do: a secret token belongs into the tokens",
    () => gitlab({ secrets }),
  ],
  [
    "Cannot define the platform: 'name' must be a letter, then up to 31 letters, digits, _ and -, got \"\"",
    () => github({ name: "" }),
  ],
  [
    "Cannot define the platform 'github': 'path' must be a slash, then letters, digits, _, -, . and " +
    'slashes, got "hooks"',
    () => github({ path: "hooks" }),
  ],
  [
    "Cannot define the platform 'github': 'maxBodyBytes' must be a whole number from 1 to " +
    '9007199254740991, got "1MB"',
    () => github({ maxBodyBytes: wrong("1MB") }),
  ],
  [
    "Cannot define the platform 'slack': 'createVerifier' must be a function, got undefined",
    () => definePlatform(wrong({ name: "slack", parse: () => {} })),
  ],
  [
    "Cannot define the app: 'name' must be a text that is not blank, got undefined",
    () => defineApp({ ...definition, name: wrong(undefined) }),
  ],
  [
    "Cannot define the app: the platform must be what github(), telegram() or another such function " +
    "returns, got the function itself: call it",
    () => defineApp({ ...definition, platform: wrong(github) }),
  ],
  [
    "Cannot define the app: the platform must be what github(), telegram() or another such function " +
    'returns, got "github"',
    () => defineApp({ ...definition, platform: wrong("github") }),
  ],
  [
    "Cannot define the app: the variable 'TOKEN' in 'env' must be required, optional() or secrets, got " +
    "the function itself: call it",
    () => defineApp({ ...definition, env: { TOKEN: wrong(optional) } }),
  ],
  [
    "Cannot define the app: the variable 'TOKEN' in 'env' must be required, optional() or secrets, got " +
    "a text: the value is read at the start",
    () => defineApp({ ...definition, env: { TOKEN: wrong("ghp_x") } }),
  ],
  [
    'Cannot define the app: there is no option "setup". There are name, version, platform, env, ',
    () => defineApp(wrong({ ...definition, setup: () => {} })),
  ],
  [
    "Cannot define the app, in 'worker': there is no option \"concurency\". There are concurrency, leaseMs, " +
    "pollMs, timeoutMs, retry",
    () => defineApp({ ...definition, worker: wrong({ concurency: 5 }) }),
  ],
  [
    "Cannot define the app: 'strict' must be true or false, got \"yes\"",
    () => defineApp({ ...definition, strict: wrong("yes") }),
  ],
  [
    "Cannot define the app: the definition must be an object, got undefined",
    () => defineApp(wrong(undefined)),
  ],
  [
    "Cannot define the platform 'github': there is no option \"secret\". There are name, path, ",
    () => github(wrong({ secret: "x" })),
  ],
  [
    "Cannot define the platform 'github': the options must be an object, got null",
    () => github(wrong(null)),
  ],
  [
    "Cannot define the platform 'telegram': the options must be an object, got \"token\"",
    () => telegram(wrong("token")),
  ],
  [
    "Cannot define the platform 'telegram': secret 1 is not a secret token that Telegram accepts: 1 to 256 " +
    "letters, digits, _ and -",
    () => telegram({ secrets: ["123456:ABC-the-token-of-the-bot"] }),
  ],
  [
    "Cannot add the middleware: the app is open already. Do that before you run or open it",
    () => opened().use(() => {}),
  ],
  [
    "Cannot add the platform: the app is open already. Do that before you run or open it",
    () => opened().from(telegram({ path: "/telegram" })),
  ],
  [
    "Cannot define the app: 'resources' must be a function, got an object",
    () => defineApp({ ...definition, resources: wrong({ api: {} }) }),
  ],
  [
    "Cannot define the app: 'rateLimit' must be an object, got 100",
    () => defineApp({ ...definition, rateLimit: wrong(100) }),
  ],
  [
    "Cannot define the app: 'namespace' must be a text that is not blank, got \"\"",
    () => defineApp({ ...definition, namespace: "" }),
  ],
  [
    "Cannot define the app: 'worker' must be an object, got 10",
    () => defineApp({ ...definition, worker: wrong(10) }),
  ],
  [
    "Cannot define the app: 'retentionMs' must be a whole number from 1 to 3153600000000, got \"7d\"",
    () => defineApp({ ...definition, retentionMs: wrong("7d") }),
  ],
  [
    'Cannot add the platform: a platform of this app has the name "github". Give this one its own',
    () => defineApp(definition).from(github()),
  ],
  [
    "Cannot add the middleware: 'middleware' must be a function, got undefined",
    () => defineApp(definition).use(wrong(undefined)),
  ],
  [
    "Cannot define the platform 'forge': 'secrets' must be an array with at least one secret, got a text",
    () => forgeIntake({ secrets: wrong("a secret"), store }),
  ],
  [
    "Cannot define the platform 'forge': secret 2 must be a text, got undefined",
    () => forgeIntake({ secrets: [...secrets, wrong(undefined)], store }),
  ],
  [
    "Cannot define the platform 'forge': 'groupBy' must be a function, got \"repository\"",
    () => forgeIntake({ secrets, store, groupBy: wrong("repository") }),
  ],
  [
    "Cannot define the platform 'messenger': 'isAuthorized' must be a function, got an array",
    () => messengerIntake({ secrets: ["token"], store, isAuthorized: wrong([42]) }),
  ],
  [
    'Cannot define the platform \'messenger\': \'unauthorized\' must be "reject" or "ignore", got "drop"',
    () => messengerIntake({ secrets: ["token"], store, unauthorized: wrong("drop") }),
  ],
  [
    "Cannot define the platform 'messenger': secret 1 begins or ends with white space, such as a line " +
    "break, which no header can bring",
    () => messengerIntake({ secrets: ["token\n"], store }),
  ],
  [
    "Cannot check the user: 'MESSENGER_ALLOWED_USERS' must be a text of user ids separated by " +
    "commas, got 42",
    () => isUserAuthorized({ MESSENGER_ALLOWED_USERS: wrong(42) }, 42),
  ],
  [
    "Cannot bind the environment: 'MESSENGER_ALLOWED_USERS' must be a text of user ids separated by " +
    "commas, got an array",
    () => bindEnv(createBaseApp({ name: "bot" }), { MESSENGER_ALLOWED_USERS: [42] }),
  ],
  [
    'Cannot create the app: the options must be an object, got "bot"',
    () => createBaseApp(wrong("bot")),
  ],
  [
    "Cannot create the app: 'ready' must be a function, got true",
    () => createBaseApp({ name: "bot", ready: wrong(true) }),
  ],
  [
    "Cannot create the app: 'rateLimit' must be an object, got 100",
    () => createBaseApp({ name: "bot", rateLimit: wrong(100) }),
  ],
  [
    "Cannot create the health routes: 'ready' must be a function, got true",
    () => healthRoutes("bot", "1.0.0", { ready: wrong(true) }),
  ],
  [
    "Cannot create the logger: 'log' must be a function, got an object",
    () => createLogger({ log: wrong(console) }),
  ],
  [
    "Cannot create the log summary: 'log' must be a function, got an object",
    () => createLogSummary({ log: wrong(console) }),
  ],
  [
    "Cannot create the rate limiter: 'limit' must be a whole number from 1 to 9007199254740991, " +
    'got "5"',
    () => createRateLimiter({ limit: wrong("5"), window: 1_000 }),
  ],
  [
    "Cannot create the rate limiter: 'limit' must be a whole number from 1 to 9007199254740991, got undefined",
    () => createRateLimiter(wrong({ window: 1 })),
  ],
  [
    "Cannot create the rate limiter: 'window' must be a whole number from 1 to 9007199254740991, got undefined",
    () => createRateLimiter(wrong({ limit: 1 })),
  ],
  [
    "Cannot create the rate limiter: 'trustedProxyHops' must be a whole number from 0 to 100, got 101",
    () => createRateLimiter({ limit: 1, window: 1, trustedProxyHops: 101 }),
  ],
  [
    "Cannot create the rate limiter: 'ipv6Prefix' must be one of 16, 32, 48, 64, 80, 96, 112, 128, got 60",
    () => createRateLimiter({ limit: 1, window: 1, ipv6Prefix: 60 }),
  ],
  [
    "Cannot create the logger: 'trustedProxyHops' must be a whole number from 0 to 100, got 0.5",
    () => createLogger({ trustedProxyHops: 0.5 }),
  ],
  [
    "Cannot create the log summary: 'limit' must be a whole number from 1 to 9007199254740991, got 0",
    () => createLogSummary({ limit: 0 }),
  ],
  [
    "Cannot create the log summary: 'windowMs' must be a whole number from 1 to 9007199254740991, got NaN",
    () => createLogSummary({ windowMs: NaN }),
  ],
  [
    "Cannot create the log: 'maxWaitingChars' must be a whole number from 1 to 9007199254740991, got 0",
    () => createStdoutLog({ maxWaitingChars: 0 }),
  ],
  [
    'Cannot create the log: \'format\' must be "json", "text" or "auto", got "JSON"',
    () => createStdoutLog({ format: wrong("JSON") }),
  ],
  [
    "Cannot create the rate limit store: 'maxKeys' must be a whole number from 1 to 16777216, got 16777217",
    () => new MemoryRateLimitStore({ maxKeys: 2 ** 24 + 1 }),
  ],
  [
    "Cannot create the rate limit store: 'timeoutMs' must be a whole number from 1 to 2147483647, got 0",
    () => new KvRateLimitStore(wrong({ atomic: () => {} }), { timeoutMs: 0 }),
  ],
  [
    "Cannot create the rate limit store: 'recoveryMs' must be a whole number from 1 to 2147483647, got NaN",
    () => new KvRateLimitStore(wrong({ atomic: () => {} }), { recoveryMs: NaN }),
  ],
  [
    "Cannot create the app: 'name' must be a text that is not blank, got undefined",
    () => createBaseApp(wrong({})),
  ],
  [
    "Cannot create the app: 'name' must be a text that is not blank, got \"\\n\"",
    () => createBaseApp({ name: "\n" }),
  ],
  [
    "Cannot create the rate limiter: 'key' must be a function, got \"ip\"",
    () => createRateLimiter({ limit: 5, window: 1_000, key: wrong("ip") }),
  ],
  [
    "Cannot create the rate limiter: 'store' must be a store of counts, got an object",
    () => createRateLimiter({ limit: 5, window: 1_000, store: wrong({}) }),
  ],
  [
    "Cannot create the rate limit store: the KV must be what Deno.openKv() resolves with, got " +
    "undefined",
    () => new KvRateLimitStore(wrong(undefined)),
  ],
  [
    "Cannot create the authentication: 'validate' must be a function, got 5",
    () => createAuth({ validate: wrong(5) }),
  ],
  [
    "Cannot register the handler: it must be for the name of an event, or an array of names, got 5",
    () => createEventRouter().on(wrong(5), handler),
  ],
  [
    "Cannot register the handler: 'timeoutMs' must be a whole number from 1 to 2147483647, got 0",
    () => createEventRouter().on("push", handler, { timeoutMs: 0 }),
  ],
  [
    "Cannot register the handler: it must be a function, got an object",
    () => createEventRouter().on("push", wrong({})),
  ],
  [
    "Cannot create the logger: the options must be an object, got null",
    () => createLogger(wrong(null)),
  ],
  [
    "Cannot create the log summary: the options must be an object, got null",
    () => createLogSummary(wrong(null)),
  ],
  [
    "Cannot create the log: the options must be an object, got null",
    () => createStdoutLog(wrong(null)),
  ],
  [
    "Cannot create the logger: the options must be an object, got 5",
    () => createLogger(wrong(5)),
  ],
  [
    'Cannot create the rate limit store: the options must be an object, got "bot"',
    () => new KvRateLimitStore(wrong({ atomic: () => {} }), wrong("bot")),
  ],
  [
    "Cannot create the rate limit store: 'log' must be a function, got an object",
    () => new KvRateLimitStore(wrong({ atomic: () => {} }), { log: wrong(console) }),
  ],
  [
    "Cannot create the rate limiter: 'failedOnly' must be true or false, got \"5\"",
    () => createRateLimiter({ limit: 5, window: 1_000, failedOnly: wrong("5") }),
  ],
  [
    "Cannot create the authentication: the options must be an object, got null",
    () => createAuth(wrong(null)),
  ],
  [
    "Cannot create the authentication: the options must be an object, got an array",
    () => createAuth(wrong([])),
  ],
  [
    "Cannot register the handler: the options must be an object, got null",
    () => createEventRouter().on("push", handler, wrong(null)),
  ],
  [
    "Cannot start the worker: 'retry' must be an object, got an array",
    () => startWorker(listening, handler, { retry: wrong([]) }),
  ],
  [
    "Cannot create the app: 'logger', if it is not a boolean, must be an object, got an array",
    () => createBaseApp({ name: "bot", logger: wrong([]) }),
  ],
];

for (const [message, make] of MISTAKES) {
  Deno.test(`It is said at once: ${message}`, () => {
    assertThrows(make, Error, message);
  });
}

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

/** The same of what is asynchronous. */
const LATE_MISTAKES: readonly [string, () => Promise<unknown>][] = [
  [
    "Cannot open the app: the platform 'gitlab' at \"/webhook\" is in the way of 'github' at \"/webhook\". " +
    'Give one of them its own: { path: "..." }',
    () => {
      const bot = defineApp(definition);
      bot.from(gitlab());
      return openApp(bot);
    },
  ],
  [
    'Cannot open the event store: the KV must be what Deno.openKv() resolves with, got "./bot.db"',
    () => openEventStore(wrong("./bot.db")),
  ],
  [
    'Cannot open the event store: \'notifier\' must be "auto", "enqueue" or "watch", got "push"',
    () => openEventStore(wrong({ atomic: () => {} }), { notifier: wrong("push") }),
  ],
  [
    "Cannot open the event store: 'namespace' must be a text that is not empty, got \"\"",
    () => openEventStore(wrong({ atomic: () => {} }), { namespace: "" }),
  ],
  [
    "Cannot open the event store: 'retentionMs' must be from 1 to 3153600000000, got \"7d\"",
    () => openEventStore(wrong({ atomic: () => {} }), { retentionMs: wrong("7d") }),
  ],
  [
    "Cannot run the app: the app must be what defineApp() returns, got an object",
    () => runApp(wrong(definition)),
  ],
  [
    "Cannot run the app: the options must be an object, got null",
    () => runApp(app, wrong(null)),
  ],
  [
    "Cannot start the app: 'graceMs' must be a whole number from 0 to 2147483647, got \"4s\"",
    () => startApp(app, { graceMs: wrong("4s") }),
  ],
  [
    "Cannot open the app: the app must be what defineApp() returns, got a promise: await it",
    () => openApp(wrong(Promise.resolve(app))),
  ],
  [
    "Cannot open the app: 'kv' must be what Deno.openKv() resolves with, got a promise: await it",
    () => openApp(app, { kv: wrong(Promise.resolve({})) }),
  ],
  [
    'Cannot start the app: there is no option "port". There are env, kv, resources, log, telemetry, graceMs',
    () => startApp(app, wrong({ port: 3000 })),
  ],
  [
    "PORT must be a text, got number; LOG_FORMAT must be auto, json or text",
    () =>
      startApp(app, { env: { GITHUB_WEBHOOK_SECRET: "s", PORT: wrong(8000), LOG_FORMAT: "xml" } }),
  ],
  [
    "Cannot open the app: 'env' must be an object, got \".env\"",
    () => openApp(app, { env: wrong(".env") }),
  ],
  [
    "GITHUB_WEBHOOK_SECRET is not set; API_TOKEN is not set; PORT must be a whole number from 0 to 65535",
    () => startApp(needy, { env: { PORT: "http" } }),
  ],
  [
    "Cannot open the event store: the options must be an object, got null",
    () => openEventStore(wrong({ atomic: () => {} }), wrong(null)),
  ],
  [
    "Cannot stop the worker: 'graceMs' must be a number of milliseconds from 0 on, got -1",
    () => stopIdle({ graceMs: -1 }),
  ],
  [
    "Cannot stop the worker: 'graceMs' must be a number of milliseconds from 0 on, got null",
    () => stopIdle({ graceMs: null }),
  ],
  [
    "Cannot stop the worker: 'graceMs' must be a number of milliseconds from 0 on, got \"5\"",
    () => stopIdle({ graceMs: "5" }),
  ],
  [
    'Cannot stop the worker: there is no option "grace". There are graceMs',
    () => stopIdle({ grace: 1 }),
  ],
  [
    "Cannot stop the worker: the options must be an object, got null",
    () => stopIdle(null),
  ],
];

for (const [message, make] of LATE_MISTAKES) {
  Deno.test(`It is said at once: ${message}`, async () => {
    await assertRejects(make, Error, message);
  });
}
