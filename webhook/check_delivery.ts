import { isPromise, met } from "../core/check_options.ts";
import type { EventChat, EventRepository, EventSender } from "../events/store/mod.ts";
import {
  checkDeliveryId,
  checkEventType,
  integerOf,
  objectOf,
  type ParsedDelivery,
  parseJsonObject,
  textOf,
} from "./platforms/readers.ts";

/** Delivery with its document. */
type CheckedDelivery = ParsedDelivery & { readonly body: Uint8Array<ArrayBuffer> };

/**
 * Checks the delivery that a platform of a user's own has read. Its parts come from outside, mostly through
 * `JSON.parse`, and a record that holds something else than texts and numbers could not be read again.
 *
 * @param parsed The delivery, whatever its types promise.
 * @param bytes The request's body.
 * @returns The delivery. Its payload is that of the document that is stored.
 * @throws {HttpError} 400 `INVALID_BODY` if the document is not a JSON object; 400 `INVALID_EVENT` or
 * `INVALID_DELIVERY` if the type or the delivery id is malformed.
 * @throws {TypeError} If it is a promise.
 */
export function checkDelivery(
  parsed: ParsedDelivery,
  bytes: Uint8Array<ArrayBuffer>,
): CheckedDelivery {
  if (isPromise(parsed)) {
    throw new TypeError("The platform's parse() must not be async: it has returned a promise");
  }
  if (typeof parsed !== "object" || parsed === null) {
    throw new TypeError(
      `The platform's parse() must return a delivery or a Response, got ${met(parsed)}`,
    );
  }
  const { type, body = bytes } = parsed;
  const deliveryId: unknown = parsed.deliveryId;
  return {
    type: checkEventType(type),
    body,
    deliveryId: deliveryId === undefined || deliveryId === null
      ? undefined
      : checkDeliveryId(Number.isSafeInteger(deliveryId) ? String(deliveryId) : deliveryId),
    payload: parseJsonObject(body),
    source: textOf(parsed.source),
    action: textOf(parsed.action),
    repository: repositoryIn(parsed.repository),
    chat: chatIn(parsed.chat),
    sender: senderIn(parsed.sender),
  };
}

function repositoryIn(value: unknown): EventRepository | undefined {
  const { id: given, ...names } = objectOf(value);
  const id = integerOf(given);
  const [fullName, owner, name] = [names.fullName, names.owner, names.name].map(textOf);
  if (id === undefined || fullName === undefined) return undefined;
  return { id, fullName, owner: owner ?? "", name: name ?? "" };
}

function chatIn(value: unknown): EventChat | undefined {
  const { id: given, type } = objectOf(value);
  const id = integerOf(given);
  return id === undefined ? undefined : { id, type: textOf(type) };
}

function senderIn(value: unknown): EventSender | undefined {
  const { id: given, name, isBot } = objectOf(value);
  const id = integerOf(given);
  return id === undefined ? undefined : { id, name: textOf(name), isBot: isBot === true };
}
