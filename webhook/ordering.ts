import type { Delivery } from "../events/store/delivery.ts";
import { chatIn, objectOf } from "./platforms/event_subject.ts";

/**
 * Tells which deliveries are handled one at a time and in the order received: those with the same key.
 * Deliveries without a key are handled as they come.
 */
export type OrderBy = (delivery: Delivery) => string | undefined;

/**
 * Orders a forge's events by repository.
 *
 * @param delivery The delivery.
 * @returns The repository's id or full name; undefined for an event without a repository.
 */
export function byRepository({ payload }: Delivery): string | undefined {
  const { id, full_name: name } = objectOf(payload.repository);
  return keyOf(id) ?? keyOf(name) ?? keyOf(objectOf(payload.project).id);
}

/**
 * Orders a messenger's updates by chat.
 *
 * @param delivery The delivery.
 * @returns The chat's id; undefined for an update without a chat.
 */
export function byChat({ payload }: Delivery): string | undefined {
  return keyOf(chatIn(payload).id);
}

function keyOf(value: unknown): string | undefined {
  const isKey = typeof value === "number" || (typeof value === "string" && value !== "");
  return isKey ? String(value) : undefined;
}
