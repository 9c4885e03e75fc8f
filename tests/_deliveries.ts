/** Requests as the platforms send them, with the secrets of the tests. */
import { MESSENGER_SECRET, sign } from "../dev/harness/sign.ts";

export { FORGE_SECRET, MESSENGER_SECRET, sign } from "../dev/harness/sign.ts";

/** Request that `fetch` and `app.request` take. */
export interface SignedRequest {
  readonly method: "POST";
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly headers: Headers;
}

/** A signed delivery of the forge; `headers` add to its headers, or replace them, or drop them with null. */
export function forgeDelivery(
  body: string | Uint8Array,
  headers: Record<string, string | null> = {},
): SignedRequest {
  return request(body, {
    "Content-Type": "application/json",
    "X-Hub-Signature-256": sign(body),
    "X-Forge-Event": "push",
    "X-Forge-Delivery": crypto.randomUUID(),
    ...headers,
  });
}

/** An update of the messenger; `headers` as with {@linkcode forgeDelivery}. */
export function messengerUpdate(
  update: unknown,
  headers: Record<string, string | null> = {},
): SignedRequest {
  return request(typeof update === "string" ? update : JSON.stringify(update), {
    "Content-Type": "application/json",
    "X-Messenger-Bot-Api-Secret-Token": MESSENGER_SECRET,
    ...headers,
  });
}

function request(
  body: string | Uint8Array,
  headers: Record<string, string | null>,
): SignedRequest {
  const sent = Object.entries(headers).filter((entry): entry is [string, string] =>
    entry[1] !== null
  );
  const bytes = typeof body === "string" ? body : new Uint8Array(body);
  return { method: "POST", body: bytes, headers: new Headers(sent) };
}
