import { type EventHandler, GiveUpError, type WebhookEvent } from "../webhook/mod.ts";
import { handleAll, type NamedHandler } from "./_handle_all.ts";
import type { EventName, EventPayload, PlatformEvents } from "./event_name.ts";

/**
 * Hands events to the handlers that are registered for them.
 *
 * @typeParam TEvents The payloads by type.
 */
export interface EventRouter<TEvents> {
  /**
   * Registers a handler for events of a type (`issues`), or of a type and an action (`issues.opened`).
   * At GitLab the action is that of `object_attributes`.
   *
   * @param names The name, or several.
   * @param handler The handler. What it has got done is noted by the name, and by the handler's own
   * name where it has one.
   * @returns The router.
   * @throws {TypeError} If the handler is no function, or there is no name.
   */
  on<TName extends EventName<TEvents>>(
    names: TName | readonly TName[],
    handler: EventHandler<EventPayload<TEvents, TName>>,
  ): EventRouter<TEvents>;
  /**
   * Registers a handler for all events, beside those of their own.
   *
   * @param handler The handler.
   * @returns The router.
   * @throws {TypeError} If the handler is no function.
   */
  onAny(handler: EventHandler): EventRouter<TEvents>;
  /**
   * Registers a handler for the events that {@linkcode EventRouter.on} names none for. One that does
   * nothing drops them.
   *
   * @param handler The handler.
   * @returns The router.
   * @throws {TypeError} If the handler is no function.
   */
  onOther(handler: EventHandler): EventRouter<TEvents>;
  /**
   * Hands an event to its handlers, all at the same time. Each succeeds or fails on its own: when one
   * fails, the event is tried again, and then only by those that have not succeeded. An event without
   * a handler is given up: kept as dead with its payload, and logged, until it is replayed or purged.
   *
   * This is the handler for {@linkcode startWorker} and {@linkcode runApp}.
   */
  readonly handle: EventHandler;
}

interface Route extends NamedHandler {
  /** The names that it is for, `*` for all events, `-` for those without a name here. */
  readonly names: ReadonlySet<string>;
}

const [ANY, OTHER] = ["*", "-"] as const;

/** Actions are short words. What else a payload has in their place is none. */
const ACTION = /^\w{1,100}$/;

/**
 * Creates a router for the events of one queue.
 *
 * @typeParam TEvents The payloads by type. By default those of GitHub and of Telegram.
 * @returns The router, without handlers.
 *
 * @example
 * ```ts
 * import { createEventRouter, openEventStore, startWorker } from "@org/edge-base";
 *
 * const router = createEventRouter()
 *   .on("push", ({ payload }) => console.log(payload.commits.length))
 *   .on("issues.opened", ({ payload }) => console.log(payload.issue.title))
 *   .on("message", ({ payload }) => console.log(payload.message.text))
 *   .onAny(({ type, sender }) => console.log(type, sender?.name));
 *
 * using kv = await Deno.openKv(":memory:");
 * const worker = startWorker(await openEventStore(kv), router.handle);
 * await worker.stop();
 * ```
 */
export function createEventRouter<TEvents extends object = PlatformEvents>(): EventRouter<TEvents> {
  return new HandlerTable<TEvents>();
}

class HandlerTable<TEvents> implements EventRouter<TEvents> {
  readonly #routes: Route[] = [];
  readonly #counts = new Map<string, number>();

  on<TName extends EventName<TEvents>>(
    names: TName | readonly TName[],
    handler: EventHandler<EventPayload<TEvents, TName>>,
  ): this {
    const all: readonly string[] = typeof names === "string" ? [names] : names;
    if (all.length === 0 || all.some((name) => name === "")) {
      throw new TypeError("Cannot register the handler: it has no event's name");
    }
    return this.#add(all, handler as EventHandler);
  }

  onAny(handler: EventHandler): this {
    return this.#add([ANY], handler);
  }

  onOther(handler: EventHandler): this {
    return this.#add([OTHER], handler);
  }

  readonly handle: EventHandler = async (event, context) => {
    const names = namesOf(event);
    const isNamed = (route: Route) => names.some((name) => route.names.has(name));
    const general = this.#routes.some(isNamed) ? [ANY] : [ANY, OTHER];
    const matching = this.#routes.filter((route) =>
      isNamed(route) || general.some((name) => route.names.has(name))
    );
    if (matching.length === 0) throw new GiveUpError(`No handler for ${names.at(-1)}`);
    await handleAll(matching, event, context);
  };

  #add(names: readonly string[], handler: EventHandler): this {
    if (typeof handler !== "function") {
      throw new TypeError(`Cannot register the handler: it must be a function, got ${handler}`);
    }
    const name = [names.join("|"), handler.name].filter((part) => part !== "").join(" ");
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    const key = count === 1 ? name : `${name} ${count}`;
    this.#routes.push({ key, handler, names: new Set(names) });
    return this;
  }
}

/** The names of an event: its type, and its type and action where it has one. */
function namesOf({ type, payload }: WebhookEvent): readonly string[] {
  const attributes = payload.object_attributes as { action?: unknown } | null | undefined;
  const action = payload.action ?? attributes?.action;
  return typeof action === "string" && ACTION.test(action) ? [type, `${type}.${action}`] : [type];
}
