import type { EventRecord } from "../events/mod.ts";
import { shown } from "./_format.ts";

/** Names an event by its type and action. */
export const nameOf = ({ type, action }: EventRecord): string =>
  shown(action === undefined ? type : `${type}.${action}`, 120);

/** Names the repository or the chat of an event; undefined without one. */
export const placeOf = ({ repository, chat }: EventRecord): string | undefined =>
  repository ? shown(repository.fullName, 150) : chat ? `chat ${chat.id}` : undefined;

/** Names the user who caused an event; undefined without one. */
export const senderOf = ({ sender }: EventRecord): string | undefined =>
  sender && `${shown(sender.name ?? String(sender.id))}${sender.isBot ? " (bot)" : ""}`;

/** Names an event so that a person recognizes it, without who caused it: some readers may not see that. */
export function aboutOf(record: EventRecord): string {
  const place = placeOf(record);
  return place === undefined ? nameOf(record) : `${nameOf(record)} in ${place}`;
}
