/**
 * Senders that sign as the Standard Webhooks specification says, with secrets or with Ed25519 keys.
 *
 * @module
 */
import { checkFunctions } from "../core/check_options.ts";
import { HttpError } from "../core/mod.ts";
import type { JsonObject } from "../core/parse_json.ts";
import { overloaded } from "./body_budget.ts";
import {
  checkPlatformOptions,
  definePlatform,
  type ParsedDelivery,
  type Platform,
  type PlatformOptions,
  variableOf,
  type VerifyHead,
} from "./platform.ts";
import {
  checkDeliveryId,
  checkEventType,
  mediaTypeOf,
  missingType,
  parseJsonObject,
} from "./readers.ts";
import { checkSecrets, secretVariable } from "./secrets.ts";
import {
  checkAge,
  type Credentials,
  invalidSignature,
  missingSignature,
  type ReceivedBody,
  Verifier,
  type VerifyBody,
} from "./verifier.ts";
import {
  bytesOf,
  importedOf,
  isWeakPublicKey,
  joined,
  type Key,
  keysOf,
  standardHeadersOf,
  standardHeadOf,
  standardKeyOf,
  standardScheme,
} from "./verify_signature.ts";

/**
 * Options of {@linkcode standard}.
 *
 * @category Platforms
 */
export interface StandardOptions extends PlatformOptions {
  /** Name of the platform in this app, such as `clerk`, see {@linkcode PlatformOptions.name}. */
  readonly name: string;
  /**
   * Keys that deliveries are verified with: several while one is being replaced. Public keys begin with
   * `whpk_`. All others are secrets, in base64, with or without `whsec_` before it.
   *
   * @default {undefined} The variable's.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Returns the type of an event.
   *
   * @default {(payload) => payload.type} The field `type`, as the specification recommends.
   */
  readonly typeOf?: ((payload: JsonObject) => string | undefined) | undefined;
}

/** Starts of the names of the signed headers: the specification's, and the older one of Svix. */
const PREFIXES = ["webhook", "svix"];

/** Start of a public key. The key follows, in base64. */
const PUBLIC_KEY = "whpk_";

/** Start of a private key, which only the sender has. */
const PRIVATE_KEY = "whsk_";

const PUBLIC_KEY_BYTES = 32;

/** The form of a signature that a public key verifies. */
const PUBLIC_SIGNATURE = /^v1a,[A-Za-z0-9+/]{86}==$/;

/**
 * Most signatures of a request that are checked by public keys. Each takes 2.5 ms for a body of 1 MiB, also
 * if its sender knows no key.
 */
const MAX_PUBLIC_SIGNATURES = 4;

/** Largest body that is verified without regard to the budget: it is copied twice. */
const MAX_UNCOUNTED_BYTES = 262_144;

const ED25519 = "Ed25519";

const CREDENTIALS: Credentials = {
  schemes: [standardScheme((secret) => !isPublicKey(secret), PREFIXES)],
  tokens: [],
};

/**
 * Makes the platform of any sender that signs as the Standard Webhooks specification says: Svix and its
 * customers (Clerk, Resend, ...), OpenAI, and many others. It reads `<NAME>_WEBHOOK_SECRET` (`clerk`:
 * `CLERK_WEBHOOK_SECRET`), during a rotation also with `_PREVIOUS`.
 *
 * A delivery is verified by one of its signatures over id, time and body: `v1` under a secret, or `v1a` under
 * a public key. It must not be older than 5 minutes. Its id comes from `webhook-id` or `svix-id`, and its type
 * from the field `type` of the payload.
 *
 * @typeParam TEvents The payloads by type. By default any type with a JSON object.
 * @param options Its name, path, limits and ordering, keys in code, and the place of the type.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a key cannot be used.
 * @throws {RangeError} If a limit is out of range.
 *
 * @example
 * ```ts
 * import { defineApp, sqlite, standard } from "@org/edge-base";
 * import { standardDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * type Invoice = { type: "invoice"; data: { total: number } };
 *
 * const totals: number[] = [];
 * const shop = standard<{ invoice: Invoice }>({ name: "shop" });
 * const bot = defineApp({ name: "my-bot", platform: shop, store: sqlite() });
 * bot.on("invoice", ({ payload }) => totals.push(payload.data.total));
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(standardDelivery({ type: "invoice", data: { total: 42 } }));
 * assertEquals(totals, [42]);
 * ```
 *
 * @category Platforms
 */
export function standard<TEvents extends object = Readonly<Record<string, JsonObject>>>(
  options: StandardOptions,
): Platform<TEvents> {
  checkPlatformOptions("standard", options, ["secrets", "typeOf"]);
  const { name, secrets, typeOf = typeIn, ...shared } = options;
  const doing = `define the platform '${name}'`;
  if (secrets !== undefined) checkSecrets(doing, secrets, flawOfKey);
  checkFunctions(doing, { typeOf });
  const variable = variableOf(name, "secret");
  return definePlatform<TEvents>({
    ...{ ...shared, name, kind: "standard" },
    env: secretVariable(variable, secrets, flawOfKey),
    createVerifier: ({ [variable]: read }) => verifierOf(secrets ?? read as readonly string[]),
    parse: (headers, body) => readDelivery(headers, body, typeOf),
    testSecrets: { [variable]: "gitlab" },
  });
}

function typeIn({ type }: JsonObject): string | undefined {
  return type as string | undefined;
}

/** The signed id is the delivery's id: with another one a captured delivery could be sent again. */
function readDelivery(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  typeOf: (payload: JsonObject) => string | undefined,
): ParsedDelivery {
  mediaTypeOf(headers, ["application/json"]);
  const id = standardHeadersOf(headers, PREFIXES)?.id;
  // The specification forbids a dot: `a.1.2.{}` would be signed for the id `a` and for `a.1`.
  const deliveryId = checkDeliveryId(id?.includes(".") ? undefined : id);
  const payload = parseJsonObject(body);
  const type = typeOf(payload);
  if (type === undefined) throw missingType();
  return { type: checkEventType(type), deliveryId, payload };
}

function isPublicKey(secret: string): boolean {
  return typeof secret === "string" && secret.startsWith(PUBLIC_KEY);
}

/** Finds out why a key cannot be used. */
function flawOfKey(key: string): string | undefined {
  if (/\s$/.test(key)) return "ends with white space, such as a line break";
  if (key.startsWith(PRIVATE_KEY)) {
    return "is a private key, which only the sender may have: it must be the public key, with whpk_";
  }
  if (!isPublicKey(key)) {
    return standardKeyOf(key) ? undefined : "is not base64, with or without whsec_ before it";
  }
  const bytes = publicBytesOf(key);
  if (bytes?.byteLength !== PUBLIC_KEY_BYTES) return "begins with whpk_ and is not an Ed25519 key";
  return isWeakPublicKey(bytes) ? "is a public key that anybody can sign for" : undefined;
}

function publicBytesOf(key: string): Uint8Array<ArrayBuffer> | undefined {
  return bytesOf(key.slice(PUBLIC_KEY.length));
}

/** Makes the function that verifies requests by secrets, public keys, or both. */
function verifierOf(all: readonly string[]): VerifyHead {
  const publicKeys = all.some(isPublicKey) ? new PublicKeys(all).verifyHead : undefined;
  if (publicKeys && all.every(isPublicKey)) return publicKeys;
  const secrets = new Verifier(CREDENTIALS, all, []).verifyHead;
  if (!publicKeys) return secrets;
  return (headers) => {
    const [bySecret, byPublicKey] = [secrets(headers), publicKeys(headers)];
    return async (body) => {
      try {
        return await bySecret(body);
      } catch (error) {
        if (!(error instanceof HttpError) || error.code !== "INVALID_SIG") throw error;
        return await byPublicKey(body);
      }
    };
  };
}

/** Public keys, and their positions among all keys. */
class PublicKeys {
  readonly #keys: readonly Key[];
  readonly #hasSeveral: boolean;
  #turn: Promise<unknown> = Promise.resolve();

  /** @param all All keys. Those that are not public are left out. */
  constructor(all: readonly string[]) {
    this.#hasSeveral = all.length > 1;
    this.#keys = keysOf(all, (key) => isPublicKey(key) ? publicBytesOf(key) : undefined);
  }

  /** Reads the signatures, and returns the function that verifies the body by them. It is bound. */
  readonly verifyHead = (headers: Headers): VerifyBody => {
    const signed = standardHeadersOf(headers, PREFIXES);
    if (signed === undefined) throw missingSignature();
    if (signed === null) throw invalidSignature();
    const signatures = signed.signatures.filter((text) => PUBLIC_SIGNATURE.test(text))
      .slice(0, MAX_PUBLIC_SIGNATURES).map((text) => bytesOf(text.slice("v1a,".length))!);
    const head = standardHeadOf(signed);
    return async (body) => {
      const position = signatures.length > 0 ? await this.#verify(signatures, head, body) : 0;
      if (!position) throw invalidSignature();
      checkAge(signed.timestamp);
      return this.#hasSeveral ? `secret ${position}` : undefined;
    };
  };

  /** Verifies a large body when there is room for its copies, or else when its turn comes. */
  async #verify(
    signatures: readonly Uint8Array<ArrayBuffer>[],
    head: Uint8Array<ArrayBuffer>,
    { bytes, share, budget }: ReceivedBody,
  ): Promise<number> {
    const verify = () => this.#positionOf(signatures, joined(head, bytes));
    if (bytes.byteLength <= MAX_UNCOUNTED_BYTES) return await verify();
    const release = budget?.reserveFree(2 * bytes.byteLength);
    if (release) return await verify().finally(release);
    const turn = this.#turn.then(() => {
      if (share?.isEvicted) throw overloaded();
      return verify();
    });
    this.#turn = turn.catch(() => {});
    return await turn;
  }

  async #positionOf(
    signatures: readonly Uint8Array<ArrayBuffer>[],
    content: Uint8Array<ArrayBuffer>,
  ): Promise<number> {
    for (const key of this.#keys) {
      const imported = await importedOf(key, ED25519, "verify");
      for (const signature of signatures) {
        if (await crypto.subtle.verify(ED25519, imported, signature, content)) return key.position;
      }
    }
    return 0;
  }
}
