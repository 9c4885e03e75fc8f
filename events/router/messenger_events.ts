import type { Update } from "@grammyjs/types";

/** The kinds of updates that Telegram publishes. */
export type UpdateKind = Exclude<keyof Update, "update_id">;

/** The updates of a messenger by their kind: each holds its number, and its content by that name. */
export type MessengerEvents = {
  readonly [TKind in UpdateKind]:
    & Pick<Update, "update_id">
    & { readonly [TName in TKind]: NonNullable<Update[TName]> };
};
