import { type AppVariables, onDeploy, readBell, readInteger } from "./app_variables.ts";
import { type ConnectionBindings, consoleSink, writeLog } from "./middleware/mod.ts";
import { InFlight, type Running, stop, stopSignal } from "./end_app.ts";
import { withDeadline } from "./webhook/deadline.ts";
import {
  type BellKind,
  type EventHandler,
  type EventStore,
  type EventWorker,
  type JsonObject,
  openEventStore,
  startWorker,
} from "./webhook/mod.ts";

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
}

/** Answers requests, as {@linkcode bindEnv} makes it. */
export type AppHandler = (
  request: Request,
  info: ConnectionBindings,
) => Response | Promise<Response>;

/** Options of {@linkcode runApp}. */
export interface RunAppOptions<TPayload = JsonObject> {
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
}

interface Settings {
  readonly port: number;
  readonly hostname: string;
  readonly kvUrl: string | undefined;
  readonly bell: BellKind | "auto";
  readonly trustedProxyHops: number;
}

/** A remote KV that does not answer is tried for ever: an app that cannot store must not start. */
const KV_TIMEOUT_MS = 10_000;

/**
 * Runs an app until it is told to stop: reads its variables, opens the KV, starts the worker, serves.
 *
 * The variables are `PORT` (8000), `HOST` (0.0.0.0), `KV_URL` (unset: Deno's default database; else a
 * path, `:memory:` or the URL of a remote KV), `QUEUE_BELL` (`auto`, `enqueue`, `watch`),
 * `TRUSTED_PROXY_HOPS` (0), and those that `setup` reads.
 *
 * What keeps the app from starting is written as one line to the standard error, and ends the process
 * with exit code 1. SIGINT and SIGTERM end it with 0, once running requests and handlers are through
 * or 4 s have passed; a second one ends it at once.
 *
 * @typeParam TPayload What the handler takes the payload for.
 * @param options The name, the handler, and how to make the app.
 *
 * @example
 * ```ts ignore
 * import { bindEnv, createBaseApp, createForgeIntake, readSecrets, runApp } from "@org/edge-base";
 *
 * await runApp({
 *   name: "my-bot",
 *   handler: (event) => console.log(event.type),
 *   setup: (variables) => {
 *     const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
 *     return ({ store, ready }) => {
 *       const app = createBaseApp({ name: "my-bot", ready });
 *       app.route("/", createForgeIntake({ secrets, store }));
 *       return bindEnv(app, {});
 *     };
 *   },
 * });
 * ```
 */
export async function runApp<TPayload = JsonObject>(
  options: RunAppOptions<TPayload>,
): Promise<void> {
  const { name } = options;
  let running: Running;
  try {
    running = await start(options);
  } catch (error) {
    console.error(`Cannot start ${name}: ${reasonOf(error)}`);
    Deno.exit(1);
  }
  writeLog(consoleSink, "info", "stopping", { name, signal: await running.told.signal });
  await stop(running);
  Deno.exit(0);
}

function readSettings(variables: AppVariables): Settings {
  return {
    port: readInteger(variables, "PORT", 8000, 65_535),
    hostname: variables.get("HOST")?.trim() || "0.0.0.0",
    kvUrl: variables.get("KV_URL")?.trim() || undefined,
    bell: readBell(variables, "QUEUE_BELL"),
    trustedProxyHops: readInteger(variables, "TRUSTED_PROXY_HOPS", 0, 100),
  };
}

async function start<TPayload>(options: RunAppOptions<TPayload>): Promise<Running> {
  const { name, handler, setup } = options;
  const variables: AppVariables = {
    get: (variable) => Deno.env.get(variable),
    warn: (message) => writeLog(consoleSink, "warn", message, { name }),
  };
  const settings = readSettings(variables);
  const createHandler = setup(variables);
  const started = Promise.withResolvers<EventWorker>();
  if (onDeploy(variables)) registerSweep(name, started.promise);
  const told = stopSignal();
  const { kv, store } = await openStore(name, settings);
  const { trustedProxyHops } = settings;
  const answer = createHandler({ store, kv, ready: told.throwIfTold, trustedProxyHops });
  const inFlight = new InFlight();
  const counted: AppHandler = (request, info) => inFlight.during(() => answer(request, info));
  const server = serve(settings, counted, (address) => {
    writeLog(consoleSink, "info", "listening", { name, ...address, bell: store.bell });
  });
  const worker = startWorker(store, handler);
  started.resolve(worker);
  told.wait();
  return { server, worker, kv, told, inFlight };
}

function serve(
  { port, hostname }: Settings,
  answer: AppHandler,
  onListen: (address: { hostname: string; port: number }) => void,
): Deno.HttpServer {
  try {
    const listening = ({ hostname, port }: Deno.NetAddr) => onListen({ hostname, port });
    return Deno.serve({ port, hostname, onListen: listening }, answer);
  } catch (error) {
    throw new Error(`HOST and PORT cannot be listened on: ${reasonOf(error)}`, { cause: error });
  }
}

/**
 * Has the platform start an instance each minute for the events that are due, retries among them: an
 * instance without requests is stopped, and with it the worker's own timer. The platform takes only
 * what is registered while the entrypoint is evaluated, so nothing may be waited for before.
 */
function registerSweep(name: string, worker: Promise<EventWorker>): void {
  if (typeof Deno.cron !== "function") return;
  Deno.cron(`${name} events`, "* * * * *", async () => await (await worker).sweep());
}

async function openStore(
  name: string,
  { kvUrl, bell }: Settings,
): Promise<{ kv: Deno.Kv; store: EventStore }> {
  const opening = (async () => {
    if (typeof Deno.openKv !== "function") throw new Error("Deno has to run with --unstable-kv");
    const kv = await Deno.openKv(kvUrl);
    return { kv, store: await openEventStore(kv, { namespace: name, bell }) };
  })();
  try {
    return await withDeadline(opening, KV_TIMEOUT_MS);
  } catch (error) {
    const where = kvUrl === undefined ? "the default database" : "the KV that KV_URL names";
    // The reason may quote the URL, which may hold a password.
    const reason = kvUrl === undefined
      ? reasonOf(error)
      : reasonOf(error).replaceAll(kvUrl, "KV_URL").replaceAll(/\/\/[^\s/]*@/g, "//");
    throw new Error(`${where} cannot be used: ${reason}`, { cause: error });
  }
}

/** What a person can act on: without a stack, and in one line. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.replaceAll(/\s+/g, " ").slice(0, 500);
}
