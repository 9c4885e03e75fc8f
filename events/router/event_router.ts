import {
  checkBoolean,
  checkOptions,
  MAX_TIMER_MS,
  met,
  type OptionCheck,
  wholeNumber,
} from "../../core/check_options.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import type { EventStore, HandledEvents, StoreDefinition } from "../store/mod.ts";
import { ANY, isAction, namesOf } from "../store/processes.ts";
import {
  type DescribedHandler,
  type EventHandler,
  type HandlerContext,
  HANDLERS,
  handlersOf,
  HANDLES,
  type NamedEvent,
  NoHandler,
  type WebhookEvent,
} from "../worker/event.ts";
import { ConcurrencyLimit } from "../worker/concurrency_limit.ts";
import { checkRate, type RateOptions } from "../worker/rate_limit.ts";
import { type HandlerPlan, PLAN, type PlannedHandler } from "../worker/handler_plans.ts";
import { checkRetryPolicy, type RetryPolicy } from "../worker/retry_policy.ts";
import { handleAll, type NamedHandler, planRuns } from "./_handle_all.ts";
import type { EventName, EventPayload } from "./event_types.ts";

/**
 * Options of a handler.
 *
 * @category Handlers
 */
export interface HandlerOptions {
  /**
   * Identifies the handler in all versions of the bot: up to 64 letters, digits, `.`, `_`, `:` or `-`.
   * No other handler of the router has it. If you change it, events that are tried again treat this as a
   * new handler.
   *
   * @default {undefined} The name that the handler is registered for identifies it.
   */
  readonly id?: string | undefined;
  /**
   * Time limit of the handler, in milliseconds, instead of the worker's
   * {@linkcode WorkerOptions.timeoutMs}. Then its own `signal` is aborted. The event's place is free once all
   * of its handlers have ended or reached their limits. In a router that is a handler of another router it
   * counts only where that one has no other handler for the event.
   *
   * @default {undefined} The worker's.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Largest number of the handler's runs at once, in this process: each process has its own. An event of which a
   * handler has as many runs as it may waits as a whole, without an attempt, and takes no place of the worker. Some
   * wait in memory; the others go back to the schedule for a second, and later for up to a minute, where another
   * process may take them. Events without an ordering key may overtake each other by that. A run counts until its
   * handler has ended, also past its time limit.
   *
   * @default {undefined} As many as the worker runs.
   */
  readonly concurrency?: number | undefined;
  /**
   * Limit of how many events are begun for the handler in a time, by all processes together. An event for which there is
   * no room waits as a whole, as with `concurrency`: in memory if there will be room soon, and otherwise on the schedule.
   * An attempt that comes again, as after an error or a wait, counts again.
   *
   * @default {undefined} None.
   */
  readonly rate?: RateOptions | undefined;
  /**
   * Delays between the handler's attempts, and their number, instead of the worker's {@linkcode WorkerOptions.retry}.
   * What is left out is the worker's. If several handlers of an event have failed, it is tried again after the
   * longest of their delays, and dies once the attempts of all of them are used up. A handler whose attempts are used
   * up is not called any more while others are.
   *
   * @default {undefined} The worker's.
   */
  readonly retry?: RetryPolicy | undefined;
}

/**
 * Options of {@linkcode createEventRouter}.
 *
 * @category Handlers
 */
export interface RouterOptions {
  /**
   * Gives up events that have no handler, each as a dead event with its payload, and does not ignore them.
   *
   * @default {false}
   */
  readonly strict?: boolean | undefined;
}

/**
 * Values by which the compiler knows what the handlers of a router get.
 *
 * @typeParam TPlatform The platform.
 * @typeParam TTx The commit or transaction of the store, for effects.
 * @typeParam TReader The reader of the store, `db`.
 * @category Handlers
 */
export interface RouterTypes<TPlatform, TTx, TReader> {
  /**
   * Platform whose events it gets, such as `github()`.
   *
   * @default {undefined} Payloads are JSON objects.
   */
  readonly platform?: TPlatform | undefined;
  /**
   * Store of the events, or its value in an app, such as `kv()`.
   *
   * @default {undefined} The handlers are for any store: `db` and the commit have the type `unknown`.
   */
  readonly store?: EventStore<TTx, TReader> | StoreDefinition<TTx, TReader> | undefined;
}

/**
 * Payloads of a platform's events, by type.
 *
 * @typeParam TPlatform The platform.
 * @category Handlers
 */
export type EventsOf<TPlatform> = TPlatform extends { readonly events?: infer TEvents }
  ? NonNullable<TEvents>
  : never;

/**
 * A router that hands events to the handlers registered for them.
 *
 * An event that is tried again, perhaps by another version of the bot, is handed to those handlers that
 * have not succeeded yet. A handler is identified by its id, or else by the name that it is registered
 * for. So handlers can be moved, added, removed and renamed, and a second one for a name needs an id.
 *
 * @typeParam TEvents The payloads by type. By default there may be events of any name, and payloads are JSON
 * objects.
 * @typeParam TContext The context that its handlers get. By default it is that of any store.
 *
 * @example
 * ```ts
 * import { writeLog } from "@org/edge-base";
 * import { createEventRouter, type GithubEvents } from "@org/edge-base/router";
 * import { assertThrows } from "@std/assert";
 *
 * const router = createEventRouter<GithubEvents>()
 *   .on("push", ({ payload }, { log }) => writeLog(log, "info", "built", { ref: payload.ref }))
 *   .on("push", (_event, { log }) => writeLog(log, "info", "mirrored"), { id: "mirror" });
 *
 * // A retry could not tell it from the first one.
 * assertThrows(() => router.on("push", () => {}), TypeError, "Give this one an id of its own");
 * ```
 *
 * @category Handlers
 */
export interface EventRouter<
  TEvents = Record<string, JsonObject>,
  TContext extends HandlerContext = HandlerContext,
> {
  /**
   * Registers a handler for events of a type (`issues`), or of a type and an action (`issues.opened`).
   * GitLab sends the action in `object_attributes`. A type may contain dots (`invoice.paid`).
   *
   * Without an id the handler is identified by the name under which the event came, so names can be added
   * to it and removed.
   *
   * @param names The name, or several.
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns The router.
   * @throws {TypeError} If the handler is not a function, the name is missing, the id is malformed or another
   * handler's, or there is another handler without an id for one of the names.
   * @throws {RangeError} If the time limit is out of range.
   */
  on<TName extends EventName<TEvents>>(
    names: TName | readonly TName[],
    handler: EventHandler<EventPayload<TEvents, TName>, TContext>,
    options?: HandlerOptions,
  ): EventRouter<TEvents, TContext>;
  /**
   * Registers a handler for all events, in addition to their own handlers.
   *
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns The router.
   * @throws {TypeError} If the handler is not a function, the id is malformed or another handler's, or there
   * is another handler without an id for all events.
   * @throws {RangeError} If the time limit is out of range.
   */
  onAny(
    handler: EventHandler<JsonObject, TContext>,
    options?: HandlerOptions,
  ): EventRouter<TEvents, TContext>;
  /**
   * Registers a handler for the events that have none by {@linkcode EventRouter.on}.
   *
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns The router.
   * @throws {TypeError} If the handler is not a function, the id is malformed or another handler's, or there
   * is another handler without an id for these events.
   * @throws {RangeError} If the time limit is out of range.
   */
  onOther(
    handler: EventHandler<JsonObject, TContext>,
    options?: HandlerOptions,
  ): EventRouter<TEvents, TContext>;
  /**
   * Hands an event to its handlers, all at the same time. Each succeeds or fails on its own: when one
   * fails, the event is tried again, and then only by those that have not succeeded.
   *
   * An event without a handler is put off while another process on the same store has one
   * ({@linkcode WorkerOptions.waitForHandlerMs}). Otherwise it is done, with the outcome `ignored`; its delivery is
   * accepted again if it is sent again. But if its handling has begun, because an earlier version of the bot had a handler, it is
   * given up: kept as dead with its payload, and logged, until it is replayed or purged.
   *
   * This is the handler for {@linkcode startWorker} and {@linkcode runApp}.
   */
  readonly handle: EventHandler<JsonObject, TContext>;
}

/** A handler of an event, with its registration. */
interface RoutedHandler extends NamedHandler {
  readonly route: Route;
}

interface Route {
  readonly handler: EventHandler;
  /** The events it is registered for: `on(push)`, `onAny` or `onOther`. */
  readonly events: ReadonlySet<string>;
  /** Its id, as the records of events have it. */
  readonly id: string | undefined;
  readonly timeoutMs: number | undefined;
  readonly retry: RetryPolicy | undefined;
  readonly limit: ConcurrencyLimit | undefined;
  readonly rate: RateOptions | undefined;
}

const DOING = "register the handler";

/** No `/` and no brackets, so that the progress of one handler is never taken for another's. */
const HANDLER_ID = /^[\w.:-]{1,64}$/;

const checkId: OptionCheck = (doing, _name, id) => {
  if (typeof id === "string" && HANDLER_ID.test(id)) return;
  const wanted = "the id must be 1 to 64 letters, digits, '.', '_', ':' or '-'";
  throw new TypeError(`Cannot ${doing}: ${wanted}, got ${met(id)}`);
};

const HANDLER_CHECKS = {
  id: checkId,
  timeoutMs: wholeNumber({ max: MAX_TIMER_MS }),
  concurrency: wholeNumber(),
  rate: checkRate,
  retry: checkRetryPolicy,
};

/** Names are types of events, perhaps with an action: no event would ever match `*` or `issues opened`. */
const NAME = /^[\w.:[\]-]{1,202}$/;

/**
 * Creates a router: a handler that hands each event to those registered for its type. An app of `defineApp` has one,
 * `bot.on`. You need this in an app that is composed by hand, or for handlers that several apps share:
 * `bot.onAny(router.handle, { id: "shared" })`.
 *
 * @typeParam TEvents The payloads by type: {@linkcode GithubEvents}, {@linkcode GitlabEvents},
 * {@linkcode ForgeEvents}, {@linkcode TelegramEvents} or your own. By default there may be events of any name,
 * and payloads are JSON objects.
 * @typeParam TContext The context that its handlers get, such as `ContextOf<typeof bot>`. By default it is that of
 * any store.
 * @param options `strict`: false ignores events without a handler, true gives them up.
 * @returns The router, without handlers.
 * @throws {TypeError} If an option has the wrong type.
 *
 * @example
 * ```ts
 * import { createEventRouter, writeLog } from "@org/edge-base";
 * import type { GithubEvents } from "@org/edge-base/router";
 *
 * const router = createEventRouter<GithubEvents>()
 *   .on("push", ({ payload }, { log }) => writeLog(log, "info", "pushed", { ref: payload.ref }))
 *   .onAny(({ type, sender }, { log }) => writeLog(log, "info", "received", { type, sender }));
 * ```
 *
 * @category Handlers
 */
export function createEventRouter<
  TEvents extends object = Record<string, JsonObject>,
  TContext extends HandlerContext = HandlerContext,
>(options?: RouterOptions): EventRouter<TEvents, TContext>;
/**
 * Creates a router whose handlers are typed by values: payloads by the platform; `settleWith` and `db` by
 * the store. They are not used otherwise: the router's events come from the worker that it is given to.
 *
 * @typeParam TTx The commit or transaction of the store, for effects.
 * @typeParam TReader The reader of the store, `db`.
 * @typeParam TPlatform The platform.
 * @param options The platform, the store, and `strict`: false ignores events without a handler, true gives them up.
 * @returns The router, without handlers.
 * @throws {TypeError} If an option has the wrong type.
 *
 * @example
 * ```ts
 * import { createEventRouter, github, openEventStore, startWorker } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const router = createEventRouter({ platform: github(), store })
 *   .on("push", ({ payload }, { settleWith }) => {
 *     settleWith((commit) => commit.set(["last"], payload.ref));
 *   });
 * const worker = startWorker(store, router.handle);
 *
 * const ids = { platform: "forge", source: "github", deliveryId: "72d3162e" };
 * const payload = { ref: "main" };
 * const body = new TextEncoder().encode(JSON.stringify(payload));
 * await store.accept({ ...ids, type: "push", body, payload });
 * await worker.poll();
 * assertEquals((await kv.get(["last"])).value, "main");
 * await worker.stop();
 * ```
 */
export function createEventRouter<
  TTx,
  TReader,
  TPlatform extends object = { readonly events?: Record<string, JsonObject> },
>(
  options: RouterOptions & RouterTypes<TPlatform, TTx, TReader>,
): EventRouter<EventsOf<TPlatform>, HandlerContext<TTx, TReader>>;
export function createEventRouter(
  options: RouterOptions & Partial<RouterTypes<object, unknown, unknown>> = {},
): EventRouter {
  checkOptions("create the router", options, ROUTER_CHECKS);
  return new HandlerTable(options.strict ?? false);
}

const ROUTER_CHECKS = { strict: checkBoolean, platform: undefined, store: undefined };

class HandlerTable<TEvents, TContext extends HandlerContext>
  implements EventRouter<TEvents, TContext> {
  readonly #routes: Route[] = [];
  readonly #keys = new Set<string>();
  /** The events that there are handlers for by name: `on(push)`. */
  readonly #events = new Set<string>();
  /** The handlers of events, by the names that lead to them. */
  readonly #found = new Map<string, readonly RoutedHandler[]>();
  /** Plans of the handlers that are routers. */
  readonly #inner: HandlerPlan[] = [];
  #isLimited = false;
  readonly #isStrict: boolean;

  constructor(isStrict: boolean) {
    this.#isStrict = isStrict;
  }

  on<TName extends EventName<TEvents>>(
    names: TName | readonly TName[],
    handler: EventHandler<EventPayload<TEvents, TName>, TContext>,
    options?: HandlerOptions,
  ): this {
    const all = [names].flat() as readonly string[];
    if (all.length === 0 || !all.every(isName)) {
      throw new TypeError(
        `Cannot ${DOING}: it must be for the name of an event, or an array of names, ` +
          `got ${met(names)}`,
      );
    }
    if (options?.id === undefined) checkNames(all);
    return this.#add(all.map((name) => `on(${name})`), handler, options);
  }

  onAny(handler: EventHandler<JsonObject, TContext>, options?: HandlerOptions): this {
    return this.#add(["onAny"], handler, options);
  }

  onOther(handler: EventHandler<JsonObject, TContext>, options?: HandlerOptions): this {
    return this.#add(["onOther"], handler, options);
  }

  readonly handle: EventHandler<JsonObject, TContext> = Object.assign(this.#handle.bind(this), {
    [HANDLES]: () => this.#handles(),
    [PLAN]: this.#plan(),
    [HANDLERS]: (event: NamedEvent) => this.#handlersOf(event),
  });

  #plan(): HandlerPlan {
    const hasLimits = () => this.#hasLimits;
    return {
      get hasLimits() {
        return hasLimits();
      },
      runs: (event, retry) => planRuns(this.#named(event), event, retry),
    };
  }

  get #hasLimits(): boolean {
    return this.#isLimited || this.#inner.some((plan) => plan.hasLimits);
  }

  async #handle(event: WebhookEvent, context: TContext): Promise<void> {
    // All events of a batch have the same handlers. Their keys must not change if the latest event is cancelled.
    const { batch = [event] } = event;
    const [first = event] = batch;
    if (batch.length > 1) this.#checkTogether(first, batch);
    const handlers = this.#named(first);
    if (handlers.length === 0) {
      throw new NoHandler(namesOf(first)[0]!, { isStrict: this.#isStrict });
    }
    await handleAll(handlers, event, context);
  }

  /**
   * Refuses events that other handlers take than the first one. The worker does not have them handled together unless
   * a function between it and this router hides the handlers.
   */
  #checkTogether(first: WebhookEvent, others: readonly WebhookEvent[]): void {
    const handlers = this.#handlersOf(first);
    for (const other of others) {
      if (other.type === first.type && other.action === first.action) continue;
      const its = this.#handlersOf(other);
      if (its.length === handlers.length && its.every((each, i) => each === handlers[i])) continue;
      throw new Error(
        `Cannot handle ${namesOf(first)[0]} and ${
          namesOf(other)[0]
        } together: they have different handlers. ` +
          "Give the router's `handle` itself to the worker or to another router, and not a function that calls it",
      );
    }
  }

  /** Finds the handlers of an event, with their keys. */
  #named(event: Pick<NamedEvent, "type" | "action">): readonly RoutedHandler[] {
    const own = namesOf(event).map((name) => `on(${name})`).filter((on) => this.#events.has(on));
    const wanted = own.length > 0 ? [...own, "onAny"] : ["onAny", "onOther"];
    const names = wanted.join();
    const found = this.#found.get(names) ?? this.#find(wanted);
    this.#found.set(names, found);
    return found;
  }

  /** Finds the handlers that are registered for one of several names. The first name counts. */
  #find(wanted: readonly string[]): RoutedHandler[] {
    return this.#routes.flatMap((route) => {
      const { id, events, ...handler } = route;
      const match = wanted.find((each) => events.has(each));
      return match === undefined ? [] : { key: id ?? match, ...handler, route };
    });
  }

  /** Lists the handlers of an event, and those of routers among them. */
  #handlersOf(event: NamedEvent): readonly unknown[] {
    return this.#named(event).flatMap(({ handler, route }) => {
      const inner = handlersOf(handler, event);
      return inner.length === 0 ? [] : [route, ...inner];
    });
  }

  /** Lists the events that have a handler. If another router handles all events, its list counts. */
  #handles(): readonly HandledEvents[] {
    /** Names by the time limits of their handlers. */
    const named = new Map<number | undefined, Set<string>>();
    const inner: HandledEvents[] = [];
    for (const { events, handler, timeoutMs } of this.#routes) {
      for (const each of events) {
        const [, name] = /^on\((.*)\)$/.exec(each) ?? [];
        const describe = name === undefined && (handler as DescribedHandler)[HANDLES];
        if (describe) inner.push(...describe());
        else named.set(timeoutMs, (named.get(timeoutMs) ?? new Set()).add(name ?? ANY));
      }
    }
    const own = [...named].map(([timeoutMs, names]) => ({
      names: [...names].sort(),
      ...(timeoutMs !== undefined && { timeoutMs }),
    }));
    return [...own, ...inner];
  }

  #add<TPayload>(
    events: readonly string[],
    handler: EventHandler<TPayload, TContext>,
    options: HandlerOptions = {},
  ): this {
    if (typeof handler !== "function") {
      throw new TypeError(`Cannot ${DOING}: it must be a function, got ${met(handler)}`);
    }
    checkOptions(DOING, options, HANDLER_CHECKS);
    const { timeoutMs, retry, concurrency, rate } = options;
    const limit = concurrency === undefined ? undefined : new ConcurrencyLimit(concurrency);
    const id = options.id === undefined ? undefined : `id(${options.id})`;
    // Only the events it is registered for, and contexts of its router, reach it.
    const own = handler as unknown as EventHandler;
    const shared = { id, timeoutMs, retry, limit, rate: rate && { ...rate } };
    const route: Route = { handler: own, events: new Set(events), ...shared };
    const keys = id === undefined ? [...route.events] : [id];
    const taken = keys.find((key) => this.#keys.has(key));
    if (taken !== undefined) {
      const reason = taken === id
        ? `the id ${JSON.stringify(options.id)} is another handler's`
        : `there is one for ${taken} already, and a retry could not tell them apart. Give this one ` +
          'an id of its own: { id: "..." }';
      throw new TypeError(`Cannot ${DOING}: ${reason}`);
    }
    this.#routes.push(route);
    const plan = (own as PlannedHandler)[PLAN];
    if (plan) this.#inner.push(plan);
    if (limit || rate) this.#isLimited = true;
    for (const key of keys) this.#keys.add(key);
    for (const each of events) this.#events.add(each);
    this.#found.clear();
    return this;
  }
}

/** Refuses two names that one event can have, for a handler that they identify. */
function checkNames(names: readonly string[]): void {
  for (const name of names) {
    const type = names.find((each) => isTypeIn(name, each));
    if (type === undefined) continue;
    const action = name.slice(type.length + 1);
    throw new TypeError(
      `Cannot ${DOING}: an event of the type ${type} with the action ${action} has both of ` +
        `the names ${type} and ${name}, and a later version could not tell by which it was handled. ` +
        'Give the handler an id of its own: { id: "..." }',
    );
  }
}

/**
 * Checks whether a name can be one of a type and an action. Both may have dots, so `invoice.paid.late` is of the type
 * `invoice` as well as of `invoice.paid`, and can be a type itself.
 */
function isTypeIn(name: string, type: string): boolean {
  return name.startsWith(`${type}.`) && isAction(name.slice(type.length + 1));
}

function isName(name: unknown): boolean {
  return typeof name === "string" && NAME.test(name);
}
