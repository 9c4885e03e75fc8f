import type { Context, Hono } from "@hono/hono";
import {
  checkFunction,
  checkObjectOption,
  checkOptions,
  checkPart,
  checkTelemetry,
  isPromise,
  type OptionCheck,
} from "../core/check_options.ts";
import type { EnvOf, EnvSpec } from "../core/env.ts";
import { StoppingError } from "../core/http_error.ts";
import { consoleSink, createLogSummary, type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import { type EventStore, type EventWorker, startWorker } from "../events/mod.ts";
import { loadCron, type Schedule, Scheduler, type TimedSchedule } from "../events/schedules/mod.ts";
import {
  checkStoreDefinition,
  type Database,
  type StoreDefinition,
} from "../events/store/store_definition.ts";
import { type DescribedHandler, HANDLES } from "../events/worker/event.ts";
import { workerNoted } from "../events/worker/worker.ts";
import { clientIp, type ConnectionBindings } from "../middleware/mod.ts";
import { combineTelemetries, openTelemetry, type Telemetry } from "../telemetry/mod.ts";
import type { OpenedAlarm } from "../watch/alarm.ts";
import { type IntakeStore, mountIntake } from "../webhook/intake.ts";
import { bindEnv, createBaseApp } from "./base_app.ts";
import type { App } from "./define_app.ts";
import type { AppParts } from "./event_middleware.ts";
import { warnOfLeftEvents } from "./left_events.ts";
import { warnOfMisspeltNames } from "./misspelt_names.ts";
import type { MountParts } from "./mounts.ts";
import { refusingPlatforms } from "./own_events.ts";
import { type AppPlan, planOf, readVariables } from "./variables.ts";

/**
 * Options of {@linkcode openApp}.
 *
 * @typeParam TResources The resources that the app opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface OpenAppOptions<
  TResources = unknown,
  // deno-lint-ignore no-explicit-any -- with `unknown`, options for any app would be for no other store
  TTx = any,
  // deno-lint-ignore no-explicit-any -- as above
  TReader = any,
> {
  /**
   * Values of the variables of the app, its store and its platforms, and of `TRUSTED_PROXY_HOPS` (0).
   *
   * @default {Deno.env} The variables of the process.
   */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /**
   * Store that replaces the app's, of the same engine: one whose database is open already, for instance. The app
   * does not close that.
   *
   * @default {undefined} The app's.
   */
  readonly store?: StoreDefinition<TTx, TReader> | undefined;
  /**
   * Resources that replace the app's, such as fakes for a test.
   *
   * @default {undefined} The app opens its resources.
   */
  readonly resources?: TResources | undefined;
  /**
   * Log of the app, its event store and its worker.
   *
   * @default {consoleSink} One line of JSON per record, on the console.
   */
  readonly log?: LogSink | undefined;
  /**
   * Telemetry.
   *
   * @default {undefined} With `OTEL_DENO=true` what {@linkcode openTelemetry} opens, else none.
   */
  readonly telemetry?: Telemetry | undefined;
  /**
   * Called once when as many handlers run past their time limit as may run at once. Only the end of the
   * process frees what they hold.
   *
   * @default {undefined} The app goes on.
   */
  readonly onStuck?: (() => void) | undefined;
}

/**
 * App that is open: it answers requests and handles events until it is stopped.
 *
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface OpenedApp<TTx = unknown, TReader = unknown> extends AsyncDisposable {
  /**
   * Answers a request.
   *
   * @param request The request.
   * @param info The connection, which the server passes as its second argument: the rate limiter counts by its
   * address.
   * @returns The response.
   */
  readonly fetch: (
    request: Request,
    info?: ConnectionBindings,
  ) => Response | Promise<Response>;
  /** Event store. */
  readonly store: EventStore<TTx, TReader>;
  /** Database of the event store, for reading. */
  readonly db: TReader;
  /** Worker that handles the events. */
  readonly worker: EventWorker;
  /**
   * Stops the worker, then closes the resources, each within a second, and the database if the app has opened it.
   *
   * @param options `graceMs` is how long handlers may take to end, in milliseconds: 4,000 by default.
   * @returns A promise that resolves once everything is closed.
   */
  stop(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** Open app, with the parts for its server. */
export interface ServableApp<TTx = unknown, TReader = unknown> extends OpenedApp<TTx, TReader> {
  /** Log for failures of requests, with floods summed up. */
  readonly requestLog: LogSink;
  /** Maker of the schedules' slots; undefined without schedules. */
  readonly scheduler: Scheduler | undefined;
  /** Alarm; undefined unless the definition has `onAlert`. */
  readonly alarm: Pick<OpenedAlarm, "look" | "start"> | undefined;
  /** Makes the readiness probe fail from now on. */
  beginStop(): void;
  /** Closes the resources and the database, once the worker has stopped. */
  close(): Promise<void>;
}

const DOING = "open the app";

const REGISTER =
  "every event is ignored: register handlers, with bot.on(...), before you run or open the app";

/** Checks of the options that all ways to start an app share. */
export const SHARED_CHECKS: Readonly<
  Record<"env" | "store" | "resources" | "log" | "telemetry", OptionCheck | undefined>
> = {
  env: checkObjectOption,
  store: checkStoreDefinition,
  resources: undefined,
  log: checkFunction,
  telemetry: checkTelemetry,
};

/** Longest wait for a resource to be closed. */
const CLOSE_TIMEOUT_MS = 1_000;

/** Period of the summaries of floods in the log. */
const SUMMARY_MS = 10_000;

/** Limit of the requests of a client that are answered 4xx. */
const RATE_LIMIT = { limit: 100, window: 60_000 };

/**
 * Opens an app: reads its variables, opens the event store and the resources, and starts the worker.
 * It does not serve: give its `fetch` to a server, or mount it.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @param app The app, as {@linkcode defineApp} returns it.
 * @param options Variables, store, resources and log that replace the app's.
 * @returns The app, open.
 * @throws {VariableError} If variables are missing or wrong: the message has all of them. Nothing is opened.
 * @throws {TypeError} If an option has the wrong type. Nothing is opened.
 * @throws {SyntaxError} If the cron expression of a schedule is not valid. Nothing is opened.
 * @throws {Error} If the store or a resource cannot be opened. What was opened before is closed.
 *
 * @example
 * ```ts
 * import { defineApp, github, openApp, sqlite } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * const env = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody", SQLITE_FILE: ":memory:" };
 *
 * await using app = await openApp(bot, { env, log: () => {} });
 * // Deno.serve(app.fetch);
 * assertEquals((await app.fetch(new Request("http://localhost/health/ready"))).status, 200);
 * ```
 *
 * @category Apps
 */
export async function openApp<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx,
  TReader,
>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  options: OpenAppOptions<NoInfer<TResources>, NoInfer<TTx>, NoInfer<TReader>> = {},
): Promise<OpenedApp<TTx, TReader>> {
  checkApp(DOING, app);
  checkOptions(DOING, options, { ...SHARED_CHECKS, onStuck: checkFunction });
  const plan = readVariables(
    app.definition.name,
    options,
    (variables) => planOf(app, variables, options.store),
  );
  return await openPlanned(app, plan, options);
}

/**
 * Checks that something is an app.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param app The value.
 * @throws {TypeError} If it is something else.
 */
export function checkApp(doing: string, app: unknown): void {
  checkPart(doing, app, "handlerWith", "the app must be what defineApp() returns");
}

/**
 * Opens an app whose variables have been read.
 *
 * @param app The app.
 * @param plan The values of its variables.
 * @param options The options of {@linkcode openApp}, and false for `ticks` if the caller makes the slots of
 * schedules.
 * @returns The app, open.
 * @throws {SyntaxError} If the cron expression of a schedule is not valid. Nothing is opened.
 * @throws {Error} If the store or a resource cannot be opened. What was opened before is closed.
 */
export async function openPlanned<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx,
  TReader,
>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  plan: AppPlan<EnvOf<TSpec>, TTx, TReader>,
  options: OpenAppOptions<TResources> & { readonly ticks?: boolean },
): Promise<ServableApp<TTx, TReader>> {
  const { log = consoleSink, ticks = true } = options;
  const started = Promise.withResolvers<ServableApp<TTx, TReader>>();
  // Deno Deploy accepts a cron only while the entrypoint is evaluated: nothing may be awaited before this.
  if (plan.onDeploy) registerPoll(app.definition.name, started.promise);
  const closing = new Closing(log);
  try {
    const schedules = await readTimes(app.schedules);
    const opened = await open(app, plan, { ...options, log }, closing, schedules);
    if (ticks) opened.scheduler?.start();
    if (ticks) opened.alarm?.start();
    started.resolve(opened);
    return opened;
  } catch (error) {
    await closing.run();
    throw error;
  }
}

async function open<TEvents extends object, TSpec extends EnvSpec, TResources, TTx, TReader>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  plan: AppPlan<EnvOf<TSpec>, TTx, TReader>,
  options: OpenAppOptions<TResources> & { readonly log: LogSink },
  closing: Closing,
  schedules: readonly TimedSchedule[],
): Promise<ServableApp<TTx, TReader>> {
  const { definition } = app;
  const { name, namespace = name, retentionMs, keepPayloads } = definition;
  const { env } = plan;
  const { log, onStuck } = options;
  // If the telemetry cannot be opened, the app runs without.
  const opening = Promise.resolve(options.telemetry ?? openTelemetry()).catch((error) =>
    writeLog(log, "error", "telemetry not available", { name, error })
  );
  const database = await plan.store.open(log);
  closing.add(() => database.close());
  const opened = await database.openStore({ namespace, retentionMs, keepPayloads, log });
  const platforms = new Set(app.platforms.map((platform) => platform.name));
  const store = refusingPlatforms(opened, platforms);
  const ownTelemetry = await opening ?? undefined;
  const requestLog = summingUp(log, closing);
  const defer = (close: () => unknown) => {
    checkFunction("defer closing", "close", close);
    closing.add(close);
  };
  const resources = options.resources !== undefined
    ? options.resources
    : await definition.resources?.({ env, db: store.db, log, defer }) as TResources;
  const { trustedProxyHops, onDeploy: isOnDeploy } = plan;
  const mountParts: MountParts = {
    ...{ name, namespace, platforms: app.platforms, store, log, trustedProxyHops },
    ...{ onDeploy: isOnDeploy, fetch: async (request: Request) => await fetch(request) },
  };
  const apps: Hono[] = [];
  let telemetry = ownTelemetry;
  const count = (counting: Telemetry | undefined) => {
    if (counting) telemetry = telemetry ? combineTelemetries(telemetry, counting) : counting;
  };
  // Before the console, which shows what it counts.
  const alarm = await alarmOf(definition, { env, resources }, store, log);
  if (alarm) closing.add(() => alarm.stop());
  count(alarm?.telemetry);
  for (const mount of plan.mounts) {
    const opened = await mount.open(mountParts);
    closing.add(() => opened.close());
    apps.push(opened.app);
    count(opened.telemetry);
  }
  const stopping = Promise.withResolvers<void>();
  const parts: RequestParts<EnvOf<TSpec>, TResources, TTx, TReader> = {
    ...{ env, resources, store, telemetry, ownTelemetry, requestLog, database },
    isStopping: false,
  };
  const fetch = fetchOf(app, plan, parts, apps);
  const handler = app.handlerWith({ env, resources });
  warnOfMisspeltNames((handler as DescribedHandler)[HANDLES]?.() ?? [], app.platforms, name, log);
  const worker = startWorker(store, handler, {
    ...{ ...definition.worker, log, telemetry, onStuck, reportDead: app.reportsDead },
    reportFailing: app.failingRules,
    version: definition.version,
  });
  // Before its first delivery: an instance of another version ignores what no process is known to handle.
  await workerNoted(worker);
  const scheduler = schedules.length === 0 ? undefined : new Scheduler({
    ...{ schedules, store, log },
    count: telemetry?.countStep.bind(telemetry),
  });
  if (scheduler) closing.add(() => scheduler.stop());
  if (!app.handlesEvents) writeLog(log, "warn", "no handlers", { name, remedy: REGISTER });
  warnOfLeftEvents(database, { name, namespace, log, stopping: stopping.promise });
  const beginStop = () => {
    parts.isStopping = true;
    stopping.resolve();
  };
  const close = () => closing.run();
  const stop: OpenedApp["stop"] = async (stopOptions) => {
    const stopped = worker.stop(stopOptions);
    beginStop();
    await stopped;
    await close();
  };
  return {
    ...{ fetch, store, db: store.db, worker, scheduler, alarm, requestLog, beginStop, close, stop },
    [Symbol.asyncDispose]: () => stop(),
  };
}

/** Opens the alarm of an app; undefined if nobody is to be told. Only then its code is loaded. */
async function alarmOf<TEvents extends object, TSpec extends EnvSpec, TResources, TTx, TReader>(
  { name, onAlert }: App<TEvents, TSpec, TResources, TTx, TReader>["definition"],
  parts: AppParts<EnvOf<TSpec>, TResources>,
  store: EventStore<TTx, TReader>,
  log: LogSink,
): Promise<OpenedAlarm | undefined> {
  if (!onAlert) return undefined;
  const { openAlarm } = await import("../watch/alarm.ts");
  return openAlarm(name, store, log, (alert, signal) => onAlert(alert, { ...parts, log, signal }));
}

/** Parts that requests are answered with. */
interface RequestParts<TEnv extends object, TResources, TTx, TReader>
  extends AppParts<TEnv, TResources> {
  readonly store: EventStore<TTx, TReader>;
  /** Telemetry of the app and of its mounts. */
  readonly telemetry: Telemetry | undefined;
  /** Telemetry of the app alone: no mount names requests. */
  readonly ownTelemetry: Telemetry | undefined;
  readonly requestLog: LogSink;
  readonly database: Database;
  isStopping: boolean;
}

/** Makes the Hono app with the routes of the platforms, of the mounts and of the definition. */
function fetchOf<TEvents extends object, TSpec extends EnvSpec, TResources, TTx, TReader>(
  { definition }: App<TEvents, TSpec, TResources, TTx, TReader>,
  { env, platforms, trustedProxyHops }: AppPlan<EnvOf<TSpec>, TTx, TReader>,
  parts: RequestParts<EnvOf<TSpec>, TResources, TTx, TReader>,
  mounts: readonly Hono[],
): OpenedApp["fetch"] {
  const { name, version, before, rateLimit, routes, ready, describe } = definition;
  const { resources, store, telemetry, ownTelemetry, requestLog: log, database } = parts;
  const base = createBaseApp<EnvOf<TSpec>>({
    ...{ name, version, before, telemetry: ownTelemetry },
    logger: { log, trustedProxyHops, skip: isPoll },
    rateLimit: rateLimit === false
      ? undefined
      : { ...rateLimit ?? RATE_LIMIT, failedOnly: true, trustedProxyHops },
    ready: () => {
      if (parts.isStopping) throw new StoppingError();
      database.check();
      return ready?.({ env, resources });
    },
  });
  const addressOf = (c: Context) => clientIp(c, { trustedProxyHops });
  const intakeParts = { store: guarded(store, database), telemetry, describe, addressOf };
  for (const platform of platforms) base.route("/", mountIntake(platform, intakeParts));
  for (const mount of mounts) base.route("/", mount);
  const known = [...base.routes];
  const added: unknown = routes?.(base, { env, resources, store, db: store.db, log });
  if (isPromise(added)) {
    throw new TypeError(
      `Cannot ${DOING}: 'routes' must not be async, since it adds routes too late`,
    );
  }
  checkReached(base.routes.slice(known.length), known);
  const answer = bindEnv(base, env);
  return (request, info = {}) => answer(request, info);
}

/** Makes a store that accepts nothing while what it stores would be lost. */
function guarded(store: IntakeStore, database: Database): IntakeStore {
  const accept: IntakeStore["accept"] = (delivery, options) => {
    database.check();
    return store.accept(delivery, options);
  };
  const { maxPayloadBytes, retentionMs } = store;
  return { maxPayloadBytes, retentionMs, accept };
}

/** Refuses routes that would never be reached. Middleware cannot be checked: it has no method. */
function checkReached(added: Hono["routes"], known: Hono["routes"]): void {
  for (const { method, path } of added) {
    const isTaken = known.some((each) => each.path === path && each.method === method);
    if (!isTaken || method === "ALL") continue;
    throw new TypeError(
      `Cannot ${DOING}: 'routes' adds ${method} ${path}, which is answered by a platform, a mount or a health ` +
        'probe of the app. Take another path, or give the platform another one: { path: "..." }',
    );
  }
}

/** Tells whether a page of a mount has refreshed itself: refreshes are not logged. */
function isPoll(c: Context): boolean {
  return c.get("isPoll") === true && c.res.status < 400;
}

/** Creates a log that sums up floods, every 10 s and when the process exits. */
function summingUp(log: LogSink, closing: Closing): LogSink {
  const summary = createLogSummary({ log });
  const timer = setInterval(summary.flush, SUMMARY_MS);
  Deno.unrefTimer(timer);
  addEventListener("unload", summary.flush);
  closing.add(() => {
    clearInterval(timer);
    removeEventListener("unload", summary.flush);
    summary.flush();
  });
  return summary.log;
}

/** Reads the expressions of schedules. Without schedules, the library for that is not loaded. */
async function readTimes(schedules: readonly Schedule[]): Promise<TimedSchedule[]> {
  if (schedules.length === 0) return [];
  const timesOf = await loadCron();
  return schedules.map((schedule) => {
    const { name, expression, timeZone } = schedule;
    return { ...schedule, times: timesOf(`open the schedule '${name}'`, expression, timeZone) };
  });
}

/**
 * Makes the platform start an instance each minute for the slots and events that are due, such as retries: it
 * stops an instance without requests, and with it its timers.
 */
function registerPoll(name: string, opened: Promise<ServableApp>): void {
  if (typeof Deno.cron !== "function") return;
  // Deno accepts these characters, and 64 of them.
  const cronName = `${name.replace(/[^\w -]/g, "-").slice(0, 57)} events`;
  Deno.cron(cronName, "* * * * *", async () => {
    const { scheduler, worker, alarm } = await opened;
    await scheduler?.tick();
    // What has failed is in the log, and the next minute polls again.
    await worker.poll().catch(() => {});
    await alarm?.look();
  });
}

/** Functions that close what an app has opened, in the opposite order. */
class Closing {
  readonly #log: LogSink;
  readonly #closers: (() => unknown)[] = [];
  #running: Promise<void> | undefined;

  /** @param log Told what could not be closed. */
  constructor(log: LogSink) {
    this.#log = log;
  }

  /** Adds a function. If everything is closed already, it is called at once. */
  add(close: () => unknown): void {
    this.#closers.push(close);
    if (this.#running) this.#running = this.#running.then(() => this.#closeAll());
  }

  /** Closes everything, once. What cannot be closed does not keep the others from it. */
  run(): Promise<void> {
    return this.#running ??= this.#closeAll();
  }

  async #closeAll(): Promise<void> {
    while (this.#closers.length > 0) {
      const close = this.#closers.pop()!;
      try {
        await withDeadline(Promise.resolve(close()), CLOSE_TIMEOUT_MS);
      } catch (error) {
        writeLog(this.#log, "error", "resource not closed", { error });
      }
    }
  }
}
