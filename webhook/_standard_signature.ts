import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { nodeCrypto } from "./node_crypto.ts";

/** What a delivery says of itself by the Standard Webhooks specification. */
export interface StandardSignature {
  /** `webhook-id`: the delivery's id. */
  readonly id: string;
  /** `webhook-timestamp`: when it was sent, in seconds since the epoch. */
  readonly timestamp: string;
  /** `webhook-signature`: one signature `v1,...` or several, separated by spaces. */
  readonly signatures: string;
}

/** How a secret for such signatures begins; the key follows in base64. */
const PREFIX = "whsec_";

/** The form of the header. Signatures of other versions may stand in it, and are not looked at. */
const SIGNATURES = /^v\d[a-z]?,[\w+/=-]{1,256}(?: v\d[a-z]?,[\w+/=-]{1,256}){0,9}$/;

/** The form of one signature that is looked at: SHA-256 has 32 bytes. */
const SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/;

const TIMESTAMP = /^\d{1,12}$/;

/** How far the sender's clock may be from this one: the specification's own libraries take this. */
const TOLERANCE_MS = 300_000;

const encoder = new TextEncoder();

/** Reads the headers; undefined if one is missing, or malformed. */
export function standardSignatureOf(headers: Headers): StandardSignature | undefined {
  const id = headers.get("webhook-id");
  const timestamp = headers.get("webhook-timestamp");
  const signatures = headers.get("webhook-signature");
  if (!id || !timestamp || !signatures) return undefined;
  if (!TIMESTAMP.test(timestamp) || !SIGNATURES.test(signatures)) return undefined;
  return { id, timestamp, signatures };
}

/**
 * Tells whether one of the signatures is right: HMAC-SHA256 over `id.timestamp.body`. All are compared,
 * each in constant time.
 */
export function isStandardSigned(
  body: Uint8Array,
  { id, timestamp, signatures }: StandardSignature,
  key: Uint8Array,
): boolean {
  const hmac = nodeCrypto().createHmac("sha256", key);
  hmac.update(`${id}.${timestamp}.`).update(body);
  const expected = encoder.encode(`v1,${hmac.digest("base64")}`);
  let signed = false;
  for (const each of signatures.split(" ")) {
    if (!SIGNATURE.test(each)) continue;
    signed = timingSafeEqual(encoder.encode(each), expected) || signed;
  }
  return signed;
}

/** Tells whether a delivery was sent within 5 minutes of now: a captured one is of no use later. */
export function isRecent({ timestamp }: StandardSignature, now: number = Date.now()): boolean {
  return Math.abs(now - Number(timestamp) * 1_000) <= TOLERANCE_MS;
}

/** Tells whether a secret is for such signatures. */
export function isStandardSecret(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

/** Reads the key out of a secret; undefined if it holds none, in base64. */
export function standardKeyOf(secret: string): Uint8Array | undefined {
  try {
    const bytes = atob(secret.slice(PREFIX.length));
    return bytes === "" ? undefined : Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
  } catch {
    return undefined;
  }
}
