import type { Hono } from "@hono/hono";
import { createBaseApp } from "../app/base_app.ts";
import { checkFunctions } from "../core/check_options.ts";
import type { LogRecord } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import {
  type EventHandler,
  type EventRecord,
  type EventStore,
  type EventWorker,
  openEventStore,
  type PlatformName,
  startWorker,
  type WorkerOptions,
} from "../events/mod.ts";
import {
  createForgeIntake,
  createMessengerIntake,
  type ForgeIntakeOptions,
  type JsonObject,
  type MessengerIntakeOptions,
} from "../webhook/mod.ts";
import { Failures } from "./_failures.ts";
import { TestClock } from "./_test_clock.ts";
import type { TestDelivery } from "./forge_delivery.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/** Options of {@linkcode startTestBot}. */
export interface TestBotOptions {
  /** Options of the forge's intake, except for its secrets and store. */
  readonly forge?: Partial<ForgeIntakeOptions> | undefined;
  /** Options of the messenger's intake, except for its secrets and store. */
  readonly messenger?: Partial<MessengerIntakeOptions> | undefined;
  /** Options of the worker. */
  readonly worker?: WorkerOptions | undefined;
  /**
   * Allowed users, as in `MESSENGER_ALLOWED_USERS`.
   *
   * @default {"*"}
   */
  readonly allowedUsers?: string | undefined;
  /**
   * Longest time for handling before {@linkcode TestBot.deliver} rejects, in milliseconds.
   *
   * @default {10_000}
   */
  readonly timeoutMs?: number | undefined;
}

/** Options of a call that waits for handlers. */
export interface TestCallOptions {
  /**
   * Lets handlers fail, for a test of what happens then. By default the call rejects if one fails.
   *
   * @default {false}
   */
  readonly expectFailure?: boolean | undefined;
}

/** Outcome of a delivery. */
export interface Outcome {
  /** Status of the answer. */
  readonly status: number;
  /** Text of the answer. */
  readonly text: string;
  /** Error code of the answer; null if it is not an error. */
  readonly code: string | null;
  /** Event, once nothing is due any more; undefined if the delivery made none. */
  readonly event: EventRecord | undefined;
}

/** Bot that runs within a test: both intakes, a store in memory, and a worker with the handler. */
export interface TestBot extends AsyncDisposable {
  /** Store, for reading events. */
  readonly store: EventStore;
  /** KV of the store. */
  readonly kv: Deno.Kv;
  /** All log records. */
  readonly logs: readonly LogRecord[];
  /**
   * Sends a delivery, and waits until its event is handled: done, dead, or waiting for a retry.
   *
   * @param delivery The delivery.
   * @param options `expectFailure` lets the event's handler fail.
   * @returns The outcome.
   * @throws {Error} If the event's handler failed, so that the event waits for a retry or is dead. The
   * handler's error is the cause.
   * @throws {Error} If handling takes longer than the options allow.
   */
  deliver(delivery: TestDelivery, options?: TestCallOptions): Promise<Outcome>;
  /**
   * Advances the time of day, and waits until every event that is due by then is handled. Retries follow
   * the time of day; timers run as usual.
   *
   * @param ms The time to advance by, in milliseconds.
   * @param options `expectFailure` lets handlers fail.
   * @throws {Error} If a handler failed, of any event. Its error is the cause.
   * @throws {Error} If handling takes longer than the options allow.
   */
  advance(ms: number, options?: TestCallOptions): Promise<void>;
}

/**
 * Starts a bot for a test. Its deliveries go through the intake and the store to the handler, in this
 * process and without a network. The bot stops at the end of its scope.
 *
 * @typeParam TPayload The type of the payload that the handler takes.
 * @param handler The handler under test.
 * @param options Options of the intakes and the worker.
 * @returns The bot.
 * @throws {TypeError | RangeError} If an option is not valid.
 *
 * @example
 * ```ts
 * import { type EventHandler } from "@org/edge-base";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const handler: EventHandler = ({ attempt }) => {
 *   if (attempt === 1) throw new Error("not yet");
 * };
 *
 * await using bot = await startTestBot(handler);
 * const push = forgeDelivery("push", { ref: "refs/heads/main" });
 * const { status, event } = await bot.deliver(push, { expectFailure: true });
 * assertEquals([status, event?.state], [200, "queued"]);
 * await bot.advance(2_000);
 * assertEquals((await bot.store.get(event!.id))?.state, "done");
 * ```
 */
export async function startTestBot<TPayload = JsonObject>(
  handler: EventHandler<TPayload>,
  options: TestBotOptions = {},
): Promise<TestBot> {
  const kv = await Deno.openKv(":memory:");
  const logs: LogRecord[] = [];
  const toLogs = (record: LogRecord) => void logs.push(record);
  try {
    const { log = toLogs } = options.worker ?? {};
    checkFunctions("start the worker", { log });
    const failures = new Failures(log);
    const store = await openEventStore(kv, { log: toLogs });
    const start = () => startWorker(store, handler, { ...options.worker, log: failures.log });
    return new LocalBot(store.kv, store, logs, failures, options, start);
  } catch (error) {
    kv.close();
    throw error;
  }
}

/** Test bot in this process: an app for each platform, and one store and worker for both. */
class LocalBot implements TestBot {
  readonly #worker: EventWorker;
  readonly #apps: Readonly<Record<PlatformName, Hono>>;
  readonly #options: TestBotOptions;
  readonly #failures: Failures;
  readonly #clock = new TestClock();

  constructor(
    readonly kv: Deno.Kv,
    readonly store: EventStore,
    readonly logs: LogRecord[],
    failures: Failures,
    options: TestBotOptions,
    startWorker: () => EventWorker,
  ) {
    const { signing, gitlab, gitlabToken, messenger } = TEST_SECRETS;
    const secrets = { secrets: [signing, gitlab], tokens: [gitlabToken] };
    this.#failures = failures;
    this.#options = options;
    this.#apps = {
      forge: this.#appOf("forge", createForgeIntake({ ...secrets, store, ...options.forge })),
      messenger: this.#appOf(
        "messenger",
        createMessengerIntake({ secrets: [messenger], store, ...options.messenger }),
      ),
    };
    this.#worker = startWorker();
  }

  async deliver(
    delivery: TestDelivery,
    { expectFailure = false }: TestCallOptions = {},
  ): Promise<Outcome> {
    const env = { MESSENGER_ALLOWED_USERS: this.#options.allowedUsers ?? "*" };
    const response = await this.#apps[delivery.platform].request("/webhook", delivery, env);
    const text = await response.text();
    await this.#handled();
    const requestId = response.headers.get("X-Request-Id");
    const record = this.logs.find((each) => each.requestId === requestId && each.eventId);
    this.#failures.report(
      "deliver(delivery",
      expectFailure,
      ({ eventId }) => eventId === record?.eventId,
    );
    return {
      status: response.status,
      text,
      code: response.headers.get("X-Error-Code"),
      event: (record && await this.store.get(String(record.eventId))) ?? undefined,
    };
  }

  async advance(ms: number, { expectFailure = false }: TestCallOptions = {}): Promise<void> {
    this.#clock.advance(ms);
    await this.#handled();
    this.#failures.report("advance(ms", expectFailure);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.stop();
    this.#clock.restore();
    this.kv.close();
  }

  #appOf(name: PlatformName, intake: Hono): Hono {
    const log = (record: LogRecord) => void this.logs.push(record);
    const app = createBaseApp({ name, logger: { log } });
    app.route("/", intake);
    return app as unknown as Hono;
  }

  async #handled(): Promise<void> {
    const { timeoutMs = 10_000 } = this.#options;
    try {
      await withDeadline(this.#worker.poll(), timeoutMs);
    } catch (cause) {
      throw new Error(`The events were not handled within ${timeoutMs} ms`, { cause });
    }
  }
}
