/**
 * What a handler throws to have its event given up at once: it is dead then, kept with its payload and
 * the reason, and not tried again until somebody replays it.
 *
 * @example
 * ```ts
 * import { type EventHandler, GiveUpError } from "@org/edge-base";
 *
 * export const handler: EventHandler = ({ payload }) => {
 *   if (payload.repository === undefined) throw new GiveUpError("Not of a repository");
 * };
 * ```
 */
export class GiveUpError extends Error {
  /** The class's name. */
  override readonly name = "GiveUpError";
}
