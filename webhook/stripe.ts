/**
 * Stripe: snapshot events, which hold the object that they are about, and thin events, which name it.
 *
 * @module
 */
import type { StripeEvents } from "../events/router/mod.ts";
import type { Delivery } from "../events/store/mod.ts";
import {
  checkPlatformOptions,
  definePlatform,
  type ParsedDelivery,
  type Platform,
  type PlatformOptions,
  variableOf,
} from "./platform.ts";
import {
  checkDeliveryId,
  checkEventType,
  invalidBody,
  keyOf,
  mediaTypeOf,
  missingType,
  objectOf,
  parseJsonObject,
} from "./readers.ts";
import { checkSecrets, type FlawOf, secretVariable } from "./secrets.ts";
import { type Credentials, Verifier } from "./verifier.ts";
import {
  comparisonOf,
  type SignatureScheme,
  type Signed,
  textKeyOf,
  TIMESTAMP,
} from "./verify_signature.ts";

/**
 * Options of {@linkcode stripe}.
 *
 * @category Platforms
 */
export interface StripeOptions extends PlatformOptions {
  /**
   * Signing secrets that deliveries are verified with: several while one is being replaced, or if several endpoints of
   * Stripe post to this path.
   *
   * @default {undefined} The variable's.
   */
  readonly secrets?: readonly string[] | undefined;
}

/** Form of a signature: SHA-256 has 32 bytes. */
const SIGNATURE = /^[0-9a-f]{64}$/;

/** Keys of Stripe's API. */
const API_KEY = /^(?:sk|rk|pk)_/;

/** Kinds of payloads: a snapshot event, and a thin one. */
const KINDS: readonly unknown[] = ["event", "v2.core.event"];

const encoder = new TextEncoder();

/** Signs time and body. While a secret is being replaced, Stripe signs with both. */
const SCHEME: SignatureScheme = {
  prefix: "",
  encoding: "hex",
  isSame: comparisonOf(64),
  isFor: () => true,
  keyOf: textKeyOf,
  read: (headers) => {
    const header = headers.get("Stripe-Signature");
    return header ? signedBy(header) : undefined;
  },
};

const CREDENTIALS: Credentials = { schemes: [SCHEME], tokens: [] };

/**
 * Makes the platform of Stripe. It reads `STRIPE_WEBHOOK_SECRET`, the signing secret of the endpoint (`whsec_...`),
 * during a rotation also with `_PREVIOUS`. With another `name` the variable begins with that name.
 *
 * A delivery is verified by one of its signatures over time and body, and must not be older than 5 minutes. Its id is
 * the event's (`evt_...`), and its type the event's: `invoice.paid`, or `v1.billing.meter.error_report_triggered` of a
 * thin event.
 *
 * @typeParam TEvent The snapshot events, such as `Stripe.Event` of the package `stripe`. By default any.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 *
 * @example With the types of the package `stripe`, which are not loaded when the app runs
 * ```ts
 * import type Stripe from "stripe"; // deno add npm:stripe
 * import { byObject, defineApp, sqlite, stripe } from "@org/edge-base";
 * import { startTestBot, stripeDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const paid: number[] = [];
 * const platform = stripe<Stripe.Event>({ groupBy: byObject });
 * const bot = defineApp({ name: "my-bot", platform, store: sqlite() });
 * bot.on("invoice.paid", ({ payload }) => paid.push(payload.data.object.amount_paid));
 *
 * await using test = await startTestBot(bot);
 * const object = { id: "in_1", amount_paid: 4200 };
 * await test.deliver(stripeDelivery({ type: "invoice.paid", data: { object } }));
 * assertEquals(paid, [4200]);
 * ```
 *
 * @category Platforms
 */
export function stripe<TEvent extends { readonly type: string } = never>(
  options: StripeOptions = {},
): Platform<StripeEvents<TEvent>> {
  checkPlatformOptions("stripe", options, ["secrets"]);
  const { name = "stripe", secrets, ...shared } = options;
  if (secrets !== undefined) checkSecrets(`define the platform '${name}'`, secrets, flawOfSecret);
  const variable = variableOf(name, "secret");
  return definePlatform<StripeEvents<TEvent>>({
    ...{ ...shared, name, kind: "stripe" },
    env: secretVariable(variable, secrets, flawOfSecret),
    createVerifier: ({ [variable]: read }) =>
      new Verifier(CREDENTIALS, secrets ?? read as readonly string[], []).verifyHead,
    parse: readEvent,
    testSecrets: { [variable]: "gitlab" },
  });
}

/** Finds out why a signing secret cannot be used. */
const flawOfSecret: FlawOf = (secret) => {
  if (secret.trim() !== secret) return "begins or ends with white space, such as a line break";
  return API_KEY.test(secret)
    ? "is a key of Stripe's API, and not the signing secret of an endpoint, with whsec_"
    : undefined;
};

/**
 * Reads `t=1492774577,v1=5257a8...`: one time, and the signatures of this version. Others are passed over, as Stripe's
 * libraries do. The headers have room for 960 signatures: comparing them takes 1 ms.
 */
function signedBy(header: string): Signed | null {
  const parts = header.split(",").map((part): [string, string] => {
    const at = part.indexOf("=");
    return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
  });
  const valuesOf = (wanted: string) =>
    parts.filter(([name]) => name === wanted).map(([, value]) => value);
  const [timestamp = "", ...others] = valuesOf("t");
  // Two headers were joined by a comma and a space.
  if (others.length > 0 || !TIMESTAMP.test(timestamp) || header.includes(" ")) return null;
  const signatures = valuesOf("v1").filter((value) => SIGNATURE.test(value));
  return { signatures, timestamp, head: encoder.encode(`${timestamp}.`) };
}

function readEvent(headers: Headers, body: Uint8Array<ArrayBuffer>): ParsedDelivery {
  mediaTypeOf(headers, ["application/json"]);
  const payload = parseJsonObject(body);
  const { object, type, id } = payload;
  if (!KINDS.includes(object)) throw invalidBody("Body must be an event of Stripe");
  if (type === undefined) throw missingType();
  return { type: checkEventType(type), deliveryId: checkDeliveryId(id), payload };
}

/**
 * Groups Stripe's events by the object that they are about, so that no two events of one subscription are handled at
 * the same time. Stripe does not promise to send them in order.
 *
 * @param delivery The delivery.
 * @returns The object's id; undefined for an event about none.
 * @category Platforms
 */
export function byObject({ payload: { data, related_object: related } }: Delivery):
  | string
  | undefined {
  return keyOf(objectOf(objectOf(data).object ?? related).id);
}
