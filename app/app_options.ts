import type { AppVariables } from "./app_variables.ts";
import { checkInteger, checkObject, MAX_TIMER_MS, met } from "../core/check_options.ts";
import type { LogSink } from "../core/mod.ts";
import type { ConnectionBindings } from "../middleware/mod.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import type { EventHandler, EventStore, WorkerOptions } from "../events/mod.ts";
import type { JsonObject } from "../webhook/mod.ts";
import { withDefaults } from "../events/worker/worker_options.ts";

/** What an app is made of beside its own variables. */
export interface AppContext {
  /** The event store, for the intake. */
  readonly store: EventStore;
  /** The KV that it is in, for data of the app's own. */
  readonly kv: Deno.Kv;
  /** The readiness check: it throws once the app is told to stop. */
  readonly ready: () => void;
  /** How many reverse proxies are trusted, from `TRUSTED_PROXY_HOPS`. */
  readonly trustedProxyHops: number;
  /** Where the app and its intake report; undefined without `OTEL_DENO=true`. */
  readonly telemetry?: Telemetry | undefined;
  /** Where the app's requests are to be logged: the `log` of the options, with floods summed up. */
  readonly log: LogSink;
}

/** Answers requests, as {@linkcode bindEnv} makes it. */
export type AppHandler = (
  request: Request,
  info: ConnectionBindings,
) => Response | Promise<Response>;

/** Options of {@linkcode runApp}: those of the worker, and these. */
export interface RunAppOptions<TPayload = JsonObject> extends WorkerOptions {
  /** The app's name, for the log, and for the namespace of its events in the KV. */
  readonly name: string;
  /** Handles the events. */
  readonly handler: EventHandler<TPayload>;
  /**
   * Reads the app's own variables, and tells how to make the app.
   *
   * @param variables The variables.
   * @returns Makes what answers requests.
   */
  readonly setup: (variables: AppVariables) => (context: AppContext) => AppHandler;
  /**
   * For how long after SIGINT or SIGTERM requests and handlers may go on, in milliseconds. What they
   * hold then is given back, which takes up to 0.7 s more while the KV does not answer.
   *
   * @default {4_000} Deno Deploy kills an instance after 5 s. Kubernetes waits 30 s by default.
   */
  readonly graceMs?: number | undefined;
  /**
   * For how long done events are remembered, and so duplicates known, in milliseconds.
   *
   * @default {604_800_000} 7 days. GitHub can redeliver for 3 days.
   */
  readonly retentionMs?: number | undefined;
  /**
   * Where the app, its event store and its worker report.
   *
   * @default {createStdoutLog} With telemetry, and on Deno Deploy, `consoleSink`.
   */
  readonly log?: LogSink | undefined;
}

/** What cannot be done with wrong options. */
const DOING = "run the app";

/** The longest retention: 100 years, as the event store has it. */
const MAX_RETENTION_MS = 100 * 365 * 86_400_000;

/**
 * Checks the options, so that nothing is read or opened with ones that make no sense.
 *
 * @param options The options.
 * @throws {TypeError} If one is something else than it should be.
 * @throws {RangeError} If a number makes no sense.
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
  const { graceMs = 0, retentionMs = 1 } = options;
  checkInteger(DOING, "graceMs", graceMs, { min: 0, max: MAX_TIMER_MS });
  checkInteger(DOING, "retentionMs", retentionMs, { max: MAX_RETENTION_MS });
  withDefaults(options);
}

/**
 * Checks what `setup` returns, and what that makes: either would fail at the first request only.
 *
 * @param what What returned it, for the message.
 * @param returned What was returned.
 * @param wanted What it must be, for the message.
 * @throws {TypeError} If it is no function.
 */
export function checkReturned(what: string, returned: unknown, wanted: string): void {
  if (typeof returned === "function") return;
  if (returned instanceof Promise) {
    throw new TypeError(
      `${what} must not be async: it must return ${wanted}, and returned a promise`,
    );
  }
  throw new TypeError(`${what} must return ${wanted}, and returned ${met(returned)}`);
}
