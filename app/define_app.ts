import { checkFunction, checkOptions, met, oneOf } from "../core/check_options.ts";
import type { EnvOf, EnvSpec } from "../core/env.ts";
import {
  createEventRouter,
  type DeadEvent,
  type EventHandler,
  type HandlerOptions,
  type OwnEvents,
} from "../events/mod.ts";
import { checkSource, DEAD, OWN, SCHEDULE } from "../events/store/emission.ts";
import { HANDLES, NoHandler } from "../events/worker/event.ts";
import { runOf } from "../events/worker/handler_run.ts";
import {
  checkExpression,
  checkScheduleName,
  checkTimeZone,
  normalized,
  type Schedule,
  type SlotPayload,
} from "../events/schedules/mod.ts";
import { checkPlatform } from "../webhook/platform.ts";
import type { Platform } from "../webhook/mod.ts";
import { type AppDefinition, checkDefinition, type ScheduleOptions } from "./definition.ts";
import {
  type AppEventHandler,
  type EventHandlers,
  handledOf,
  handlerOf,
  Source,
} from "./event_handlers.ts";
import { type AppParts, type EventMiddleware, runAround } from "./event_middleware.ts";
import { isOwnEvents } from "./own_events.ts";

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
 * @category Apps
 */
export interface App<
  // deno-lint-ignore no-explicit-any -- `App` alone stands for any app: with `unknown` it would be one without
  TEvents extends object = any,
  // deno-lint-ignore no-explicit-any -- as above
  TSpec extends EnvSpec = any,
  // deno-lint-ignore no-explicit-any -- as above
  TResources = any,
> extends EventHandlers<TEvents, AppParts<EnvOf<TSpec>, TResources>> {
  /** Definition of the app. */
  readonly definition: AppDefinition<TEvents, TSpec, TResources>;
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
  use(middleware: EventMiddleware<AppParts<EnvOf<TSpec>, TResources>>): this;
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
  ): EventHandlers<TOthers, AppParts<EnvOf<TSpec>, TResources>>;
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
  ): EventHandlers<TOthers, AppParts<EnvOf<TSpec>, TResources>>;
  /**
   * Registers a handler for a report of each event that dies because its handler failed: for an alert, a
   * message, a ticket. By default an event dies 24 to 30 hours after its first attempt, unless its handler
   * throws a {@linkcode GiveUpError}: `worker.retry` changes that. The report is an event, stored in the
   * commit of the death, so the handler is called at least once, and tried again if it fails. No report is made
   * of dead reports, of what they emit, and of cancelled events. A report has the facts of the dead event without
   * its payload: outside of handlers, such as in a route, `store.load({ record })` reads that.
   *
   * @param handler The handler.
   * @param options Its id and its time limit.
   * @returns The app.
   * @throws {TypeError} As {@linkcode EventRouter.on}, or if the app is open already.
   */
  onDead(
    handler: AppEventHandler<DeadEvent, AppParts<EnvOf<TSpec>, TResources>>,
    options?: HandlerOptions,
  ): this;
  /** Schedules of the app. */
  readonly schedules: readonly Schedule[];
  /**
   * Adds a schedule: at each time of a cron expression, its slots, there is an event for the handler, and one
   * only, however many instances run. It is an event like any other: it is tried again, and has a time limit
   * and a place in the store. The events of one schedule are handled one after the other, so a slow one delays
   * the next. A slot that passed while no instance ran is made up. A new schedule begins now, and so does one
   * whose expression or time zone has changed.
   *
   * @param name The name, which is the `type` of the events. Do not change it: it tells which slots are made already.
   * @param expression The cron expression: five fields, for minute, hour, day of the month, month and day of
   * the week, or a name such as `@daily`.
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
   * import { defineApp, github } from "@org/edge-base";
   * import { startTestBot } from "@org/edge-base/testing";
   * import { assertEquals } from "@std/assert";
   *
   * const bot = defineApp({ name: "my-bot", platform: github() });
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
    handler: AppEventHandler<SlotPayload, AppParts<EnvOf<TSpec>, TResources>>,
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

class DefinedApp<TEvents extends object, TSpec extends EnvSpec, TResources>
  extends Source<TEvents, AppParts<EnvOf<TSpec>, TResources>>
  implements App<TEvents, TSpec, TResources> {
  readonly definition: AppDefinition<TEvents, TSpec, TResources>;
  readonly #sources: Source<object, AppParts<EnvOf<TSpec>, TResources>>[];
  readonly #platforms: Platform[];
  #dead: Source<DeadEvents, AppParts<EnvOf<TSpec>, TResources>> | undefined;
  readonly #middleware: EventMiddleware<AppParts<EnvOf<TSpec>, TResources>>[] = [];
  readonly #schedules: Schedule[] = [];
  readonly #ofSchedules = createEventRouter();

  constructor(definition: AppDefinition<TEvents, TSpec, TResources>) {
    super(definition.platform);
    this.definition = Object.freeze({ ...definition });
    this.#sources = [this as unknown as Source<object, AppParts<EnvOf<TSpec>, TResources>>];
    this.#platforms = [definition.platform];
  }

  get platforms(): readonly Platform[] {
    return [...this.#platforms];
  }

  get reportsDead(): boolean {
    return this.#dead !== undefined;
  }

  onDead(
    handler: AppEventHandler<DeadEvent, AppParts<EnvOf<TSpec>, TResources>>,
    options?: HandlerOptions,
  ): this {
    this.checkOpen("register the handler");
    const dead = this.#dead ?? new Source({ name: DEAD, kind: OWN });
    dead.on(DEAD, handler, options);
    if (!this.#dead) this.#add(dead);
    this.#dead = dead;
    return this;
  }

  get schedules(): readonly Schedule[] {
    return [...this.#schedules];
  }

  schedule(
    name: string,
    expression: string,
    handler: AppEventHandler<SlotPayload, AppParts<EnvOf<TSpec>, TResources>>,
    options: ScheduleOptions = {},
  ): this {
    this.checkOpen("add the schedule");
    checkScheduleName("add the schedule", name);
    const doing = `add the schedule '${name}'`;
    checkExpression(doing, expression);
    checkOptions(doing, options, {
      timeZone: (doing, _name, value) => checkTimeZone(doing, value),
      missed: oneOf("last", "none", "all"),
      ...{ id: undefined, timeoutMs: undefined },
    });
    const { timeZone = "UTC", missed = "last", id, timeoutMs } = options;
    if (this.#schedules.some((other) => other.name === name)) {
      throw new TypeError(`Cannot ${doing}: there is one of that name already`);
    }
    // The context that the app's handler passes on holds the app's parts as well.
    this.#ofSchedules.on(name, handler as unknown as EventHandler, { id, timeoutMs });
    this.#schedules.push(
      Object.freeze({ name, expression: normalized(expression), timeZone, missed }),
    );
    return this;
  }

  use(middleware: EventMiddleware<AppParts<EnvOf<TSpec>, TResources>>): this {
    this.checkOpen("add the middleware");
    checkFunction("add the middleware", "middleware", middleware);
    this.#middleware.push(middleware);
    return this;
  }

  from<TOthers extends object>(
    origin: Platform<TOthers> | OwnEvents<TOthers>,
  ): EventHandlers<TOthers, AppParts<EnvOf<TSpec>, TResources>> {
    const isOwn = isOwnEvents(origin);
    const doing = `add the ${isOwn ? "source" : "platform"}`;
    this.checkOpen(doing);
    if (isOwn) checkSource(doing, origin.name);
    else checkPlatform(doing, origin);
    const other = this.#sources.find((each) => each.origin.name === origin.name);
    if (isOwn && other?.origin === origin) {
      return other as unknown as Source<TOthers, AppParts<EnvOf<TSpec>, TResources>>;
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
    return this.#add(new Source<TOthers, AppParts<EnvOf<TSpec>, TResources>>(origin));
  }

  #add<TOthers extends object>(
    source: Source<TOthers, AppParts<EnvOf<TSpec>, TResources>>,
  ): Source<TOthers, AppParts<EnvOf<TSpec>, TResources>> {
    this.#sources.push(source as unknown as Source<object, AppParts<EnvOf<TSpec>, TResources>>);
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
      const { signal, log, kv } = context;
      try {
        if (middleware.length === 0) return void await handle(event, own);
        await runAround(middleware, event, { signal, log, kv, ...parts }, () => handle(event, own));
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
    });
  }
}

/**
 * Defines an app: its platform, variables, resources and routes, without reading or opening any.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @param definition The definition.
 * @returns The app. Register its handlers, then give it to {@linkcode runApp}.
 * @throws {TypeError} If a part of the definition has the wrong type.
 * @throws {RangeError} If a number is out of its range.
 *
 * @example
 * ```ts
 * import { defineApp, github } from "@org/edge-base";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({
 *   name: "triage",
 *   platform: github(),
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
>(definition: AppDefinition<TEvents, TSpec, TResources>): App<TEvents, TSpec, TResources> {
  checkDefinition(definition);
  return new DefinedApp(definition);
}
