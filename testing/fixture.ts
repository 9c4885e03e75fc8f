import { checkOptions, met } from "../core/check_options.ts";
import { isText, orNone, shape } from "../core/shape.ts";
import {
  forgeDelivery,
  type ForgeSender,
  type MessengerSender,
  messengerUpdate,
  standardDelivery,
  type TestDelivery,
} from "./deliveries.ts";
import { slackDelivery } from "./slack_delivery.ts";
import { stripeDelivery } from "./stripe_delivery.ts";

/**
 * Delivery that was stored, as the console's page of an event offers it for tests: a JSON file without a secret, also where
 * the payload had one, such as Slack's `response_url`.
 *
 * @category Deliveries
 */
export interface Fixture {
  /** Name of the format. */
  readonly format: "edge-base.fixture";
  /** Kind of the platform: `forge`, `messenger`, `slack`, `standard` or `stripe`. */
  readonly kind: "forge" | "messenger" | "slack" | "standard" | "stripe";
  /** Name of the platform in its app. */
  readonly platform: string;
  /** Product that has sent it: `github`. */
  readonly source: string;
  /** Type of its event: `issues`. */
  readonly type: string;
  /** Id of the delivery; undefined if its sender gives none. */
  readonly id?: string | undefined;
  /** Payload, if that is text. */
  readonly body?: string | undefined;
  /** Payload in base64, if it is not. */
  readonly base64?: string | undefined;
}

/**
 * Options of {@linkcode fixtureDelivery}.
 *
 * @category Deliveries
 */
export interface FixtureOptions {
  /**
   * Id of the delivery. A messenger, Slack and Stripe have it in the payload, which stays as it is.
   *
   * @default {fixture.id} The one that it had.
   */
  readonly id?: string | undefined;
  /**
   * Secret that it is signed with.
   *
   * @default {TEST_SECRETS} The sender's.
   */
  readonly secret?: string | undefined;
  /**
   * Path that it is posted to.
   *
   * @default {undefined} The path of the app's platform of that name.
   */
  readonly path?: string | undefined;
}

const DOING = "deliver the fixture";

/** Kinds of platforms whose deliveries can be signed. */
export const FIXTURE_KINDS: readonly string[] = [
  ...["forge", "messenger", "slack", "standard", "stripe"] satisfies Fixture["kind"][],
];

const isFixture = shape({
  format: (value) => value === "edge-base.fixture",
  kind: isText,
  ...{ platform: isText, source: isText, type: isText, id: orNone(isText) },
  ...{ body: orNone(isText), base64: orNone(isText) },
});

/**
 * Builds the delivery of a fixture: signed anew, with the payload that it had, byte for byte.
 *
 * @param fixture The fixture, as its file has it.
 * @param options The id, the secret and the path, if they are to be others.
 * @returns The delivery.
 * @throws {TypeError} If it is no fixture, or there is another option.
 *
 * @example
 * ```ts
 * import { fixtureDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * // import fixture from "./fixtures/opened.json" with { type: "json" };
 * const fixture = {
 *   format: "edge-base.fixture",
 *   kind: "forge",
 *   platform: "github",
 *   source: "github",
 *   type: "issues",
 *   id: "72d3162e",
 *   body: '{"action":"opened"}',
 * };
 * const delivery = fixtureDelivery(fixture);
 * assertEquals(delivery.headers.get("X-GitHub-Delivery"), "72d3162e");
 * ```
 *
 * @category Deliveries
 */
export function fixtureDelivery(fixture: object, options: FixtureOptions = {}): TestDelivery {
  checkOptions(DOING, options, { id: undefined, secret: undefined, path: undefined });
  const { platform, body, ...known } = checked(fixture);
  const given = { ...options, id: options.id ?? known.id };
  return { ...signed({ ...known, platform }, body, given), platform };
}

function checked(
  fixture: object,
): Omit<Fixture, "body"> & { readonly body: string | Uint8Array<ArrayBuffer> } {
  if (!isFixture(fixture)) {
    throw new TypeError(
      `Cannot ${DOING}: it must be what the console has saved, got ${met(fixture)}`,
    );
  }
  const { body, base64, ...known } = fixture as unknown as Fixture;
  if (!FIXTURE_KINDS.includes(known.kind)) {
    throw new TypeError(
      `Cannot ${DOING}: 'kind' must be that of a built-in platform (${
        FIXTURE_KINDS.join(", ")
      }), got ${met(known.kind)}. Sign others yourself`,
    );
  }
  if ((body === undefined) === (base64 === undefined)) {
    throw new TypeError(`Cannot ${DOING}: it must have either a 'body' or 'base64'`);
  }
  return { ...known, body: body ?? Uint8Array.fromBase64(base64!) };
}

function signed(
  { kind, source, type, platform }: Omit<Fixture, "body">,
  body: string | Uint8Array<ArrayBuffer>,
  options: FixtureOptions,
): TestDelivery {
  if (kind === "forge") {
    return forgeDelivery(type, body, { ...options, from: source as ForgeSender });
  }
  if (kind === "standard") return standardDelivery(body, { ...options, platform });
  // All others have their id in the payload, which is sent byte for byte.
  const { id: _, ...update } = options;
  if (kind === "slack") return slackDelivery(body, update);
  if (kind === "stripe") return stripeDelivery(body, update);
  return messengerUpdate(body, { ...update, from: source as MessengerSender });
}
