import type { AppVariables } from "./app_variables.ts";
import { checkInteger, checkObject, MAX_TIMER_MS, met } from "../core/check_options.ts";
import type { LogSink } from "../core/mod.ts";
import type { ConnectionBindings } from "../middleware/mod.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import type { EventHandler, EventStore, WorkerOptions } from "../events/mod.ts";
import type { JsonObject } from "../webhook/mod.ts";
import { withDefaults } from "../events/worker/worker.ts";

/** Parts that `runApp` hands to an app. */
export interface AppContext {
  /** Event store, for the intake. */
  readonly store: EventStore;
  /** KV of the event store, for the app's own data. Its queue, where the store uses that, is refused. */
  readonly kv: Deno.Kv;
  /** Readiness check. It throws once the app is stopping. */
  readonly ready: () => void;
  /** Number of trusted reverse proxies, from `TRUSTED_PROXY_HOPS`. */
  readonly trustedProxyHops: number;
  /** Telemetry for the app and its intake; undefined without `OTEL_DENO=true`. */
  readonly telemetry?: Telemetry | undefined;
  /** Log for the app's requests: the `log` of the options, with floods summed up. */
  readonly log: LogSink;
}

/** Function that answers requests. {@linkcode bindEnv} makes one. */
export type AppHandler = (
  request: Request,
  info: ConnectionBindings,
) => Response | Promise<Response>;

/** Options of {@linkcode runApp}, which include those of the worker. */
export interface RunAppOptions<TPayload = JsonObject> extends Omit<WorkerOptions, "onStuck"> {
  /** Name of the app, for the log. */
  readonly name: string;
  /**
   * Namespace of the app's events in the KV. If you rename an app, set this to its old name: otherwise
   * nobody handles the events that it still has.
   *
   * @default {name} The app's name.
   */
  readonly namespace?: string | undefined;
  /** Handler of the events. */
  readonly handler: EventHandler<TPayload>;
  /**
   * Reads the app's own variables, and returns a function that creates the app.
   *
   * @param variables The variables.
   * @returns A function that creates the app and returns what answers its requests.
   */
  readonly setup: (variables: AppVariables) => (context: AppContext) => AppHandler;
  /**
   * Time that requests and handlers get to finish after SIGINT or SIGTERM, in milliseconds. Events that
   * are still running then are released, which takes up to 0.7 s more if the KV does not answer.
   *
   * @default {4_000} Deno Deploy kills an instance after 5 s. Kubernetes waits 30 s by default.
   */
  readonly graceMs?: number | undefined;
  /**
   * Time for which done events are kept and duplicates recognized, in milliseconds.
   *
   * @default {604_800_000} 7 days. GitHub can redeliver for 3 days.
   */
  readonly retentionMs?: number | undefined;
  /**
   * Log of the app, its event store and its worker.
   *
   * @default {createStdoutLog} In the form that `LOG_FORMAT` names. With telemetry, and on Deno Deploy,
   * `consoleSink`.
   */
  readonly log?: LogSink | undefined;
}

const DOING = "run the app";

/** Longest retention: 100 years, like the event store's. */
const MAX_RETENTION_MS = 100 * 365 * 86_400_000;

/**
 * Checks the options, before anything is read or opened.
 *
 * @param options The options.
 * @throws {TypeError} If an option has the wrong type.
 * @throws {RangeError} If a number is out of its range.
 */
export function checkOptions<TPayload>(options: RunAppOptions<TPayload>): void {
  checkObject(DOING, options);
  const { name, handler, setup } = options;
  if (typeof name !== "string" || name.trim() === "") {
    throw new TypeError(`Cannot ${DOING}: 'name' must be a text, got ${met(name)}`);
  }
  for (const [each, value] of Object.entries({ handler, setup })) {
    if (typeof value === "function") continue;
    throw new TypeError(`Cannot ${DOING}: '${each}' must be a function, got ${met(value)}`);
  }
  const { namespace = name } = options;
  if (typeof namespace !== "string" || namespace.trim() === "") {
    const wanted = "'namespace' must be a text that is not blank";
    throw new TypeError(`Cannot ${DOING}: ${wanted}, got ${met(namespace)}`);
  }
  const { graceMs = 0, retentionMs = 1 } = options;
  checkInteger(DOING, "graceMs", graceMs, { min: 0, max: MAX_TIMER_MS });
  checkInteger(DOING, "retentionMs", retentionMs, { max: MAX_RETENTION_MS });
  withDefaults(options);
}

/**
 * Checks that a callback returned a function. Otherwise the app would fail at its first request.
 *
 * @param callback The name of the callback, for the message.
 * @param returned The value that it returned.
 * @param wanted The requirement, for the message.
 * @throws {TypeError} If the value is not a function.
 */
export function checkReturned(callback: string, returned: unknown, wanted: string): void {
  if (typeof returned === "function") return;
  if (returned instanceof Promise) {
    throw new TypeError(
      `${callback} must not be async: it must return ${wanted}, got a promise`,
    );
  }
  throw new TypeError(`${callback} must return ${wanted}, got ${met(returned)}`);
}
