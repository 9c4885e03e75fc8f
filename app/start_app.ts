import { checkOptions, MAX_TIMER_MS, wholeNumber } from "../core/check_options.ts";
import { type EnvSpec, readAll } from "../core/env.ts";
import { consoleLog, type LogSink, writeLog } from "../core/mod.ts";
import { sleep, withDeadline } from "../core/timeouts.ts";
import type { EventStore } from "../events/mod.ts";
import type { App } from "./define_app.ts";
import {
  checkApp,
  type OpenAppOptions,
  type OpenedApp,
  openPlanned,
  type ServableApp,
  SHARED_CHECKS,
} from "./open_app.ts";
import { type Place, serveApp, type Serving } from "./serve_app.ts";
import { type AppPlan, planOf, readLogFormat, readPlace, readVariables } from "./variables.ts";

/**
 * Options of {@linkcode startApp}.
 *
 * @typeParam TResources The resources that the app opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface StartAppOptions<
  TResources = unknown,
  // deno-lint-ignore no-explicit-any -- with `unknown`, options for any app would be for no other store
  TTx = any,
  // deno-lint-ignore no-explicit-any -- as above
  TReader = any,
> extends Omit<OpenAppOptions<TResources, TTx, TReader>, "onStuck"> {
  /**
   * Log of the app, its event store and its worker.
   *
   * @default {consoleSink} Or text for people on a terminal. `LOG_FORMAT` forces one of them.
   */
  readonly log?: LogSink | undefined;
  /**
   * Time that requests and handlers get to finish when the app stops, in milliseconds. Events that are
   * still running then are released, which takes up to 0.7 s more if the store does not answer.
   *
   * @default {4_000} Deno Deploy kills an instance after 5 s. Kubernetes waits 30 s by default.
   */
  readonly graceMs?: number | undefined;
}

/**
 * App that is served.
 *
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface StartedApp<TTx = unknown, TReader = unknown>
  extends Omit<OpenedApp<TTx, TReader>, "stop"> {
  /** Address that it listens at: `http://localhost:8000`. */
  readonly url: string;
  /**
   * Promise that resolves once the app has stopped. It rejects if the app had to stop because as
   * many handlers were past their time limit as may run at once.
   */
  readonly finished: Promise<void>;
  /**
   * Stops the app in order: running requests and handlers end first, up to the grace; meanwhile the
   * readiness probe is answered 503. Then everything is closed.
   *
   * @returns A promise that resolves once everything is closed.
   */
  stop(): Promise<void>;
}

const DOING = "start the app";

/** Share of the grace that is kept for requests that are still being answered. */
const SHUTDOWN_SHARE = 1 / 8;

/** Shortest time for which the readiness probe can see that the app stops. */
const DRAIN_MS = 500;

/** Addresses that stand for all of the machine's. */
const ANY_HOST: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);

/**
 * Opens an app and serves it, until it is stopped. In addition to the variables of {@linkcode openApp} it
 * reads `PORT` (8000) and `HOST` (0.0.0.0).
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @param app The app, as {@linkcode defineApp} returns it.
 * @param options Variables, store, resources and log that replace the app's, and the grace.
 * @returns The app, served.
 * @throws {VariableError} If variables are missing or wrong: the message has all of them. Nothing is opened.
 * @throws {TypeError} If an option has the wrong type. Nothing is opened.
 * @throws {RangeError} If the grace is out of range. Nothing is opened.
 * @throws {Error} If the store or a resource cannot be opened, or the address cannot be listened on. What was
 * opened before is closed.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite, startApp } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * const env = {
 *   GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody",
 *   SQLITE_FILE: ":memory:",
 *   HOST: "127.0.0.1",
 *   PORT: "0",
 * };
 *
 * await using app = await startApp(bot, { env, log: () => {} });
 * const response = await fetch(`${app.url}/health`);
 * assertEquals((await response.json()).name, "my-bot");
 * ```
 *
 * @category Apps
 */
export async function startApp<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx,
  TReader,
>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  options: StartAppOptions<NoInfer<TResources>, NoInfer<TTx>, NoInfer<TReader>> = {},
): Promise<StartedApp<TTx, TReader>> {
  checkStartOptions(DOING, app, options);
  const { name } = app.definition;
  const { log = consoleLog(readLogFormat(options.env)), graceMs = 4_000 } = options;
  const [plan, place] = readVariables(
    name,
    { ...options, log },
    (variables) => readAll(() => planOf(app, variables, options.store), () => readPlace(variables)),
  );
  let served: ServedApp<TTx, TReader> | undefined;
  const onStuck = () => {
    writeLog(log, "error", "handlers do not end, stopping", { name });
    served?.stopStuck();
  };
  const opened = await openPlanned(app, plan, { ...options, log, onStuck });
  try {
    // On Deno Deploy nobody reaches the app at the address that it listens at.
    const mounts = plan.onDeploy ? [] : plan.mounts;
    return served = new ServedApp(opened, { name, place, mounts, log, graceMs });
  } catch (error) {
    await opened.stop({ graceMs: 0 });
    throw error;
  }
}

/** App that is served from its creation on. */
class ServedApp<TTx, TReader> implements StartedApp<TTx, TReader> {
  url = "";
  readonly fetch: OpenedApp["fetch"];
  readonly store: EventStore<TTx, TReader>;
  readonly db: TReader;
  readonly worker: OpenedApp["worker"];
  readonly finished: Promise<void>;
  readonly #opened: ServableApp<TTx, TReader>;
  readonly #graceMs: number;
  readonly #server: Serving;
  readonly #end = Promise.withResolvers<void>();
  #isStuck = false;
  #stopped: Promise<void> | undefined;

  constructor(opened: ServableApp<TTx, TReader>, { name, place, mounts, log, graceMs }: {
    readonly name: string;
    readonly place: Place;
    readonly mounts: AppPlan<unknown, TTx, TReader>["mounts"];
    readonly log: LogSink;
    readonly graceMs: number;
  }) {
    const { fetch, store, db, worker, requestLog } = opened;
    [this.fetch, this.store, this.db, this.worker] = [fetch, store, db, worker];
    this.#opened = opened;
    this.#graceMs = graceMs;
    this.finished = this.#end.promise;
    this.finished.catch(() => {}); // Nobody has to wait for it.
    this.#server = serveApp({
      ...{ name, ...place, log: requestLog },
      answer: fetch,
      onListen: (address) => {
        this.url = urlOf(address);
        const urls = Object.fromEntries(mounts.map(({ name, path }) => [name, this.url + path]));
        const fields = { name, ...address, notifier: store.notifier, ...urls };
        writeLog(log, "info", "listening", fields);
      },
    });
  }

  /** Stops the app in order, once. It is bound. */
  readonly stop = (): Promise<void> => this.#stopped ??= this.#stop();

  /** Stops the app because its handlers do not end. */
  stopStuck(): void {
    if (this.#stopped) return;
    this.#isStuck = true;
    this.stop();
  }

  readonly [Symbol.asyncDispose] = (): Promise<void> => this.stop();

  /**
   * Handlers and requests in flight end first; meanwhile new requests are still answered, and the readiness
   * probe gets 503.
   */
  async #stop(): Promise<void> {
    this.#opened.beginStop();
    const graceMs = this.#graceMs;
    const start = performance.now();
    const quietMs = graceMs * (1 - SHUTDOWN_SHARE);
    const stopped = this.worker.stop({ graceMs });
    const answered = this.#answered(Math.min(DRAIN_MS, quietMs), start + quietMs);
    await withDeadline(Promise.all([stopped, answered]), quietMs).catch(() => {});
    // A peer that never finishes its body keeps `shutdown()` from ever resolving.
    const remainingMs = graceMs - (performance.now() - start);
    await withDeadline(this.#server.shutdown(), remainingMs).catch(() => {});
    await stopped;
    await this.#opened.close();
    if (this.#isStuck) this.#end.reject(new Error("Handlers did not end within their time limits"));
    else this.#end.resolve();
  }

  /** Waits for a time, and then until no request is being answered, or a time of `performance.now()`. */
  async #answered(pauseMs: number, until: number): Promise<void> {
    await sleep(pauseMs);
    while (this.#server.inFlight > 0 && performance.now() < until) await sleep(10);
  }
}

/**
 * Checks the options of {@linkcode startApp} and {@linkcode runApp}.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param app The app.
 * @param options The options.
 * @throws {TypeError} If the app or an option has the wrong type.
 * @throws {RangeError} If the grace is out of range.
 */
export function checkStartOptions(doing: string, app: unknown, options: StartAppOptions): void {
  checkApp(doing, app);
  const graceMs = wholeNumber({ min: 0, max: MAX_TIMER_MS });
  checkOptions(doing, options, { ...SHARED_CHECKS, graceMs });
}

function urlOf({ hostname, port }: { readonly hostname: string; readonly port: number }): string {
  if (ANY_HOST.has(hostname)) return `http://localhost:${port}`;
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
