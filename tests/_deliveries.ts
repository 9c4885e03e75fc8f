/** Requests as the platforms send them, signed by an implementation independent of the one under test. */

/** The forge's secret in the tests. */
export const FORGE_SECRET = "It's a Secret to Everybody";

/** The messenger's secret token in the tests. */
export const MESSENGER_SECRET = "a-secret-token-for-tests";

/** What `fetch` and `app.request` take. */
export interface SignedRequest {
  readonly method: "POST";
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly headers: Headers;
}

const encoder = new TextEncoder();

/** Signs a body with Web Crypto. */
export async function sign(body: string | Uint8Array, secret = FORGE_SECRET): Promise<string> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const raw = encoder.encode(secret);
  const key = await crypto.subtle.importKey("raw", raw, algorithm, false, ["sign"]);
  const bytes = typeof body === "string" ? encoder.encode(body) : new Uint8Array(body);
  return `sha256=${new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes)).toHex()}`;
}

/** A signed delivery of the forge; `headers` add to its headers, or replace them, or drop them with null. */
export async function forgeDelivery(
  body: string | Uint8Array,
  headers: Record<string, string | null> = {},
): Promise<SignedRequest> {
  return request(body, {
    "Content-Type": "application/json",
    "X-Hub-Signature-256": await sign(body),
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
