import { checkFunction, checkOptions, met, oneOf } from "../core/check_options.ts";
import type { EnvOf, EnvSpec } from "../core/env.ts";
import {
  createEventRouter,
  type DeadEvent,
  type EventHandler,
  type HandlerOptions,
  type OwnEvents,
} from "../events/mod.ts";
import {
  checkExpression,
  checkScheduleName,
  checkTimeZone,
  normalized,
  type Schedule,
  type SlotPayload,
} from "../events/schedules/mod.ts";
import { checkSource, DEAD, FAILING, OWN, SCHEDULE } from "../events/store/emission.ts";
import {
  checkFailingRule,
  checkRuleCount,
  type FailingEvent,
  type FailingRule,
  nameOfRule,
} from "../events/store/failing.ts";
import { kv, type KvCommit } from "../events/store/kv/mod.ts";
import type { StoreDefinition } from "../events/store/store_definition.ts";
import { HANDLERS, HANDLES, type NamedEvent, NoHandler } from "../events/worker/event.ts";
import { PLAN } from "../events/worker/handler_plans.ts";
import { runOf } from "../events/worker/handler_run.ts";
import type { Platform } from "../webhook/mod.ts";
import { checkPlatform } from "../webhook/platform.ts";
import {
  type AppDefinition,
  checkDefinition,
  type FailingOptions,
  type ScheduleOptions,
} from "./definition.ts";
import {
  type AppContext,
  type EventHandlers,
  handledOf,
  handlerOf,
  handlersIn,
  plansOf,
  Source,
} from "./event_handlers.ts";
import { type AppParts, type EventMiddleware, runAround } from "./event_middleware.ts";
import { isOwnEvents } from "./own_events.ts";

/** Payloads of the events that report failing ones, by their types and rules. */
type FailingEvents = Readonly<Record<string, FailingEvent>>;

/** Payloads of the events that report dead ones, by type. */
type DeadEvents = Readonly<Record<typeof DEAD, DeadEvent>>;

/**
 * App that is defined and not opened: its platform, variables, resources, routes and handlers.
 * {@linkcode runApp} runs it, {@linkcode startApp} serves it, {@linkcode openApp} opens it for a server of
 * your own, and `startTestBot` opens it in a test.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export interface App<
  // deno-lint-ignore no-explicit-any -- `App` alone stands for any app: with `unknown` it would be one without
  TEvents extends object = any,
  // deno-lint-ignore no-explicit-any -- as above
  TSpec extends EnvSpec = any,
  // deno-lint-ignore no-explicit-any -- as above
  TResources = any,
  // deno-lint-ignore no-explicit-any -- as above
  TTx = any,
  // deno-lint-ignore no-explicit-any -- as above
  TReader = any,
> extends EventHandlers<TEvents, AppContext<TSpec, TResources, TTx, TReader>> {
  /** Definition of the app. */
  readonly definition: AppDefinition<TEvents, TSpec, TResources, TTx, TReader>;
  /** Store of its events. */
  readonly store: StoreDefinition<TTx, TReader>;
  /** Platforms that send the app's deliveries. */
  readonly platforms: readonly Platform[];
  /** True if a handler gets reports of dead events. */
  readonly reportsDead: boolean;
  /**
   * Adds a function around the handlers of every event: for timing, reporting of errors, tracing. The one
   * that was added first is the outermost. An error that it does not pass on counts as handled, and so does
   * an event whose handlers it does not call. For an event without handlers `next` does nothing. If it throws
   * although the handlers have succeeded, they may run again.
   *
   * @param middleware The function.
   * @returns The app.
   * @throws {TypeError} If it is not a function, or the app is open already.
   */
  use(middleware: EventMiddleware<AppParts<EnvOf<TSpec>, TResources>, TReader>): this;
  /**
   * Adds a further platform that sends deliveries to this app, at another path.
   *
   * @typeParam TOthers The payloads of its events, by type.
   * @param platform The platform, with a `name` and a `path` that no other one has.
   * @returns The registry of the handlers for its events.
   * @throws {TypeError} If it is not a platform, another one has its name, or the app is open already. If another
   * one has its path or reads its variables, the app does not open.
   */
  from<TOthers extends object>(
    platform: Platform<TOthers>,
  ): EventHandlers<TOthers, AppContext<TSpec, TResources, TTx, TReader>>;
  /**
   * Adds a source of events that the app's handlers emit.
   *
   * @typeParam TOthers The payloads of its events, by type.
   * @param source The source, with a `name` that no platform and no other source has. The same one may be
   * given again, and gets the same registry.
   * @returns The registry of the handlers for its events.
   * @throws {TypeError} If it is not what {@linkcode events} returns, another one or a platform has its name,
   * or the app is open already.
   */
  from<TOthers extends object>(
    source: OwnEvents<TOthers>,
  ): EventHandlers<TOthers, AppContext<TSpec, TResources, TTx, TReader>>;
  /**
   * Registers a handler for a report of each event that dies because its handler failed: for an alert, a
   * message, a ticket. By default an event dies 24 to 30 hours after its first attempt, unless its handler
   * throws a {@linkcode GiveUpError}: `worker.retry` changes that. The report is an event, stored in the
   * commit of the death, so the handler is called at least once, and tried again if it fails. No report is made
   * of dead reports, of what they emit, and of cancelled events. A report has the facts of the dead event without
   * its payload: outside of handlers, such as in a route, `store.load({ record })` reads that.
   *
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns The app.
   * @throws {TypeError} As {@linkcode EventRouter.on}, or if the app is open already.
   */
  onDead(
    handler: EventHandler<DeadEvent, AppContext<TSpec, TResources, TTx, TReader>>,
    options?: HandlerOptions,
  ): this;
  /** Rules by which failing events are reported to handlers. */
  readonly failingRules: readonly FailingRule[];
  /**
   * Registers a handler for a report of each event that fails again and again, in time for somebody to act before it is
   * dead. The report is an event, stored in the commit that notes the failed attempt: once for each run of the event,
   * so a replayed one is reported again. The handler is called at least once, and tried again if it fails. By then the
   * event may have ended: `store.get(id)` of the context tells. No report is made of reports, of what they emit, and of
   * an event that dies before; of several events that are handled together, the first one is reported.
   *
   * @param handler The handler.
   * @param options The rule, either `afterAttempts` or `afterMs`, and the options of a handler. A second handler with
   * the same rule needs an `id`.
   * @returns The app.
   * @throws {TypeError} As {@linkcode EventRouter.on}, if there is no rule or two, or the app is open already.
   * @throws {RangeError} If the number or the time is out of range, or there would be more than 10 rules.
   *
   * @example
   * ```ts
   * import { defineApp, github, sqlite } from "@org/edge-base";
   * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
   * import { assertEquals } from "@std/assert";
   *
   * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
   * const alerts: string[] = [];
   * bot.onFailing(({ payload: { id, attempts } }) => {
   *   alerts.push(`${id}: ${attempts.at(-1)?.error}`);
   * }, { afterAttempts: 2 });
   * bot.on("push", () => {
   *   throw new Error("The API is down");
   * });
   *
   * await using test = await startTestBot(bot);
   * await test.deliver(forgeDelivery("push", {}, { id: "d1" }), { expectFailure: true });
   * assertEquals(alerts, []);
   * await test.advance(60_000, { expectFailure: true });
   * assertEquals(alerts, ["github:d1: Error: The API is down"]);
   * ```
   */
  onFailing(
    handler: EventHandler<FailingEvent, AppContext<TSpec, TResources, TTx, TReader>>,
    options: FailingOptions,
  ): this;
  /** Schedules of the app. */
  readonly schedules: readonly Schedule[];
  /**
   * Adds a schedule: at each time of a cron expression, its slots, there is an event for the handler, and one
   * only, however many instances run. It is an event like any other: it is tried again, and has a time limit
   * and a place in the store. Its `platform`, `source` and `intake` are `schedule`, its payload is a
   * {@linkcode SlotPayload}, and `on`, `onAny` and `onOther` do not get it. The events of one schedule are handled one after
   * the other. While one goes on and the next waits, slots are left out, unless `missed` is `all`. A slot that passed while
   * no instance ran is handled later: it is made up. A new schedule begins now, and so does one whose expression or time
   * zone has changed, or which an instance has made slots of over five minutes ahead, since its clock was wrong. While two
   * versions run side by side, each makes its slots, and a time that both have is one event. Between slots nothing is read.
   * A slot costs each instance a read, and the one that makes it three more and three commits.
   *
   * @param name The name, which is the `type` of the events. Do not change it: the slots that were made are noted under it.
   * @param expression The cron expression: five fields, for minute, hour, day of the month, month and day of
   * the week, or a name such as `@daily`. There are no seconds, since each slot takes several commits.
   * @param handler The handler.
   * @param options The time zone, the handling of missed slots, and the handler's options.
   * @returns The app.
   * @throws {TypeError} If a part has the wrong type, there is a schedule of that name, a platform has the name
   * `schedule`, or the app is open already.
   * @throws {SyntaxError} If the expression does not have five fields. What else is wrong with it is thrown
   * when the app is opened, before anything else is.
   * @throws {RangeError} If the time zone is not known, or the time limit is out of range.
   *
   * @example
   * ```ts
   * import { defineApp, github, sqlite } from "@org/edge-base";
   * import { startTestBot } from "@org/edge-base/testing";
   * import { assertEquals } from "@std/assert";
   *
   * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
   * const sent: string[] = [];
   * bot.schedule("digest", "0 7 * * 1-5", ({ payload }) => void sent.push(payload.at), {
   *   timeZone: "Europe/Berlin",
   * });
   *
   * await using test = await startTestBot(bot);
   * await test.advance(7 * 86_400_000);
   * assertEquals(sent.length, 5);
   * ```
   */
  schedule(
    name: string,
    expression: string,
    handler: EventHandler<SlotPayload, AppContext<TSpec, TResources, TTx, TReader>>,
    options?: ScheduleOptions,
  ): this;
  /** True if it has a handler or a schedule. */
  readonly handlesEvents: boolean;
  /**
   * Makes the handler of the app's events.
   *
   * @param parts The parts that handlers get beside their context.
   * @returns The handler.
   */
  handlerWith(parts: AppParts<EnvOf<TSpec>, TResources>): EventHandler;
}

class DefinedApp<TEvents extends object, TSpec extends EnvSpec, TResources, TTx, TReader>
  extends Source<TEvents, AppContext<TSpec, TResources, TTx, TReader>>
  implements App<TEvents, TSpec, TResources, TTx, TReader> {
  readonly definition: AppDefinition<TEvents, TSpec, TResources, TTx, TReader>;
  readonly store: StoreDefinition<TTx, TReader>;
  readonly #sources: Source<object, AppContext<TSpec, TResources, TTx, TReader>>[];
  readonly #platforms: Platform[];
  #dead: Source<DeadEvents, AppContext<TSpec, TResources, TTx, TReader>> | undefined;
  #failing: Source<FailingEvents, AppContext<TSpec, TResources, TTx, TReader>> | undefined;
  readonly #failingRules = new Map<string, FailingRule>();
  readonly #middleware: EventMiddleware<AppParts<EnvOf<TSpec>, TResources>, TReader>[] = [];
  readonly #schedules: Schedule[] = [];
  readonly #ofSchedules = createEventRouter();

  constructor(
    definition: AppDefinition<TEvents, TSpec, TResources, TTx, TReader>,
    store: StoreDefinition<TTx, TReader>,
  ) {
    super(definition.platform);
    this.definition = Object.freeze({ ...definition });
    this.store = store;
    this.#sources = [
      this as unknown as Source<object, AppContext<TSpec, TResources, TTx, TReader>>,
    ];
    this.#platforms = [definition.platform];
  }

  get platforms(): readonly Platform[] {
    return [...this.#platforms];
  }

  get reportsDead(): boolean {
    return this.#dead !== undefined;
  }

  onDead(
    handler: EventHandler<DeadEvent, AppContext<TSpec, TResources, TTx, TReader>>,
    options?: HandlerOptions,
  ): this {
    this.checkOpen("register the handler");
    const dead = this.#dead ?? new Source({ name: DEAD, kind: OWN });
    dead.on(DEAD, handler, options);
    if (!this.#dead) this.#add(dead);
    this.#dead = dead;
    return this;
  }

  get failingRules(): readonly FailingRule[] {
    return [...this.#failingRules.values()];
  }

  onFailing(
    handler: EventHandler<FailingEvent, AppContext<TSpec, TResources, TTx, TReader>>,
    options: FailingOptions,
  ): this {
    const doing = "register the handler";
    this.checkOpen(doing);
    checkFailingRule(doing, options);
    const { afterAttempts, afterMs, ...ofHandler } = options;
    const rule = { afterAttempts, afterMs };
    const rules = new Set([...this.#failingRules.keys(), nameOfRule(rule)]);
    checkRuleCount(doing, rules.size);
    const failing = this.#failing ?? new Source({ name: FAILING, kind: OWN });
    failing.on(`${FAILING}.${nameOfRule(rule)}`, handler, ofHandler);
    if (!this.#failing) this.#add(failing);
    this.#failing = failing;
    this.#failingRules.set(nameOfRule(rule), rule);
    return this;
  }

  get schedules(): readonly Schedule[] {
    return [...this.#schedules];
  }

  schedule(
    name: string,
    expression: string,
    handler: EventHandler<SlotPayload, AppContext<TSpec, TResources, TTx, TReader>>,
    options: ScheduleOptions = {},
  ): this {
    this.checkOpen("add the schedule");
    checkScheduleName("add the schedule", name);
    const doing = `add the schedule '${name}'`;
    checkExpression(doing, expression);
    checkOptions(doing, options, {
      timeZone: (doing, _name, value) => checkTimeZone(doing, value),
      missed: oneOf("last", "none", "all"),
      ...{
        id: undefined,
        timeoutMs: undefined,
        concurrency: undefined,
        rate: undefined,
        retry: undefined,
      },
    });
    const { timeZone = "UTC", missed = "last", ...ofHandler } = options;
    if (this.#schedules.some((other) => other.name === name)) {
      throw new TypeError(`Cannot ${doing}: there is one of that name already`);
    }
    // The context that the app's handler passes on is the app's.
    this.#ofSchedules.on(name, handler as unknown as EventHandler, ofHandler);
    this.#schedules.push(
      Object.freeze({ name, expression: normalized(expression), timeZone, missed }),
    );
    return this;
  }

  use(middleware: EventMiddleware<AppParts<EnvOf<TSpec>, TResources>, TReader>): this {
    this.checkOpen("add the middleware");
    checkFunction("add the middleware", "middleware", middleware);
    this.#middleware.push(middleware);
    return this;
  }

  from<TOthers extends object>(
    origin: Platform<TOthers> | OwnEvents<TOthers>,
  ): EventHandlers<TOthers, AppContext<TSpec, TResources, TTx, TReader>> {
    const isOwn = isOwnEvents(origin);
    const doing = `add the ${isOwn ? "source" : "platform"}`;
    this.checkOpen(doing);
    if (isOwn) checkSource(doing, origin.name);
    else checkPlatform(doing, origin);
    const other = this.#sources.find((each) => each.origin.name === origin.name);
    if (isOwn && other?.origin === origin) {
      return other as unknown as Source<TOthers, AppContext<TSpec, TResources, TTx, TReader>>;
    }
    if (other) {
      const what = other.origin.kind === OWN ? "source" : "platform";
      throw new TypeError(
        `Cannot ${doing}: a ${what} of this app has the name ${
          met(origin.name)
        }. Give this one its own`,
      );
    }
    if (!isOwn) this.#platforms.push(origin);
    return this.#add(new Source<TOthers, AppContext<TSpec, TResources, TTx, TReader>>(origin));
  }

  #add<TOthers extends object>(
    source: Source<TOthers, AppContext<TSpec, TResources, TTx, TReader>>,
  ): Source<TOthers, AppContext<TSpec, TResources, TTx, TReader>> {
    this.#sources.push(
      source as unknown as Source<object, AppContext<TSpec, TResources, TTx, TReader>>,
    );
    return source;
  }

  get handlesEvents(): boolean {
    return this.#schedules.length > 0 || this.#sources.some(({ hasHandlers }) => hasHandlers);
  }

  handlerWith(parts: AppParts<EnvOf<TSpec>, TResources>): EventHandler {
    const sources = [...this.#sources];
    for (const source of sources) source.open();
    const middleware = [...this.#middleware];
    const { strict = false } = this.definition;
    const platforms = new Set(this.#platforms.map(({ name }) => name));
    const handleEvent: EventHandler = async (event, context) => {
      const handle = handlerOf(sources, this.#ofSchedules.handle, event);
      runOf(context)?.refuseSources(platforms);
      const own = { ...context, ...parts };
      // By the store that the app is opened with.
      const db = context.db as TReader;
      const { signal, log } = context;
      try {
        if (middleware.length === 0) return void await handle(event, own);
        await runAround(middleware, event, { signal, log, db, ...parts }, () => handle(event, own));
      } catch (error) {
        if (strict && error instanceof NoHandler) throw error.strictly();
        throw error;
      }
    };
    return Object.assign(handleEvent, {
      [HANDLES]: () => [
        ...sources.flatMap(({ origin, handle }) => handledOf(origin, handle)),
        ...handledOf({ name: SCHEDULE, kind: SCHEDULE }, this.#ofSchedules.handle),
      ],
      [PLAN]: plansOf(sources, this.#ofSchedules.handle),
      [HANDLERS]: (event: NamedEvent) => handlersIn(sources, event),
    });
  }
}

/**
 * Context that an app's handlers get, for a function of your own: `ContextOf<typeof bot>`.
 *
 * @typeParam TApp The app.
 *
 * @example
 * ```ts
 * import { type ContextOf, defineApp, github, sqlite } from "@org/edge-base";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("push", (_event, context) => note("push", context));
 *
 * function note(what: string, { settleWith }: ContextOf<typeof bot>) {
 *   settleWith((db) => db.prepare("insert into seen values (?)").run(what));
 * }
 * ```
 *
 * @category Handlers
 */
export type ContextOf<TApp extends App> = TApp extends
  App<infer _TEvents, infer TSpec, infer TResources, infer TTx, infer TReader>
  ? AppContext<TSpec, TResources, TTx, TReader>
  : never;

/**
 * Defines an app: its platform, variables, resources and routes, without reading or opening any.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @param definition The definition.
 * @returns The app. Register its handlers, then give it to {@linkcode runApp}.
 * @throws {TypeError} If a part of the definition has the wrong type.
 * @throws {RangeError} If a number is out of its range.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({
 *   name: "triage",
 *   platform: github(),
 *   store: sqlite(),
 *   resources: () => ({ titles: [] as string[] }),
 *   routes: (app, { resources }) => app.get("/titles", (c) => c.json(resources.titles)),
 * });
 * bot.on("issues.opened", ({ payload }, { resources }) => {
 *   resources.titles.push(payload.issue.title);
 * });
 * // if (import.meta.main) await runApp(bot);
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(forgeDelivery("issues", { action: "opened", issue: { title: "Help" } }));
 * assertEquals(await (await test.fetch("/titles")).json(), ["Help"]);
 * ```
 *
 * @category Apps
 */
export function defineApp<
  TEvents extends object,
  const TSpec extends EnvSpec = Record<never, never>,
  TResources = undefined,
  TTx = KvCommit,
  TReader = Deno.Kv,
>(
  definition: AppDefinition<TEvents, TSpec, TResources, TTx, TReader>,
): App<TEvents, TSpec, TResources, TTx, TReader> {
  checkDefinition(definition);
  // An app without a store has a KV: so its types are by default, too.
  const { store = kv() as StoreDefinition as StoreDefinition<TTx, TReader> } = definition;
  return new DefinedApp(definition, store);
}
