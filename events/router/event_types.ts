import type { Update } from "@grammyjs/types";
import type { operations } from "@octokit/openapi-webhooks-types";
import type { EventHandler } from "../worker/mod.ts";

/** A text with underscores for its hyphens: the published types write `pull-request/opened`. */
export type Underscored<TText extends string> = TText extends `${infer Head}-${infer Rest}`
  ? `${Head}_${Underscored<Rest>}`
  : TText;

/**
 * The payloads of a forge's events by their type, as GitHub publishes them. Gitea and Forgejo send
 * nearly the same. GitLab's payloads differ, and need a map of your own.
 */
export type ForgeEvents = {
  readonly [
    TKey in keyof operations & string as TKey extends `${infer Event}/${string}`
      ? Underscored<Event>
      : Underscored<TKey>
  ]: operations[TKey] extends { requestBody: { content: { "application/json": infer TPayload } } }
    ? TPayload
    : never;
};

/** The kinds of updates that Telegram publishes. */
export type UpdateKind = Exclude<keyof Update, "update_id">;

/** The updates of a messenger by their kind: each holds its number, and its content by that name. */
export type MessengerEvents = {
  readonly [TKind in UpdateKind]:
    & Pick<Update, "update_id">
    & { readonly [TName in TKind]: NonNullable<Update[TName]> };
};

/** The payloads of all events of both platforms, by their type. No type is that of two. */
export type PlatformEvents = ForgeEvents & MessengerEvents;

/** The actions that a payload can have: `opened`, `closed`, ... */
export type ActionOf<TPayload> = TPayload extends { readonly action: infer TAction extends string }
  ? TAction
  : never;

/** Those of several payloads that can have an action, with that action. */
export type WithAction<TPayload, TAction> = TPayload extends { readonly action: infer TAll }
  ? TAction extends TAll ? TPayload & { readonly action: TAction } : never
  : never;

/**
 * The names that handlers are registered for: an event's type, or its type and action.
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
 * A handler for the events of a name, written apart from the router.
 *
 * @typeParam TName The name: `issues.opened`.
 */
export type EventHandlerFor<TName extends EventName<PlatformEvents>> = EventHandler<
  EventPayload<PlatformEvents, TName>
>;
