import type { Hono } from "@hono/hono";
import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkObjectOption,
  checkOptions,
  checkText,
  checkWellFormed,
  MAX_KEPT_MS,
  type OptionCheck,
  wholeNumber,
} from "../core/check_options.ts";
import { checkEnvSpec, type EnvOf, type EnvSpec } from "../core/env.ts";
import type { LogSink } from "../core/mod.ts";
import type {
  EventStore,
  EventStoreOptions,
  HandlerOptions,
  WorkerOptions,
} from "../events/mod.ts";
import type { Schedule } from "../events/schedules/mod.ts";
import type { FailingRule } from "../events/store/failing.ts";
import { checkKeepPayloads } from "../events/store/store_core.ts";
import { checkStoreDefinition, type StoreDefinition } from "../events/store/store_definition.ts";
import { checkWorkerOptions } from "../events/worker/worker.ts";
import type { Delivery, Platform } from "../webhook/mod.ts";
import { checkPlatform } from "../webhook/platform.ts";
import type { Alert } from "../watch/alert.ts";
import { type AppOptions, type BaseEnv, createBaseApp } from "./base_app.ts";
import type { AppParts } from "./event_middleware.ts";
import { checkMounts, type Mount } from "./mounts.ts";

const DOING = "define the app";

const WORKER_KEYS = [
  ...["concurrency", "leaseMs", "pollMs", "timeoutMs", "retry", "rate", "waitForHandlerMs"],
];

/**
 * Parts that the routes of a definition work with.
 *
 * @typeParam TEnv The values of its variables.
 * @typeParam TResources The resources that it has opened.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface RouteParts<TEnv extends object, TResources, TTx = unknown, TReader = unknown>
  extends AppParts<TEnv, TResources> {
  /** Event store. */
  readonly store: EventStore<TTx, TReader>;
  /** Database of the event store, for reading. */
  readonly db: TReader;
  /** Log of the app. Routes get one that sums up floods. */
  readonly log: LogSink;
}

/**
 * Definition of an app.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface AppDefinition<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx = unknown,
  TReader = unknown,
> extends Pick<AppOptions, "version" | "before"> {
  /** Name of the app, for `GET /health`, the log and the store. */
  readonly name: string;
  /** Platform that sends the app's deliveries: `github()`, `telegram()` or another one. */
  readonly platform: Platform<TEvents>;
  /**
   * Store of its events. What `settleWith` gives a handler, and what handlers, routes and resources get as `db`, is
   * typed by it.
   *
   * @default {kv()} The Deno KV that `KV_URL` names. On one machine, {@linkcode sqlite} is quicker.
   */
  readonly store?: StoreDefinition<TTx, TReader> | undefined;
  /**
   * Variables that the app itself reads. They are read at the start, and all that are missing are reported at
   * once.
   *
   * @default {{}} None.
   */
  readonly env?: TSpec | undefined;
  /**
   * Opens what handlers and routes need: clients of APIs, connections. It is called once at the start.
   *
   * @default {undefined} Nothing: `resources` is undefined.
   */
  readonly resources?:
    | ((
      parts: Pick<RouteParts<EnvOf<TSpec>, undefined, TTx, TReader>, "env" | "db" | "log"> & {
        /**
         * Notes a function that closes a resource. It is called at the end, after the last handler, the latest
         * first; and if the start fails.
         *
         * @param close The function.
         */
        defer(close: () => unknown): void;
      },
    ) => TResources | Promise<TResources>)
    | undefined;
  /**
   * Adds routes. They run behind the rate limiter. It must be synchronous. Write it below
   * `resources`: the compiler infers the members in this order.
   *
   * @default {undefined} None but the health routes and the webhook.
   */
  readonly routes?:
    | ((
      app: Hono<BaseEnv<EnvOf<TSpec>>>,
      parts: RouteParts<EnvOf<TSpec>, TResources, TTx, TReader>,
    ) => unknown)
    | undefined;
  /**
   * Readiness check, for `GET /health/ready`. It throws or rejects while the app should get
   * no requests.
   *
   * @default {undefined} Ready until it is stopped.
   */
  readonly ready?:
    | ((parts: AppParts<EnvOf<TSpec>, TResources>) => void | Promise<void>)
    | undefined;
  /**
   * Tells somebody that something is wrong with the app, and that it is over: see {@linkcode Alert}. Each is told once, by
   * one of the app's instances, and not again after a restart; if the function throws, or takes over 30 seconds, it is
   * called again later. An instance looks every 15 seconds. Write it below `resources`.
   *
   * @default {undefined} Nobody is told, and nothing looks.
   */
  readonly onAlert?:
    | ((
      alert: Alert,
      parts: AppParts<EnvOf<TSpec>, TResources> & {
        /** Log of the app. */
        readonly log: LogSink;
        /** Signal that is aborted once nobody waits for the function any more. */
        readonly signal: AbortSignal;
      },
    ) => unknown)
    | undefined;
  /**
   * Limit of the requests of a client that are answered 4xx, in a window in milliseconds, see
   * {@linkcode createRateLimiter}; false for none. Other requests do not count: code hosts do not send again
   * what was refused.
   *
   * @default {{ limit: 100, window: 60_000 }}
   */
  readonly rateLimit?: { readonly limit: number; readonly window: number } | false | undefined;
  /**
   * Options of the worker: how many handlers run at once, their time limit, the retries.
   *
   * @default {{}} The defaults of {@linkcode startWorker}.
   */
  readonly worker?:
    | Omit<
      WorkerOptions,
      "log" | "telemetry" | "onStuck" | "reportDead" | "reportFailing" | "version"
    >
    | undefined;
  /**
   * Gives up events that have no handler, each as a dead event with its payload, and does not ignore them.
   *
   * @default {false}
   */
  readonly strict?: boolean | undefined;
  /**
   * Namespace of the app's events in the database. If you rename an app, set this to its old name: otherwise
   * the events that it still has are never handled.
   *
   * @default {name} The app's name.
   */
  readonly namespace?: string | undefined;
  /**
   * Time for which done events are kept and duplicates recognized, in milliseconds.
   *
   * @default {604_800_000} 7 days. GitHub can redeliver for 3 days.
   */
  readonly retentionMs?: number | undefined;
  /**
   * Keeps the payloads of done events for a while, to look at them and to replay the events: for `forMs`
   * milliseconds, up to the retention, and the oldest are dropped when all take more than `maxBytes`. An instance
   * without it drops them all, see {@linkcode EventStoreOptions.keepPayloads}.
   *
   * @default {undefined} A payload is deleted when its event is done.
   */
  readonly keepPayloads?: EventStoreOptions["keepPayloads"];
  /**
   * Parts with their routes and variables, such as `consoleMount()` of `@org/edge-base/console`. They
   * run behind the rate limiter.
   *
   * @default {[]} None.
   */
  readonly mounts?: readonly Mount[] | undefined;
  /**
   * Says what a delivery is about, in up to 120 characters, for the console and the tool: `#1442 Crash on start`. It is
   * called once, when the delivery is accepted, and its text stays as long as the event's record, also when the payload
   * is deleted: keep what is private out of it. If it throws, there is none, which is logged once.
   *
   * @default {undefined} The package's, also where it returns undefined: number and title, branch and commit, run and
   * result of a code host's events; the command, button or kind of content of a chat's; the object and amount of a
   * payment's. It keeps nothing that a person has written in a chat. With an empty text, there is none.
   */
  readonly describe?: ((delivery: Delivery) => string | undefined) | undefined;
}

/**
 * Options of a handler for reports of failing events: the rule, either `afterAttempts` or `afterMs`, and those of any
 * handler.
 *
 * @category Flows
 */
export type FailingOptions = HandlerOptions & FailingRule;

/**
 * Options of a schedule.
 *
 * @category Flows
 */
export interface ScheduleOptions extends HandlerOptions {
  /**
   * Time zone of the expression, such as `Europe/Berlin`. A time that the change to summer time skips comes
   * as much later as the clocks are put forward; one that comes twice in autumn is a slot once if the
   * expression names a single time of day, and twice otherwise.
   *
   * @default {"UTC"}
   */
  readonly timeZone?: string | undefined;
  /**
   * Handling of the slots that passed while no instance of the app ran: `last` handles the last one now, `all`
   * the last 100, and `none` none that is more than two minutes late. With `all`, no slot is left out either while the
   * one before it is still handled.
   *
   * @default {"last"}
   */
  readonly missed?: Schedule["missed"] | undefined;
}

/**
 * Checks a definition, and opens nothing.
 *
 * @throws {TypeError} If a part has the wrong type.
 * @throws {RangeError} If a number is out of its range.
 */
export function checkDefinition<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx,
  TReader,
>(
  definition: AppDefinition<TEvents, TSpec, TResources, TTx, TReader>,
): void {
  checkOptions(DOING, definition, CHECKS, ["name", "platform"], "the definition");
  const { name, version, before, rateLimit, retentionMs, keepPayloads } = definition;
  // An app to be discarded: what is wrong is said before anything is opened.
  createBaseApp({ name, version, before, rateLimit: rateLimit || undefined, logger: false });
  if (keepPayloads !== undefined) checkKeepPayloads(DOING, keepPayloads, retentionMs);
}

const checkKeyText: OptionCheck = (doing, name, value) => {
  checkText(doing, name, value);
  checkWellFormed(doing, name, value);
};

const CHECKS: Readonly<
  Record<keyof AppDefinition<object, EnvSpec, unknown>, OptionCheck | undefined>
> = {
  name: checkKeyText,
  version: undefined,
  platform: (doing, _name, value) => checkPlatform(doing, value as Platform),
  store: checkStoreDefinition,
  env: checkEnvSpec,
  resources: checkFunction,
  routes: checkFunction,
  before: undefined,
  ready: checkFunction,
  onAlert: checkFunction,
  rateLimit: (...rateLimit) => rateLimit[2] === false || checkObjectOption(...rateLimit),
  worker: (doing, name, value) => {
    checkObjectOption(doing, name, value);
    checkKeys(`${doing}, in 'worker'`, value as object, WORKER_KEYS);
    checkWorkerOptions(value as WorkerOptions);
  },
  strict: checkBoolean,
  namespace: checkKeyText,
  retentionMs: wholeNumber({ max: MAX_KEPT_MS }),
  keepPayloads: undefined,
  mounts: checkMounts,
  describe: checkFunction,
};
