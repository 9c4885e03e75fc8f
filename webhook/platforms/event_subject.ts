import { updateKindOf, userOf } from "../authorize.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import type { EventChat, EventRepository, EventSender } from "../../events/store/delivery.ts";

/** GitLab's full names have 255 characters, all groups among them. */
const MAX_TEXT_LENGTH = 255;

/** Finds what happened in a forge's payload: `action`, or in GitLab's `object_attributes`. */
export function actionOf(payload: JsonObject): string | undefined {
  return textOf(payload.action) ?? textOf(objectOf(payload.object_attributes).action);
}

/** Finds the repository in a forge's payload: `repository`, or GitLab's `project`. */
export function repositoryOf(payload: JsonObject): EventRepository | undefined {
  const [repository, project] = [objectOf(payload.repository), objectOf(payload.project)];
  const fullName = textOf(repository.full_name) ?? textOf(project.path_with_namespace);
  const id = numberOf(repository.id) ?? numberOf(project.id);
  if (fullName === undefined || id === undefined) return undefined;
  const slash = fullName.lastIndexOf("/");
  return { id, fullName, owner: fullName.slice(0, slash), name: fullName.slice(slash + 1) };
}

/** Finds the chat in an update. */
export function chatOf(payload: JsonObject): EventChat | undefined {
  const chat = chatIn(payload);
  const id = numberOf(chat.id);
  return id === undefined ? undefined : { id, type: textOf(chat.type) };
}

/** Finds who has sent an update. */
export function updateSenderOf(payload: JsonObject): EventSender | undefined {
  const user = userOf(payload);
  if (!user) return undefined;
  const name = textOf(user.username) ?? textOf(user.first_name);
  return { id: user.id, name, isBot: user.is_bot === true };
}

/** Finds who has brought a forge's event about: `sender`, or GitLab's `user` or `user_id`. */
export function forgeSenderOf(payload: JsonObject): EventSender | undefined {
  const [sender, user] = [objectOf(payload.sender), objectOf(payload.user)];
  const id = numberOf(sender.id) ?? numberOf(user.id) ?? numberOf(payload.user_id);
  if (id === undefined) return undefined;
  const name = textOf(sender.login) ?? textOf(user.username) ?? textOf(payload.user_username);
  return { id, name, isBot: sender.type === "Bot" };
}

/** The chat in an update, of its content or of the message of a callback; empty if there is none. */
export function chatIn(payload: JsonObject): JsonObject {
  const content = objectOf(payload[updateKindOf(payload) ?? ""]);
  return objectOf(content.chat ?? objectOf(content.message).chat);
}

/** A value as an object; an empty one if it is none. */
export function objectOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null ? value as JsonObject : {};
}

/** A text of a payload; undefined for none. A longer one is cut: it is kept with the event. */
function textOf(value: unknown): string | undefined {
  if (typeof value !== "string" || value === "") return undefined;
  return value.slice(0, MAX_TEXT_LENGTH).toWellFormed();
}

function numberOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? value as number : undefined;
}
