import { assertRejects, assertThrows } from "@std/assert";
import {
  bindEnv,
  createAuth,
  createBaseApp,
  createEventRouter,
  createForgeIntake,
  createLogger,
  createMessengerIntake,
  createRateLimiter,
  type EventStore,
  healthRoutes,
  isUserAuthorized,
  KvRateLimitStore,
  openEventStore,
  runApp,
  startWorker,
} from "../mod.ts";
import { createLogSummary, createStdoutLog } from "../middleware/mod.ts";

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

/** Mistakes that can be made, and what is said of them at once. */
const MISTAKES: readonly [string, () => unknown][] = [
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
    () => createForgeIntake({ secrets, store, telemetry: wrong(Promise.resolve()) }),
  ],
  [
    "Cannot create the messenger intake: 'telemetry' must be what openTelemetry() resolves with, got 5",
    () => createMessengerIntake({ secrets: ["token"], store, telemetry: wrong(5) }),
  ],
  [
    "Cannot create the forge intake: 'store' must be what openEventStore() resolves with, or a store " +
    "of your own, got undefined",
    () => createForgeIntake(wrong({ secrets })),
  ],
  [
    "Cannot create the messenger intake: 'store' must be what openEventStore() resolves with, or a " +
    "store of your own, got a promise: await it",
    () => createMessengerIntake({ secrets: ["token"], store: wrong(Promise.resolve(store)) }),
  ],
  [
    "Cannot create the forge intake: the options must be an object, got undefined",
    () => createForgeIntake(wrong(undefined)),
  ],
  [
    "Cannot create the forge intake: 'secrets' must be an array with at least one secret, got a text",
    () => createForgeIntake({ secrets: wrong("a secret"), store }),
  ],
  [
    "Cannot create the forge intake: secret 2 must be a text, got undefined",
    () => createForgeIntake({ secrets: [...secrets, wrong(undefined)], store }),
  ],
  [
    "Cannot create the forge intake: 'orderBy' must be a function, got \"repository\"",
    () => createForgeIntake({ secrets, store, orderBy: wrong("repository") }),
  ],
  [
    "Cannot create the messenger intake: 'isAuthorized' must be a function, got an array",
    () => createMessengerIntake({ secrets: ["token"], store, isAuthorized: wrong([42]) }),
  ],
  [
    'Cannot create the messenger intake: \'unauthorized\' must be "reject" or "ignore", got "drop"',
    () => createMessengerIntake({ secrets: ["token"], store, unauthorized: wrong("drop") }),
  ],
  [
    "Cannot create the messenger intake: secret 1 begins or ends with white space, such as a line " +
    "break, which no header can bring",
    () => createMessengerIntake({ secrets: ["token\n"], store }),
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

const options = { name: "bot", handler, setup: () => () => () => new Response() };

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
    "Cannot run the app: 'name' must be a text, got undefined",
    () => runApp({ ...options, name: wrong(undefined) }),
  ],
  [
    "Cannot run the app: 'handler' must be a function, got undefined",
    () => runApp({ ...options, handler: wrong(undefined) }),
  ],
  [
    "Cannot run the app: 'setup' must be a function, got undefined",
    () => runApp({ ...options, setup: wrong(undefined) }),
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
    "Cannot stop the worker: the options must be an object, got null",
    () => stopIdle(null),
  ],
];

for (const [message, make] of LATE_MISTAKES) {
  Deno.test(`It is said at once: ${message}`, async () => {
    await assertRejects(make, Error, message);
  });
}
