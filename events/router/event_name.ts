import type { EventHandler } from "../mod.ts";
import type { ForgeEvents } from "./forge_events.ts";
import type { MessengerEvents } from "./messenger_events.ts";

/** The payloads of all events of both platforms, by their type. No name is that of two. */
export type PlatformEvents = ForgeEvents & MessengerEvents;

/** The actions that a payload may tell: `opened`, `closed`, ... */
export type ActionOf<TPayload> = TPayload extends { readonly action: infer TAction extends string }
  ? TAction
  : never;

/** Those of several payloads that may tell an action, with that action. */
export type WithAction<TPayload, TAction> = TPayload extends { readonly action: infer TAll }
  ? TAction extends TAll ? TPayload & { readonly action: TAction } : never
  : never;

/**
 * What handlers are registered by: an event's type, or its type and action.
 *
 * @typeParam TEvents The payloads by type.
 */
export type EventName<TEvents> = {
  [TType in keyof TEvents & string]: TType | `${TType}.${ActionOf<TEvents[TType]>}`;
}[keyof TEvents & string];

/**
 * The payload of the events of a name.
 *
 * @typeParam TEvents The payloads by type.
 * @typeParam TName The name.
 */
export type EventPayload<TEvents, TName extends string> = TName extends keyof TEvents
  ? TEvents[TName]
  : TName extends `${infer TType extends keyof TEvents & string}.${infer TAction}`
    ? WithAction<TEvents[TType], TAction>
  : never;

/**
 * A handler for the events of a name, where it is written apart from the router.
 *
 * @typeParam TName The name: `issues.opened`.
 */
export type EventHandlerFor<TName extends EventName<PlatformEvents>> = EventHandler<
  EventPayload<PlatformEvents, TName>
>;
