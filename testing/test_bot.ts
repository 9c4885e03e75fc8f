import { planOf, readVariables } from "../app/variables.ts";
import type { App } from "../app/define_app.ts";
import { checkApp, openPlanned, type ServableApp } from "../app/open_app.ts";
import {
  checkBoolean,
  checkOptions,
  MAX_KEPT_MS,
  MAX_TIMER_MS,
  met,
  wholeNumber,
} from "../core/check_options.ts";
import type { EnvSpec, Variables } from "../core/env.ts";
import type { LogRecord } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { EventRecord, EventStore } from "../events/mod.ts";
import { acceptTime, killWorker, renewLeases } from "../events/worker/worker.ts";
import {
  checkStoreDefinition,
  type StoreDefinition,
  storeForTests,
} from "../events/store/store_definition.ts";
import { runSchedule } from "../events/schedules/mod.ts";
import { Failures, type WaitingCall } from "./_failures.ts";
import { TestClock } from "./_test_clock.ts";
import type { TestDelivery } from "./deliveries.ts";
import { testEnvOf } from "./test_secrets.ts";

/**
 * Fake of one resource: of an object it has only the members that a test uses.
 *
 * @typeParam TResource The resource.
 * @category Test bot
 */
export type FakeOf<TResource> = TResource extends (...args: never[]) => unknown ? TResource
  : TResource extends object ? Partial<TResource>
  : TResource;

/**
 * Options of {@linkcode startTestBot}.
 *
 * @typeParam TResources The resources that the app opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Test bot
 */
export interface TestBotOptions<
  TResources = unknown,
  // deno-lint-ignore no-explicit-any -- with `unknown`, options for any app would be for no other store
  TTx = any,
  // deno-lint-ignore no-explicit-any -- as above
  TReader = any,
> {
  /**
   * Values of the app's variables. The variables of the package's platforms are set: they accept what
   * `forgeDelivery` and `messengerUpdate` sign, and allow every user. The variables of the process are not read. If
   * `SQLITE_FILE` or `KV_URL` is among them, the events lie there. A Postgres database is the one of `DATABASE_URL`, and
   * the events lie in a schema of the test's own, which goes with it.
   *
   * @default {{}} Only these.
   */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /**
   * Fakes that stand in for the app's resources: only those that the test uses.
   *
   * @default {undefined} The app opens its resources.
   */
  readonly resources?:
    | (TResources extends (...args: never[]) => unknown ? TResources
      : TResources extends object
        ? { readonly [TName in keyof TResources]?: FakeOf<TResources[TName]> }
      : TResources)
    | undefined;
  /**
   * Store that replaces the app's, of the same engine, for several test bots on the same events: `kv(opened)`, or
   * `postgres({ schema })` with a schema for tests. `kv()` and `sqlite()` take their place from `env`. A place that apps
   * have by default is refused.
   *
   * @default {undefined} The place that `env` names, or an empty store, in memory if the engine can do that.
   */
  readonly store?: StoreDefinition<TTx, TReader> | undefined;
  /**
   * Longest time for handling before {@linkcode TestBot.deliver} rejects, in milliseconds.
   *
   * @default {10_000}
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * Outcome of a delivery.
 *
 * @category Test bot
 */
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

/**
 * App that runs within a test, with an empty store.
 *
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Test bot
 */
export interface TestBot<TTx = unknown, TReader = unknown> extends AsyncDisposable {
  /** Store, for reading events. */
  readonly store: EventStore<TTx, TReader>;
  /** Database of the store, for reading, as handlers have it. */
  readonly db: TReader;
  /** All log records. */
  readonly logs: readonly LogRecord[];
  /**
   * Sends a request to the app, such as one for a route of its own.
   *
   * @param path The path, such as `/hello`.
   * @param init The method, the headers and the body, as for the global `fetch`.
   * @returns The response.
   */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /**
   * Sends a delivery, and waits until its event is handled: done, dead, put off, parked, or waiting for a retry.
   * So is every event that a handler emits without a delay, or wakes.
   *
   * @param delivery The delivery.
   * @param options `expectFailure` lets handlers fail, for a test of what happens then: otherwise the call
   * rejects.
   * @returns The outcome.
   * @throws {Error} If a handler failed: of its event, of one that was emitted, or of another one that was
   * handled meanwhile, in its first attempt. The handler's error is the cause. A retry of an earlier
   * event is for {@linkcode TestBot.advance} to report.
   * @throws {Error} If `groupBy` failed, whose error is the cause: in production the event is handled without a group.
   * @throws {TypeError} If the app has no platform for the delivery, or several.
   * @throws {Error} If handling takes longer than the options allow.
   */
  deliver(
    delivery: TestDelivery,
    options?: { readonly expectFailure?: boolean | undefined },
  ): Promise<Outcome>;
  /**
   * Advances the time of day, and waits until every event that is due by then is handled. Retries follow
   * the time of day; timers run as usual. Slots of schedules become events on the way, each at its time, and at
   * no other moment. Before and after that the app looks for what is wrong, and tells its `onAlert`.
   *
   * @param ms The time to advance by, in milliseconds.
   * @param options `expectFailure` lets handlers fail.
   * @throws {Error} If a handler failed, of any event, and no call has reported that yet. Its error is the cause.
   * @throws {Error} If handling takes longer than the options allow.
   */
  advance(ms: number, options?: { readonly expectFailure?: boolean | undefined }): Promise<void>;
  /**
   * Runs a schedule at once, as {@linkcode runSchedule} does, and waits until its event is handled: done, dead,
   * put off, or waiting for a retry.
   *
   * @param name The schedule's name.
   * @param options `expectFailure` lets handlers fail.
   * @returns The event, once nothing is due any more.
   * @throws {TypeError} If the app has no such schedule.
   * @throws {Error} If a handler failed, as for {@linkcode TestBot.deliver}. Its error is the cause.
   * @throws {Error} If handling takes longer than the options allow.
   */
  run(
    name: string,
    options?: { readonly expectFailure?: boolean | undefined },
  ): Promise<EventRecord>;
  /**
   * Ends the app as a kill or a crash would: what it holds is neither settled nor given back, and its handlers are not
   * told. Calls that wait for handlers return. An event that was being handled stays `running` until its lease expires, 30 s by
   * default: have another test bot on the same store take it over, by {@linkcode TestBot.advance}. A handler that still
   * runs goes on, since nothing ends code: its steps are refused, and its end settles nothing.
   *
   * @returns A promise that resolves once the resources and the database, if the app has opened them, are closed.
   */
  kill(): Promise<void>;
}

/**
 * Starts an app for a test: the same app as the one that runs, in this process, with an empty store of the
 * app's engine, a KV in memory for instance, and without a network. It stops at the end of its scope.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @param app The app under test.
 * @param options Its variables, and fakes of its resources.
 * @returns The app, running.
 * @throws {VariableError} If variables are missing or wrong: the message has all of them.
 * @throws {TypeError | RangeError} If an option is not valid, or `store` would open the place that apps have by default.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("push", ({ attempt }) => {
 *   if (attempt === 1) throw new Error("not yet");
 * });
 *
 * await using test = await startTestBot(bot);
 * const push = forgeDelivery("push", { ref: "refs/heads/main" });
 * const { status, event } = await test.deliver(push, { expectFailure: true });
 * assertEquals([status, event?.state], [200, "queued"]);
 * await test.advance(2_000);
 * assertEquals((await test.store.get(event!.id))?.outcome, "handled");
 * ```
 *
 * @category Test bot
 */
export async function startTestBot<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx,
  TReader,
>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  options: TestBotOptions<NoInfer<TResources>, NoInfer<TTx>, NoInfer<TReader>> = {},
): Promise<TestBot<TTx, TReader>> {
  const doing = "start the test bot";
  checkApp(doing, app);
  const checks = {
    ...{ env: undefined, resources: undefined, store: checkStoreDefinition },
    timeoutMs: wholeNumber({ max: MAX_TIMER_MS }),
  };
  checkOptions(doing, options, checks);
  const { timeoutMs = 10_000 } = options;
  const logs: LogRecord[] = [];
  const failures = new Failures((record) => void logs.push(record));
  const env = Object.assign({}, ...app.platforms.map(testEnvOf), options.env);
  const resources = options.resources as TResources | undefined;
  const appOptions = { env, resources, log: failures.log, ticks: false };
  const read = (variables: Variables) =>
    planOf(app, variables, storeForTests(doing, app.store, options.store, variables));
  const plan = readVariables(app.definition.name, appOptions, read);
  const opened = await openPlanned(app, plan, appOptions);
  const bot = new LocalBot(app, opened, logs, failures, timeoutMs);
  try {
    return await bot.begin();
  } catch (error) {
    await bot[Symbol.asyncDispose]();
    throw error;
  }
}

/** Steps that each lead to the next time at which something is due, and most steps after those. */
const [EXACT_STEPS, MORE_STEPS] = [1_000, 200] as const;

/** Most events that an error names. */
const MAX_NAMED = 5;

/** Timer that a fake clock does not stop. */
const realTimeout = globalThis.setTimeout;

/** Connection of the requests. */
const CONNECTION = {
  remoteAddr: { transport: "tcp", hostname: "127.0.0.1", port: 50_000 },
} as const;

/** The test bots that run. They share the time of day of the process. */
const RUNNING = new Set<LocalBot<unknown, unknown>>();

type CallOptions = NonNullable<Parameters<TestBot["advance"]>[1]>;

function expectsFailure(doing: string, options: CallOptions): boolean {
  checkOptions(doing, options, { expectFailure: checkBoolean });
  return options.expectFailure ?? false;
}

class LocalBot<TTx, TReader> implements TestBot<TTx, TReader> {
  readonly store: EventStore<TTx, TReader>;
  readonly db: TReader;
  readonly #opened: ServableApp<TTx, TReader>;
  readonly #clock = new TestClock();
  /** The calls under way. */
  readonly #calls = new Set<Promise<unknown>>();
  #isKilled = false;
  /** Time of the schedules, which only `advance` moves: so their number of slots does not vary. */
  #slotTime = Date.now();

  constructor(
    readonly app: Pick<App, "platforms" | "schedules">,
    opened: ServableApp<TTx, TReader>,
    readonly logs: LogRecord[],
    readonly failures: Failures,
    readonly timeoutMs: number,
  ) {
    this.store = opened.store;
    this.db = opened.db;
    this.#opened = opened;
  }

  /** Begins all schedules. */
  async begin(): Promise<this> {
    RUNNING.add(this);
    await this.#opened.scheduler?.tick(this.#slotTime);
    return this;
  }

  async fetch(path: string, init?: RequestInit): Promise<Response> {
    if (this.#isKilled) throw new Error("Cannot send the request: the test bot was killed");
    const request = new Request(new URL(path, "http://localhost"), init);
    return await this.#opened.fetch(request, CONNECTION);
  }

  async deliver(
    delivery: TestDelivery,
    options: CallOptions = {},
  ): Promise<Outcome> {
    if (typeof delivery?.headers !== "object") {
      const wanted = "it must be what forgeDelivery() or another such function returns";
      throw new TypeError(`Cannot deliver: ${wanted}, got ${met(delivery)}`);
    }
    const expectFailure = expectsFailure("deliver", options);
    const { method, headers, body } = delivery;
    const path = this.#pathOf(delivery);
    const call: WaitingCall = { text: "deliver(delivery", expectFailure, requestId: null };
    return await this.#during(call, async () => {
      const response = await this.fetch(path, { method, headers, body });
      const text = await response.text();
      call.requestId = response.headers.get("X-Request-Id") ?? undefined;
      call.eventId = this.#eventIdOf(response);
      await this.#handled();
      return {
        status: response.status,
        text,
        code: response.headers.get("X-Error-Code"),
        event: (call.eventId && await this.store.get(call.eventId)) || undefined,
      };
    });
  }

  async advance(ms: number, options: CallOptions = {}): Promise<void> {
    const expectFailure = expectsFailure("advance the time", options);
    if (!Number.isFinite(ms) || ms < 0 || ms > MAX_KEPT_MS) {
      throw new RangeError(
        `Cannot advance the time: it must be a number of milliseconds from 0 to ${MAX_KEPT_MS}, got ${
          met(ms)
        }`,
      );
    }
    const call: WaitingCall = { text: "advance(ms", expectFailure, hasRetries: true };
    const { alarm } = this.#opened;
    await this.#during(call, async () => {
      await alarm?.look();
      await this.#advance(ms);
      await alarm?.look();
    });
  }

  async #advance(ms: number): Promise<void> {
    const end = Date.now() + ms;
    const slotEnd = this.#slotTime + ms;
    // Events that are due by now, such as woken ones, are handled before the time passes.
    let since = Date.now();
    await this.#handled();
    // Step by step: an event that fails may be due again before the end.
    for (let steps = 0;; steps++) {
      const start = performance.now();
      const due = await this.#nextDue(since, end);
      const slot = this.#nextSlot(slotEnd);
      const leastMs = steps < EXACT_STEPS ? 0 : ms / MORE_STEPS;
      if (due === undefined && slot === undefined) break;
      const dueMs = due === undefined ? Infinity : Math.max(due - Date.now(), leastMs);
      const slotMs = slot === undefined ? Infinity : Math.max(slot - Date.now(), 0);
      await this.#pass(Math.max(Math.min(dueMs, slotMs, end - Date.now()), 0));
      if (slot !== undefined && slotMs <= dueMs) await this.#makeSlots(slot);
      since = Date.now();
      await this.#handled();
      if (performance.now() - start > this.timeoutMs) throw await this.#late();
    }
    this.#slotTime = slotEnd;
    await this.#pass(Math.max(end - Date.now(), 0));
    await this.#handled();
  }

  /** Moves the time of day. The bots that run renew their leases, as they would meanwhile; the others' expire. */
  async #pass(ms: number): Promise<void> {
    if (ms === 0) return;
    this.#clock.advance(ms);
    await Promise.all([...RUNNING].map((bot) => renewLeases(bot.#opened.worker)));
    acceptTime(this.#opened.worker);
  }

  async run(name: string, options: CallOptions = {}): Promise<EventRecord> {
    const expectFailure = expectsFailure("run the schedule", options);
    const names = this.app.schedules.map((schedule) => schedule.name);
    if (!names.includes(name)) {
      const has = names.length === 0 ? "none" : names.join(", ");
      throw new TypeError(
        `Cannot run the schedule: the app has no schedule ${met(name)}. It has ${has}`,
      );
    }
    const call: WaitingCall = { text: `run("${name}"`, expectFailure };
    return await this.#during(call, async () => {
      call.eventId = await runSchedule(this.store, name);
      await this.#handled();
      return (await this.store.get(call.eventId))!;
    });
  }

  async kill(): Promise<void> {
    if (this.#isKilled) return;
    this.#isKilled = true;
    RUNNING.delete(this);
    killWorker(this.#opened.worker);
    // They read what has become of their events.
    await Promise.allSettled(this.#calls);
    this.#opened.beginStop();
    await this.#opened.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    RUNNING.delete(this);
    if (!this.#isKilled) await this.#opened.stop();
    this.#clock.restore();
    // A KV's listener ends a turn later, and a test's sanitizers would take it for a leak.
    await new Promise((resolve) => realTimeout(resolve, 0));
  }

  /** Finds the path of a delivery: its `path`, or the one of the only platform of its kind. */
  #pathOf({ platform: wanted, path }: TestDelivery): string {
    if (path !== undefined) return path;
    const [first, ...others] = this.app.platforms.filter(({ kind, name }) =>
      kind === wanted || name === wanted
    );
    if (first && others.length === 0) return first.path;
    const which = first ? "several platforms" : "no platform";
    throw new TypeError(
      `Cannot deliver: the app has ${which} of the kind '${wanted}'. Its paths are ` +
        `${this.app.platforms.map(({ path }) => path).join(", ")}: give the delivery a 'path'`,
    );
  }

  /** Runs a call, and reports the failures of handlers that belong to it. */
  #during<TResult>(call: WaitingCall, run: () => Promise<TResult>): Promise<TResult> {
    if (this.#isKilled) {
      return Promise.reject(new Error(`Cannot call ${call.text}): the test bot was killed`));
    }
    const causeOf = async (id: string) => (await this.store.get(id))?.causedBy;
    const calling = this.failures.during(call, causeOf, run);
    this.#calls.add(calling);
    return calling.finally(() => this.#calls.delete(calling));
  }

  /** Finds the event of the request that a response answers; undefined if it made none. */
  #eventIdOf({ headers }: Response): string | undefined {
    const requestId = headers.get("X-Request-Id");
    const isOfIt = (each: LogRecord) => each.requestId === requestId && each.eventId;
    return this.logs.find(isOfIt)?.eventId as string | undefined;
  }

  /** Finds when the next event is due, later than one time and up to another; undefined if none is. */
  async #nextDue(since: number, end: number): Promise<number | undefined> {
    let next: number | undefined;
    for await (const event of this.store.list()) {
      if (event.state === "unreadable" || event.state === "done" || event.state === "dead") {
        continue;
      }
      const dueAt = event.lease?.until ?? event.dueAt;
      if (dueAt === null) continue;
      if (dueAt > since && dueAt <= end && dueAt < (next ?? Infinity)) next = dueAt;
    }
    return next;
  }

  /** Finds the next slot of the app's schedules; undefined if none comes up to a time. */
  #nextSlot(end: number): number | undefined {
    const slot = this.#opened.scheduler?.nextAfter(this.#slotTime);
    return slot !== undefined && slot <= end ? slot : undefined;
  }

  async #makeSlots(slot: number): Promise<void> {
    this.#slotTime = slot;
    await this.#opened.scheduler?.tick(slot);
  }

  async #handled(): Promise<void> {
    const { timeoutMs } = this;
    try {
      await withDeadline(this.#opened.worker.poll(), timeoutMs);
    } catch (cause) {
      throw await this.#late(cause);
    }
  }

  /** Makes the error of a call that has waited for too long. It names the events whose handlers still run. */
  async #late(cause?: unknown): Promise<Error> {
    const running = await Array.fromAsync(this.store.list({ state: "running" }));
    const names = running.map(({ id, type }) => `${id} (${type})`);
    const shown = names.slice(0, MAX_NAMED).join(", ");
    const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : "";
    const which = names.length === 0
      ? "a handler takes longer, or never ends"
      : `the handlers of ${shown}${more} still run`;
    return new Error(
      `The events were not handled within ${this.timeoutMs} ms: ${which}. Give the test bot a longer ` +
        "'timeoutMs', or a fake of what the handler waits for",
      { cause },
    );
  }
}
