import { HUB_LENGTH, HUB_PREFIX, isSignature } from "./verify_signature.ts";

/** A signature that a request claims to have: HMAC-SHA256 over the body, or over more than it. */
export interface SignatureClaim {
  /** The signatures, in the scheme's form. One of them has to be right. */
  readonly signatures: readonly string[];
  /** Bytes that are signed ahead of the body; undefined for none. */
  readonly head?: Uint8Array<ArrayBuffer>;
  /** The time of sending that is signed, in seconds since the epoch; undefined for none. */
  readonly timestamp?: string;
}

/** A way to sign requests. */
export interface SignatureScheme {
  /** Start of a signature. The digest follows. */
  readonly prefix: string;
  /** Length of a signature, in characters. */
  readonly length: number;
  /** Encoding of the digest. */
  readonly encoding: "hex" | "base64";
  /** Checks whether a secret is meant for this scheme. */
  isFor(secret: string): boolean;
  /** Decodes the key out of a secret; undefined if the secret holds none. */
  keyOf(secret: string): Uint8Array<ArrayBuffer> | undefined;
  /** Reads a request's claim: undefined without one, null if it is malformed. */
  claimOf(headers: Headers): SignatureClaim | null | undefined;
}

/** Start of a secret for {@linkcode STANDARD_SCHEME}. The key follows, in base64. */
const STANDARD_SECRET = "whsec_";

/** The form of a standard signature: SHA-256 has 32 bytes. */
const STANDARD_SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/;

const STANDARD_LENGTH = 47;

/** Two headers that were joined, each with a signature. */
const TWO_HEADERS = /,[^ ,]+, /;

const TIMESTAMP = /^\d{1,12}$/;

/** Difference allowed between the clocks: the specification's own libraries have the same. */
const TOLERANCE_MS = 300_000;

const encoder = new TextEncoder();

/**
 * Makes the scheme of GitHub, Gitea and Forgejo: a header with the HMAC of the body, in hex.
 *
 * @param header The header's name.
 * @returns The scheme.
 */
export function hubScheme(header: string): SignatureScheme {
  return {
    prefix: HUB_PREFIX,
    length: HUB_LENGTH,
    encoding: "hex",
    isFor: () => true,
    keyOf: (secret) => typeof secret === "string" && secret ? encoder.encode(secret) : undefined,
    claimOf: (headers) => {
      const signature = headers.get(header);
      if (!signature) return undefined;
      return isSignature(signature) ? { signatures: [signature] } : null;
    },
  };
}

/** The scheme of the Standard Webhooks specification, which GitLab's signing tokens follow. */
export const STANDARD_SCHEME: SignatureScheme = {
  prefix: "v1,",
  length: STANDARD_LENGTH,
  encoding: "base64",
  isFor: isStandardSecret,
  keyOf: (secret) => isStandardSecret(secret) ? standardKeyOf(secret) : undefined,
  claimOf: standardClaimOf,
};

/**
 * Reads the claim of a request: id, time and signatures. A signature of another form or version is
 * passed over, as the specification's own libraries do. The headers have room for 1,365 signatures:
 * comparing them takes 1 ms.
 */
function standardClaimOf(headers: Headers): SignatureClaim | null | undefined {
  const signatures = headers.get("webhook-signature");
  if (!signatures) return undefined;
  const id = headers.get("webhook-id");
  const timestamp = headers.get("webhook-timestamp");
  if (!id || !timestamp || !TIMESTAMP.test(timestamp) || TWO_HEADERS.test(signatures)) return null;
  return {
    signatures: signatures.split(" ").filter(isStandardSignature),
    head: encoder.encode(`${id}.${timestamp}.`),
    timestamp,
  };
}

function isStandardSignature(text: string): boolean {
  return text.length === STANDARD_LENGTH && STANDARD_SIGNATURE.test(text);
}

/** Checks whether a secret is one of the Standard Webhooks specification. */
export function isStandardSecret(secret: string): boolean {
  return typeof secret === "string" && secret.startsWith(STANDARD_SECRET);
}

/** Decodes the key of a standard secret; undefined if it is not base64, or empty. */
export function standardKeyOf(secret: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const bytes = atob(secret.slice(STANDARD_SECRET.length));
    return bytes === "" ? undefined : Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Checks that a request was sent within 5 minutes of now, so that a captured one is of no use later. */
export function isRecent(timestamp: string, now: number = Date.now()): boolean {
  return Math.abs(now - Number(timestamp) * 1_000) <= TOLERANCE_MS;
}
