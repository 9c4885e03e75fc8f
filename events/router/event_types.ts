import type { Update } from "@grammyjs/types";
import type { operations } from "@octokit/openapi-webhooks-types";
import type { GitlabEvents } from "./gitlab_events.ts";

/**
 * A text with underscores for its hyphens: the published types write `pull-request/opened`.
 *
 * @category Types of payloads
 */
export type Underscored<TText extends string> = TText extends `${infer Head}-${infer Rest}`
  ? `${Head}_${Underscored<Rest>}`
  : TText;

/**
 * The payloads of GitHub's events by their type. Gitea and Forgejo send nearly the same.
 *
 * @category Types of payloads
 */
export type GithubEvents = {
  readonly [
    TKey in keyof operations & string as TKey extends `${infer Event}/${string}`
      ? Underscored<Event>
      : Underscored<TKey>
  ]: operations[TKey] extends { requestBody: { content: { "application/json": infer TPayload } } }
    ? TPayload
    : never;
};

/**
 * The payloads of all forges' events by their type. A type that several forges send, such as `push`, has the
 * payload of any of them.
 *
 * @category Types of payloads
 */
export type ForgeEvents = {
  readonly [TType in keyof GithubEvents | keyof GitlabEvents]:
    | FieldOf<GithubEvents, TType>
    | FieldOf<GitlabEvents, TType>;
};

/**
 * A field that some members of a union have.
 *
 * @category Types of payloads
 */
export type FieldOf<TObject, TField> = TObject extends unknown
  ? TField extends keyof TObject ? TObject[TField] : never
  : never;

/**
 * The updates of Telegram by their kind: each holds its number, and its content by that name.
 *
 * @category Types of payloads
 */
export type TelegramEvents = {
  readonly [TKind in Exclude<keyof Update, "update_id">]:
    & Pick<Update, "update_id">
    & { readonly [TName in TKind]: NonNullable<Update[TName]> };
};

/**
 * The actions that a payload can have, in `action` or, at GitLab, in `object_attributes`.
 *
 * @category Types of payloads
 */
export type ActionOf<TPayload> = Extract<
  FieldOf<TPayload, "action"> | FieldOf<FieldOf<TPayload, "object_attributes">, "action">,
  string
>;

/**
 * The names that handlers are registered for: an event's type, or its type and action.
 *
 * @typeParam TEvents The payloads by type.
 * @category Handlers
 */
export type EventName<TEvents> = {
  [TType in keyof TEvents & string]: TType | `${TType}.${ActionOf<TEvents[TType]>}`;
}[keyof TEvents & string];

/**
 * The payload of the events of a name: of its type, or of its type and action. A type may have dots itself, so the
 * name is split at each one.
 *
 * @typeParam TEvents The payloads by type.
 * @typeParam TName The name, or the rest of it.
 * @typeParam TBefore The part that was split off, with its last dot.
 * @category Handlers
 */
export type EventPayload<TEvents, TName extends string, TBefore extends string = ""> =
  | FieldOf<TEvents, `${TBefore}${TName}`>
  | (TName extends `${infer TType}.${infer TRest}` ?
      | (FieldOf<TEvents, `${TBefore}${TType}`> extends infer TPayload
        ? TPayload extends unknown
          ? TRest extends Extract<FieldOf<TPayload, "action">, string>
            ? TPayload & { readonly action: TRest }
          : TRest extends ActionOf<TPayload>
            ? TPayload & { readonly object_attributes: { readonly action: TRest } }
          : never
        : never
        : never)
      | EventPayload<TEvents, TRest, `${TBefore}${TType}.`>
    : never);
