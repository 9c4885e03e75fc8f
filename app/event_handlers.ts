import type { EnvOf, EnvSpec } from "../core/env.ts";
import {
  createEventRouter,
  type EventHandler,
  type EventName,
  type EventPayload,
  type EventRouter,
  type HandlerContext,
  type HandlerOptions,
  type RetryPolicy,
  type WebhookEvent,
} from "../events/mod.ts";
import { OWN, platformRefused, SCHEDULE } from "../events/store/emission.ts";
import type { HandledEvents } from "../events/store/mod.ts";
import {
  type DescribedHandler,
  handlersOf,
  HANDLES,
  type NamedEvent,
  NoSource,
} from "../events/worker/event.ts";
import {
  type HandlerPlan,
  PLAN,
  type PlannedEvent,
  type PlannedHandler,
} from "../events/worker/handler_plans.ts";
import type { JsonObject } from "../webhook/mod.ts";
import type { AppParts } from "./event_middleware.ts";

/**
 * Context of an app's handlers: beside the context of any handler it has the app's parts.
 *
 * @typeParam TSpec The descriptions of the app's variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @category Apps
 */
export type AppContext<TSpec extends EnvSpec, TResources, TTx, TReader> =
  & HandlerContext<TTx, TReader>
  & AppParts<EnvOf<TSpec>, TResources>;

/**
 * Registry of the handlers for one platform's events, see {@linkcode EventRouter}.
 *
 * @typeParam TEvents The payloads by type.
 * @typeParam TContext The context that they get.
 * @category Apps
 */
export interface EventHandlers<TEvents extends object, TContext extends HandlerContext> {
  /**
   * Registers a handler for events of a type (`issues`), or of a type and an action (`issues.opened`).
   *
   * @param names The name, or several.
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns This.
   * @throws {TypeError} As {@linkcode EventRouter.on}, or if the app is open already.
   */
  on<TName extends EventName<TEvents>>(
    names: TName | readonly TName[],
    handler: EventHandler<EventPayload<TEvents, TName>, TContext>,
    options?: HandlerOptions,
  ): this;
  /**
   * Registers a handler for all events, in addition to their own handlers.
   *
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns This.
   * @throws {TypeError} As {@linkcode EventRouter.onAny}, or if the app is open already.
   */
  onAny(handler: EventHandler<JsonObject, TContext>, options?: HandlerOptions): this;
  /**
   * Registers a handler for the events that no `on` takes.
   *
   * @param handler The handler.
   * @param options The options of the handler.
   * @returns This.
   * @throws {TypeError} As {@linkcode EventRouter.onOther}, or if the app is open already.
   */
  onOther(handler: EventHandler<JsonObject, TContext>, options?: HandlerOptions): this;
}

/** Name and kind of what events come from: a platform, or the app itself. */
export interface Origin {
  readonly name: string;
  readonly kind: string;
  /** Policy by which its events are tried again if the app has none. */
  readonly retry?: RetryPolicy | undefined;
}

/** Platform, or source of the app's events, with the router for its events. */
export class Source<TEvents extends object, TContext extends HandlerContext>
  implements EventHandlers<TEvents, TContext> {
  /** Origin of the events. */
  readonly origin: Origin;
  #hasHandlers = false;
  readonly #router: EventRouter<TEvents, TContext>;
  #isOpened = false;

  constructor(origin: Origin) {
    this.origin = origin;
    this.#router = createEventRouter<TEvents, TContext>();
  }

  /** True once it has a handler. */
  get hasHandlers(): boolean {
    return this.#hasHandlers;
  }

  /** Refuses handlers from now on: they would be left out. */
  open(): void {
    this.#isOpened = true;
  }

  /** Checks that the app has not been opened: handlers added later would be left out. */
  protected checkOpen(doing: string): void {
    if (!this.#isOpened) return;
    throw new TypeError(
      `Cannot ${doing}: the app is open already. Do that before you run or open it`,
    );
  }

  get #adding(): EventRouter<TEvents, TContext> {
    this.checkOpen("register the handler");
    return this.#router;
  }

  /** Hands an event to its handlers. */
  get handle(): EventHandler {
    // The context that the app's handler passes on is the app's.
    return this.#router.handle as unknown as EventHandler;
  }

  on<TName extends EventName<TEvents>>(
    names: TName | readonly TName[],
    handler: EventHandler<EventPayload<TEvents, TName>, TContext>,
    options?: HandlerOptions,
  ): this {
    this.#adding.on(names, handler, options);
    this.#hasHandlers = true;
    return this;
  }

  onAny(handler: EventHandler<JsonObject, TContext>, options?: HandlerOptions): this {
    this.#adding.onAny(handler, options);
    this.#hasHandlers = true;
    return this;
  }

  onOther(handler: EventHandler<JsonObject, TContext>, options?: HandlerOptions): this {
    this.#adding.onOther(handler, options);
    this.#hasHandlers = true;
    return this;
  }
}

/**
 * Lists the events that a handler has handlers for.
 *
 * @param origin The origin of all of its events.
 * @param handle The handler, of a router.
 * @returns The events.
 */
export function handledOf({ name, kind }: Origin, handle: EventHandler): HandledEvents[] {
  const handled = (handle as DescribedHandler)[HANDLES]?.() ?? [];
  return handled.map((each) => ({ ...each, intake: name, platform: kind }));
}

/** Lists the handlers of an event: those of the platform or source that stored it, none if the app has neither. */
export function handlersIn(
  sources: readonly { readonly origin: Origin; readonly handle: EventHandler }[],
  event: NamedEvent,
): readonly unknown[] {
  const isOrigin = ({ name, kind }: Origin) => name === event.intake && kind === event.platform;
  const source = sources.find(({ origin }) => isOrigin(origin));
  return source ? handlersOf(source.handle, event) : [];
}

type Sources = readonly { readonly origin: Origin; readonly handle: EventHandler }[];

/**
 * Finds the handler of the platform or source that stored an event. If the app has neither, the event is tried
 * again, since an instance of another version may know it. Events of schedules go to the schedules' handlers, and
 * are ignored if the app has none any more.
 */
export function handlerOf(
  sources: Sources,
  ofSchedules: EventHandler,
  event: WebhookEvent,
): EventHandler {
  const { intake = "", platform: kind } = event;
  const handler = knownHandlerOf(sources, ofSchedules, event);
  if (handler) return handler;
  const named = sources.find(({ origin }) => origin.name === intake);
  if (kind === OWN && named) throw platformRefused("handle the event", intake);
  const what = kind === OWN
    ? `source '${intake}' of its own, which has emitted`
    : `platform '${intake}' of the kind '${kind}', which has stored`;
  throw new NoSource(`The app has no ${what} this event`);
}

/** Makes the plan of an app's handler: that of the handler that an event is handed to, with its platform's policy. */
export function plansOf(sources: Sources, ofSchedules: EventHandler): HandlerPlan {
  const planOf = (handler: EventHandler | undefined) =>
    (handler as PlannedHandler | undefined)?.[PLAN];
  const all = [...sources.map(({ handle }) => handle), ofSchedules].map(planOf);
  return {
    get hasLimits() {
      return all.some((plan) => plan?.hasLimits);
    },
    retryOf: ({ intake, platform: kind }) =>
      sources.find(({ origin }) => origin.name === intake && origin.kind === kind)?.origin.retry,
    runs: (event, retry) =>
      planOf(knownHandlerOf(sources, ofSchedules, event))?.runs(event, retry) ?? [],
  };
}

function knownHandlerOf(
  sources: Sources,
  ofSchedules: EventHandler,
  { intake = "", platform: kind }: Pick<PlannedEvent, "intake" | "platform">,
): EventHandler | undefined {
  const named = sources.find(({ origin }) => origin.name === intake);
  if (named?.origin.kind === kind) return named.handle;
  return intake === SCHEDULE && kind === SCHEDULE ? ofSchedules : undefined;
}
