import { assertEquals, assertRejects } from "@std/assert";
import { runSchedule } from "../app/mod.ts";
import { catchUp } from "../catch_up/mod.ts";
import { exportEvents, importEvents } from "../events/mod.ts";
import {
  createLogSummary,
  createStdoutLog,
  KvRateLimitStore,
  MemoryRateLimitStore,
} from "../middleware/mod.ts";
import {
  createAuth,
  createBaseApp,
  createEventRouter,
  createIntake,
  createLogger,
  createRateLimiter,
  defineApp,
  definePlatform,
  type EventStore,
  github,
  type GroupBy,
  type HandlerContext,
  healthRoutes,
  openEventStore,
  RetryLaterError,
  startWorker,
} from "../mod.ts";
import {
  forgeDelivery,
  messengerUpdate,
  standardDelivery,
  startTestBot,
  type TestBot,
} from "../testing/mod.ts";
import { grouped } from "../webhook/grouping.ts";

/** Options that types forbid, and that a misspelled name in JavaScript or a spread object makes. */
const wrong = (value: unknown): never => value as never;

const definition = { name: "bot", platform: github() };

/** Functions of a handler's context, and what is said of an option that they do not have. */
const IN_HANDLERS: readonly [string, (context: HandlerContext) => unknown][] = [
  [
    'Cannot wait for "a": there is no option "timeout". There are timeoutMs',
    ({ waitFor }) => waitFor("a", wrong({ timeout: 1 })),
  ],
  [
    'Cannot wait for "a": the options must be an object, got 60000',
    ({ waitFor }) => waitFor("a", wrong(60_000)),
  ],
  [
    'Cannot read the state: there is no option "inkate". There are intake',
    ({ state }) => state("a", wrong({ inkate: "github" })),
  ],
  [
    'Cannot set the state: there is no option "expireMs". There are expireAfterMs',
    async ({ state }) => (await state("a")).set(1, wrong({ expireMs: 1 })),
  ],
  [
    "Cannot set the state: the options must be an object, got null",
    async ({ state }) => (await state("a")).set(1, wrong(null)),
  ],
  [
    'Cannot emit the event: there is no option "delay". There are id, delayMs, group',
    ({ emit }) => emit("jobs", "a", {}, wrong({ delay: 1 })),
  ],
  [
    'Cannot emit the event: the source must not be "github", which is a platform: only deliveries make its ' +
    'events. Give events of your own another source, such as "jobs"',
    ({ emit }) => emit("github", "push", {}),
  ],
  [
    'Cannot emit the event: the source must not be "schedule", whose events schedules make: run one at once ' +
    "with runSchedule()",
    ({ emit }) => emit("schedule", "digest", {}),
  ],
  [
    'Cannot emit the event: the source must not be "dead", whose events report dead ones: register a handler ' +
    "for them with onDead()",
    ({ emit }) => emit("dead", "dead", {}),
  ],
  [
    'Cannot put the event off: there is no option "after". There are afterMs, cause',
    () => new RetryLaterError("later", wrong({ after: 1, afterMs: 1 })),
  ],
];

for (const [message, call] of IN_HANDLERS) {
  Deno.test(`A handler is told: ${message}`, async () => {
    const bot = defineApp(definition);
    let told: unknown;
    bot.on("push", async (_event, context) => {
      await (async () => await call(context))().catch((error) => told = error.message);
    });
    await using test = await startTestBot(bot);
    const { event } = await test.deliver(forgeDelivery("push", {}));
    assertEquals([told, event?.state], [message, "done"]);
  });
}

const group = (made: unknown) =>
  grouped(
    {
      ...{ platform: "forge", source: "github", type: "push", deliveryId: "d1" },
      ...{ payload: {}, body: new Uint8Array() },
    },
    (() => made) as GroupBy,
  );

Deno.test("checkpoint() refuses a part that `progress` would not have", async () => {
  for (const id of [undefined, "second"]) {
    const bot = defineApp(definition);
    let told: unknown;
    bot.on("push", async (_event, { checkpoint }) => {
      await checkpoint(wrong(5)).catch((error) => told = error.message);
    });
    if (id) bot.on("push", () => {}, { id });
    await using test = await startTestBot(bot);
    await test.deliver(forgeDelivery("push", {}));
    assertEquals(told, "Cannot note progress: a part's name must be a text, got number");
  }
});

/** Functions that make a part of an app, and what is said of an option that it does not have. */
const MAKERS: readonly [string, () => unknown][] = [
  [
    'Cannot group the delivery: there is no option "quiet". There are key, quietMs, maxWaitMs',
    () => group({ key: "a", quiet: 1 }),
  ],
  [
    "Cannot add the schedule 'a': there is no option \"missing\". There are timeZone, missed, id, timeoutMs",
    () => defineApp(definition).schedule("a", "@daily", () => {}, wrong({ missing: "all" })),
  ],
  [
    'Cannot register the handler: there is no option "timeout". There are id, timeoutMs',
    () => defineApp(definition).on("push", () => {}, wrong({ timeout: 1 })),
  ],
  [
    'Cannot register the handler: there is no option "ids". There are id, timeoutMs',
    () => defineApp(definition).onDead(() => {}, wrong({ ids: "a" })),
  ],
  [
    'Cannot create the router: there is no option "strikt". There are strict',
    () => createEventRouter(wrong({ strikt: true })),
  ],
  [
    "Cannot define the platform 'a': there is no option \"verify\". There are name, path, maxBodyBytes, " +
    "bodyTimeoutMs, maxTotalBodyBytes, groupBy, replayWindowMs, kind, env, createVerifier, parse, isAllowed, " +
    "unauthorized, respond, testEnv, testSecrets, events",
    () => definePlatform(wrong({ name: "a", verify: () => {} })),
  ],
  [
    'Cannot create the github intake: there is no option "log". There are store, telemetry, env',
    () => createIntake(github(), wrong({ log: () => {} })),
  ],
  [
    'Cannot create the app: there is no option "ratelimit". There are name, version, logger, rateLimit, ' +
    "before, health, ready, telemetry",
    () => createBaseApp(wrong({ name: "bot", ratelimit: {} })),
  ],
  [
    'Cannot create the rate limiter: there is no option "windowMs". There are limit, window, failedOnly, ' +
    "store, key, ipv6Prefix, trustedProxyHops",
    () => createRateLimiter(wrong({ limit: 1, window: 1, windowMs: 1 })),
  ],
  [
    'Cannot create the rate limiter: there is no option "limits". There are limit, window, failedOnly, ' +
    "store, key, ipv6Prefix, trustedProxyHops",
    () => defineApp({ ...definition, rateLimit: wrong({ limits: 1 }) }),
  ],
  [
    'Cannot create the authentication: there is no option "token". There are tokens, validate, header, realm',
    () => createAuth(wrong({ token: "a" })),
  ],
  [
    'Cannot create the logger: there is no option "sink". There are log, skip, trustedProxyHops',
    () => createLogger(wrong({ sink: () => {} })),
  ],
  [
    'Cannot create the health routes: there is no option "isReady". There are ready',
    () => healthRoutes("bot", "1.0.0", wrong({ isReady: () => {} })),
  ],
  [
    'Cannot create the rate limit store: there is no option "max". There are maxKeys',
    () => new MemoryRateLimitStore(wrong({ max: 1 })),
  ],
  [
    'Cannot create the rate limit store: there is no option "timeout". There are prefix, timeoutMs, ' +
    "recoveryMs, log",
    () => new KvRateLimitStore(wrong({ atomic: () => {} }), wrong({ timeout: 1 })),
  ],
  [
    'Cannot create the log: there is no option "colour". There are format, maxWaitingChars, output',
    () => createStdoutLog(wrong({ colour: true })),
  ],
  [
    'Cannot create the log summary: there is no option "window". There are log, limit, windowMs',
    () => createLogSummary(wrong({ window: 1 })),
  ],
  [
    'Cannot build the delivery: there is no option "form_". There are from, secret, id, form, path, sentAt',
    () => forgeDelivery("push", {}, wrong({ form_: true })),
  ],
  [
    "groupBy must return a key, a group with a 'key', or undefined, got an array",
    () => group(["a"]),
  ],
  [
    "Cannot run the schedule: the store must be what openEventStore() resolves with, or that of a route, got " +
    "undefined",
    () => runSchedule(wrong(undefined), "a"),
  ],
  [
    "Cannot build the delivery: it must have a type, such as push, got undefined",
    () => forgeDelivery(wrong(undefined), {}),
  ],
  [
    "Cannot build the update: it must have a payload, got undefined",
    () => messengerUpdate(wrong(undefined)),
  ],
  [
    "Cannot build the delivery: it must have a payload, got null",
    () => standardDelivery(wrong(null)),
  ],
  [
    'Cannot build the update: there is no option "id". There are from, secret, path',
    () => messengerUpdate({}, wrong({ id: 1 })),
  ],
  [
    'Cannot build the update: \'from\' must be "messenger" or "telegram", got "signal"',
    () => messengerUpdate({}, { from: wrong("signal") }),
  ],
  [
    'Cannot build the delivery: there is no option "from". There are secret, id, sentAt, path, platform',
    () => standardDelivery({}, wrong({ from: "a" })),
  ],
  [
    'Cannot start the test bot: there is no option "kv". There are env, resources, timeoutMs',
    () => startTestBot(defineApp(definition), wrong({ kv: 1 })),
  ],
  [
    'Cannot start the worker: there is no option "parallel". There are concurrency, leaseMs, pollMs, ' +
    "timeoutMs, onStuck, reportDead, retry, waitForHandlerMs, version, log, telemetry",
    () => startWorker(wrong({ listen: () => {} }), () => {}, wrong({ parallel: 1 })),
  ],
  [
    "Cannot start the worker, in 'retry': there is no option \"attempts\". There are minDelayMs, maxDelayMs, " +
    "maxAttempts",
    () => defineApp({ ...definition, worker: { retry: wrong({ attempts: 3 }) } }),
  ],
  [
    'Cannot open the event store: there is no option "name". There are namespace, notifier, retentionMs, ' +
    "keepPayloads, log",
    () => openEventStore(wrong({ atomic: () => {} }), wrong({ name: "bot" })),
  ],
];

for (const [message, make] of MAKERS) {
  Deno.test(`It is said of an option: ${message}`, async () => {
    const error = await assertRejects(async () => await make(), TypeError);
    assertEquals(error.message, message);
  });
}

const FILTER =
  "There are ids, state, outcome, type, source, repository, chat, orderingKey, receivedAfter, " +
  "receivedBefore, settledBefore";

/** Operations on a store. With a filter that is misspelled they would mean all events. */
const OPERATIONS: readonly [string, (store: EventStore) => unknown][] = [
  [
    `Cannot list the events: there is no option "stat". ${FILTER}, order, limit, maxReads, maxMs, cursor`,
    (store) => store.list(wrong({ stat: "dead" })),
  ],
  [
    `Cannot count the events: there is no option "stat". ${FILTER}`,
    (store) => store.stats(wrong({ stat: "dead" })),
  ],
  [
    `Cannot purge events: there is no option "stat". ${FILTER}`,
    (store) => store.purge(wrong({ stat: "dead" })),
  ],
  [
    `Cannot cancel events: there is no option "before". ${FILTER}`,
    (store) => store.cancelAll(wrong({ before: 1 })),
  ],
  [
    `Cannot replay events: there is no option "types". ${FILTER}`,
    (store) => store.replayAll(wrong({ types: ["push"] })),
  ],
  [
    "Cannot purge events: the filter must be an object, got undefined",
    (store) => store.purge(wrong(undefined)),
  ],
  [
    "Cannot purge events: 'ids' must be an array of texts, got \"abc\"",
    (store) => store.purge({ ids: wrong("abc") }),
  ],
  [
    "Cannot replay events: 'state' must be one of queued, running, parked, done, dead, unreadable, got " +
    '"ded"',
    (store) => store.replayAll({ state: wrong("ded") }),
  ],
  [
    "Cannot replay events: 'outcome' must be one of handled, ignored, failed, cancelled, got \"lost\"",
    (store) => store.replayAll({ outcome: wrong("lost") }),
  ],
  [
    "Cannot purge events: 'dryRun' must be true or false, got \"no\"",
    (store) => store.purge({}, { dryRun: wrong("no") }),
  ],
  [
    "Cannot list the events: 'type' must be a text, got an array",
    (store) => store.list({ type: wrong(["push"]) }),
  ],
  [
    "Cannot purge events: 'receivedBefore' must be a time in milliseconds since the epoch, got " +
    '"2026-01-01"',
    (store) => store.purge({ receivedBefore: wrong("2026-01-01") }),
  ],
  [
    "Cannot replay events: 'settledBefore' must be a time in milliseconds since the epoch, got null",
    (store) => store.replayAll({ settledBefore: wrong(null) }),
  ],
  [
    "Cannot count the events: 'receivedAfter' must be a time in milliseconds since the epoch, got NaN",
    (store) => store.stats({ receivedAfter: NaN }),
  ],
  [
    "Cannot purge events: 'signal' must be an AbortSignal, got an object",
    (store) => store.purge({}, { signal: wrong(new AbortController()) }),
  ],
  [
    'Cannot purge events: there is no option "limit". There are onProgress, signal, dryRun',
    (store) => store.purge({}, wrong({ limit: 1 })),
  ],
  [
    'Cannot read the state: there is no option "inkate". There are intake',
    (store) => store.state("a", wrong({ inkate: "github" })),
  ],
  [
    'Cannot set the state: there is no option "expireMs". There are expireAfterMs',
    async (store) => (await store.state("a")).set(1, wrong({ expireMs: 1 })),
  ],
  [
    'Cannot list the states: there is no option "key". There are intake, prefix',
    (store) => Array.fromAsync(store.states(wrong({ key: "a" }))),
  ],
  [
    'Cannot export events: there is no option "onLeft". There are onLeftOut',
    (store) => Array.fromAsync(exportEvents(store, {}, wrong({ onLeft: () => {} }))),
  ],
  [
    'Cannot import events: there is no option "limit". There are onProgress, signal',
    (store) => importEvents(store, ReadableStream.from([]), wrong({ limit: 1 })),
  ],
  [
    'Cannot emit the event: there is no option "delay". There are id, delayMs, group',
    (store) => store.emit("jobs", "a", {}, wrong({ delay: 1 })),
  ],
  [
    'Cannot catch up: there is no option "since". There are hooks, github, sinceMs, intake, paceMs, limit, ' +
    "dryRun, signal, telemetry",
    (store) => catchUp(store, wrong({ since: "2h" })),
  ],
];

for (const [message, call] of OPERATIONS) {
  Deno.test(`A store's caller is told: ${message}`, async () => {
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv);
    const error = await assertRejects(async () => await call(store), TypeError);
    assertEquals(error.message, message);
  });
}

/** Calls of a bot in a test. */
const TEST_CALLS: readonly [string, (test: TestBot) => unknown][] = [
  [
    'Cannot deliver: there is no option "expectFail". There are expectFailure',
    (test) => test.deliver(forgeDelivery("push", {}), wrong({ expectFail: true })),
  ],
  [
    "Cannot deliver: it must be what forgeDelivery() or another such function returns, got undefined",
    (test) => test.deliver(wrong(undefined)),
  ],
  [
    'Cannot advance the time: there is no option "fails". There are expectFailure',
    (test) => test.advance(1, wrong({ fails: true })),
  ],
  [
    "Cannot run the schedule: 'expectFailure' must be true or false, got \"yes\"",
    (test) => test.run("a", { expectFailure: wrong("yes") }),
  ],
];

for (const [message, call] of TEST_CALLS) {
  Deno.test(`A test is told: ${message}`, async () => {
    await using test = await startTestBot(defineApp(definition));
    const error = await assertRejects(async () => await call(test), TypeError);
    assertEquals(error.message, message);
  });
}
