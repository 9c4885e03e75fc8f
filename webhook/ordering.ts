import type { Delivery } from "../events/store/mod.ts";
import { repositoryKeyOf } from "./platforms/forge.ts";
import { chatKeyOf } from "./platforms/messenger.ts";

/**
 * Returns a delivery's ordering key. Deliveries with the same key are handled one at a time and in the
 * order received, those without a key as they come.
 */
export type OrderBy = (delivery: Delivery) => string | undefined;

/**
 * Orders a forge's events by repository.
 *
 * @param delivery The delivery.
 * @returns The repository's id or full name; undefined for an event without a repository.
 */
export function byRepository({ payload }: Delivery): string | undefined {
  return repositoryKeyOf(payload);
}

/**
 * Orders a messenger's updates by chat.
 *
 * @param delivery The delivery.
 * @returns The chat's id; undefined for an update without a chat.
 */
export function byChat({ chat, payload }: Delivery): string | undefined {
  return chat ? String(chat.id) : chatKeyOf(payload);
}
