import type { operations } from "@octokit/openapi-webhooks-types";

/** A text with underscores for its hyphens: the published types write `pull-request/opened`. */
export type Underscored<TText extends string> = TText extends `${infer Head}-${infer Rest}`
  ? `${Head}_${Underscored<Rest>}`
  : TText;

/**
 * The payloads of a forge's events by their type, as GitHub publishes them. Gitea and Forgejo send
 * much the same; GitLab's are others, and need a map of one's own.
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
