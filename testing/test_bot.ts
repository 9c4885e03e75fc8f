import type { LogRecord } from "../core/mod.ts";
import {
  type EventHandler,
  type EventRecord,
  type EventStore,
  openEventStore,
  startWorker,
  type WorkerOptions,
} from "../events/mod.ts";
import type { ForgeIntakeOptions, JsonObject, MessengerIntakeOptions } from "../webhook/mod.ts";
import { LocalBot } from "./_local_bot.ts";
import type { TestDelivery } from "./forge_delivery.ts";

/** Options of {@linkcode startTestBot}. */
export interface TestBotOptions {
  /** Options of the forge's intake, beside its secrets and store. */
  readonly forge?: Partial<ForgeIntakeOptions> | undefined;
  /** Options of the messenger's intake, beside its secrets and store. */
  readonly messenger?: Partial<MessengerIntakeOptions> | undefined;
  /** Options of the worker. */
  readonly worker?: WorkerOptions | undefined;
  /**
   * The users who are allowed, as in `MESSENGER_ALLOWED_USERS`.
   *
   * @default {"*"}
   */
  readonly allowedUsers?: string | undefined;
  /**
   * How long handling may take until {@linkcode TestBot.deliver} rejects, in milliseconds.
   *
   * @default {10_000}
   */
  readonly timeoutMs?: number | undefined;
}

/** What became of a delivery. */
export interface Outcome {
  /** The status of the answer. */
  readonly status: number;
  /** The text of the answer. */
  readonly text: string;
  /** The answer's error code; null where it is none. */
  readonly code: string | null;
  /** The event, as it stands once nothing is due any more; undefined where none was made. */
  readonly event: EventRecord | undefined;
}

/** A bot that runs within a test: both intakes, a store in memory, and a worker with the handler. */
export interface TestBot extends AsyncDisposable {
  /** The store, for looking at events. */
  readonly store: EventStore;
  /** The KV that it is in. */
  readonly kv: Deno.Kv;
  /** All that was logged. */
  readonly logs: readonly LogRecord[];
  /**
   * Sends a delivery, and waits until its event is handled: done, dead, or waiting for a retry.
   *
   * @param delivery The delivery.
   * @returns What became of it.
   * @throws {Error} If handling takes longer than the options allow.
   */
  deliver(delivery: TestDelivery): Promise<Outcome>;
  /**
   * Moves the time on, and waits until all is handled that is due by then. It is the time of day that
   * is moved, which retries go by; timers run as ever.
   *
   * @param ms By how much, in milliseconds.
   * @throws {Error} If handling takes longer than the options allow.
   */
  advance(ms: number): Promise<void>;
}

/**
 * Starts a bot for a test: whatever is delivered to it goes through the intake and the store to the
 * handler, in this process and without a network. The end of the scope stops it.
 *
 * @typeParam TPayload What the handler takes the payload for.
 * @param handler The handler under test.
 * @param options What is to differ from the defaults.
 * @returns The bot.
 * @throws {TypeError | RangeError} If an option makes no sense.
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
 * const { status, event } = await bot.deliver(forgeDelivery("push", { ref: "refs/heads/main" }));
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
  const log = (record: LogRecord) => void logs.push(record);
  try {
    const store = await openEventStore(kv, { log });
    const start = () => startWorker(store, handler, { log, ...options.worker });
    return new LocalBot(kv, store, logs, options, start);
  } catch (error) {
    kv.close();
    throw error;
  }
}
