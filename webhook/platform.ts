/**
 * Platforms as values: everything that an intake has to know about a sender of deliveries. The platforms of the
 * package are made as yours are, with {@linkcode definePlatform}.
 *
 * @module
 */
import {
  checkFunction,
  checkInteger,
  checkKeys,
  checkObject,
  checkOptions,
  checkPath,
  isPromise,
  MAX_TIMER_MS,
  met,
  metSync,
  oneOf,
  type OptionCheck,
  wholeNumber,
} from "../core/check_options.ts";
import {
  checkEnvSpec,
  type EnvOf,
  type EnvSpec,
  readEnv,
  VariableError,
  type Variables,
} from "../core/env.ts";
import type { JsonObject } from "../core/parse_json.ts";
import { checkPlatformName } from "../events/store/emission.ts";
import type { Delivery } from "../events/store/mod.ts";
import { checkRetryPolicy, type RetryPolicy } from "../events/worker/retry_policy.ts";
import type { GroupBy } from "./grouping.ts";
import {
  chatOf,
  checkDeliveryId,
  checkEventType,
  invalidBody,
  objectOf,
  payloadOf,
  repositoryOf,
  senderOf,
  textOf,
} from "./readers.ts";
import type { VerifyBody } from "./verifier.ts";

/**
 * Options that all platforms have.
 *
 * @category Platforms
 */
export interface PlatformOptions {
  /**
   * Name of the platform in this app. It begins the ids of its events (`forge:72d3162e`), and in capitals
   * the names of its variables (`FORGE_WEBHOOK_SECRET`). Two platforms of one app need different names.
   *
   * @default {"forge" | "github" | "telegram" | "slack"} The name of the function that makes the platform.
   */
  readonly name?: string | undefined;
  /**
   * Path that deliveries are posted to, in this spelling only. Two platforms of one app need different ones.
   *
   * @default {"/webhook"}
   */
  readonly path?: string | undefined;
  /**
   * Largest body, in bytes.
   *
   * @default {1_048_576} 1 MiB; for code hosts 26_214_400, the 25 MiB that GitHub sends at most.
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Time in which a body must have arrived, in milliseconds.
   *
   * @default {10_000}
   */
  readonly bodyTimeoutMs?: number | undefined;
  /**
   * Bytes that all bodies together may hold until they are stored. Beyond that, bodies that are not yet verified
   * are answered 503 `OVERLOADED`: the oldest of the small or of the large ones, whichever hold more.
   *
   * @default {134_217_728} 128 MiB.
   */
  readonly maxTotalBodyBytes?: number | undefined;
  /**
   * Returns a delivery's group, or the group's key: deliveries of one group are handled in the order
   * received, one at a time or as many as it has {@linkcode DeliveryGroup.places}. With {@linkcode DeliveryGroup.quietMs}, those that come in quick succession are handled
   * together.
   *
   * @default {undefined} Events are handled as they come.
   */
  readonly groupBy?: GroupBy | undefined;
  /**
   * Time during which the same document is a duplicate, in milliseconds, whatever delivery id it has: it
   * is answered 200, and does not create a second event. The signature of GitHub, Gitea and Forgejo covers
   * only the body, so a captured delivery can be sent again with a fresh id. At most the store's
   * {@linkcode EventStoreOptions.retentionMs}: for a longer window, set a longer retention.
   *
   * Off by default, because forges send equal documents on purpose, such as test deliveries. A document
   * whose event has died is accepted again.
   *
   * @default {undefined} Only the delivery id counts.
   */
  readonly replayWindowMs?: number | undefined;
}

/**
 * Delivery that a platform has read from a verified request.
 *
 * @category Platforms
 */
export interface ParsedDelivery
  extends Pick<Delivery, "type" | "action" | "repository" | "chat" | "sender"> {
  /**
   * Sender's id of the delivery, the same when it is sent again: up to 128 letters, digits, `_`, `.`, `:`
   * and `-`. Without one, a delivery that is sent twice makes two events.
   */
  readonly deliveryId?: string | undefined;
  /**
   * Product that sent it, if there are several: `github`, `gitea`.
   *
   * @default {name} The platform's name.
   */
  readonly source?: string | undefined;
  /**
   * JSON document that is stored, and read again as the event's payload.
   *
   * @default {body} The request's body.
   */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
  /**
   * The document as an object. A handler gets it parsed from the document. If {@linkcode parseJsonObject} has
   * made it of the document, that is done only once: leave it as it is.
   */
  readonly payload: JsonObject;
}

/**
 * Definition of a platform.
 *
 * @typeParam TEvents The payloads of its events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @category Platforms
 */
export interface PlatformDefinition<TEvents extends object, TSpec extends EnvSpec>
  extends PlatformOptions {
  /** Name of the platform, see {@linkcode PlatformOptions.name}. */
  readonly name: string;
  /**
   * Kind of the platform, in records and metrics: `forge`, `messenger`, or one of your own.
   *
   * @default {name} The platform's name.
   */
  readonly kind?: string | undefined;
  /**
   * Variables that it reads at the start.
   *
   * @default {{}} None.
   */
  readonly env?: TSpec | undefined;
  /**
   * Makes the function that verifies requests, once, from the values of the variables. Decode keys here.
   *
   * The function gets the headers, and checks what can be checked before the body is read, such as the form of
   * a signature. It returns the function that verifies the body. Both throw an {@linkcode HttpError} 401 if the
   * request is not genuine. The second one may return a name for the log of the secret that has verified it,
   * such as `secret 2`.
   *
   * @param env The values.
   * @returns The function.
   * @throws {VariableError} If the values cannot be used together.
   */
  readonly createVerifier: (
    env: EnvOf<TSpec>,
  ) => (
    headers: Headers,
  ) => (
    body: { readonly bytes: Uint8Array<ArrayBuffer> },
  ) => string | undefined | void | Promise<string | undefined | void>;
  /**
   * Reads the delivery of a verified request, or answers it: a challenge, a ping. An answered request is
   * not stored.
   *
   * @param headers The request's headers.
   * @param body The request's body.
   * @returns The delivery, or the response.
   * @throws {HttpError} 400 or 415 if the request is not one of the platform's.
   * @throws {SyntaxError} If the body is malformed, as `JSON.parse` does: it is answered 400 `INVALID_BODY`.
   */
  readonly parse: (headers: Headers, body: Uint8Array<ArrayBuffer>) => ParsedDelivery | Response;
  /**
   * Decides whether a delivery may reach the bot. If it throws, the delivery is answered 500. If it throws
   * again for the same delivery, that is not allowed, and an error is logged. If it takes longer than 5 s,
   * the delivery is answered 503.
   *
   * @param delivery The delivery.
   * @param env The values of the platform's variables, and the bindings of the app.
   * @returns True if it may.
   *
   * @default {undefined} Every verified delivery may.
   */
  readonly isAllowed?:
    | ((
      delivery: Delivery,
      env: EnvOf<TSpec> & Readonly<Record<string, unknown>>,
    ) => boolean | Promise<boolean>)
    | undefined;
  /**
   * Answer to a delivery that is not allowed: `reject` is 403 `AUTH_001`, `ignore` is 200, and the delivery
   * is logged but not stored.
   *
   * @default {"reject"}
   */
  readonly unauthorized?: "reject" | "ignore" | undefined;
  /**
   * Makes the answer to a delivery that was stored.
   *
   * @param delivery The delivery.
   * @returns The response. If it throws, the answer is 500, and the event stays stored.
   *
   * @default {undefined} 200 with the text `OK`.
   */
  readonly respond?: ((delivery: Delivery) => Response) | undefined;
  /**
   * Policy by which its events are tried again in an app of {@linkcode defineApp}, unless the app has one
   * (`worker.retry`). What a handler's own leaves out is taken from it.
   *
   * @default {undefined} The worker's: an event dies 24 to 30 hours after its first attempt.
   */
  readonly retry?: RetryPolicy | undefined;
  /**
   * Values of the variables for {@linkcode startTestBot}, so that a test need not give any.
   *
   * @default {{}} None.
   */
  readonly testEnv?: Readonly<Record<string, string>> | undefined;
  /**
   * Variables that {@linkcode startTestBot} fills with the secrets that the test kit signs with, each with the
   * name of its secret. The secrets themselves are not part of an app that runs.
   *
   * @default {{}} None.
   */
  readonly testSecrets?:
    | Readonly<Record<string, "signing" | "gitlab" | "gitlabToken" | "messenger">>
    | undefined;
  /** Payloads of its events, for the compiler only. */
  readonly events?: TEvents | undefined;
}

/**
 * Platform that sends deliveries. {@linkcode definePlatform} makes one, and so do `github`, `telegram` and
 * the others.
 *
 * @typeParam TEvents The payloads of its events, by type.
 * @category Platforms
 */
export interface Platform<TEvents extends object = object> {
  /** Name of the platform in its app. */
  readonly name: string;
  /** Kind of the platform. */
  readonly kind: string;
  /** Path that deliveries are posted to. */
  readonly path: string;
  /** Names of the variables that it reads. */
  readonly variables: readonly string[];
  /** Policy by which its events are tried again, unless the app has one; undefined for the worker's. */
  readonly retry?: RetryPolicy | undefined;
  /** Values of the variables for tests. */
  readonly testEnv: Readonly<Record<string, string>>;
  /** Variables that the test kit fills with the secrets that it signs with. */
  readonly testSecrets: NonNullable<PlatformDefinition<object, EnvSpec>["testSecrets"]>;
  /** Payloads of its events, for the compiler only. */
  readonly events?: TEvents | undefined;
}

/** Key of the product that a platform of the package is for. A platform of an app's own has none, whatever its kind. */
export const PRODUCT = Symbol("product");

/** Platform as {@linkcode definePlatform} makes it. */
interface DefinedPlatform<TEvents extends object = object> extends Platform<TEvents> {
  readonly prepare: (variables: Variables) => ReadyPlatform;
}

/** Platform whose variables have been read. */
export interface ReadyPlatform
  extends Pick<Platform, "name" | "kind" | "path">, Pick<Definition, "groupBy" | "respond"> {
  /** Limits of its intake. */
  readonly limits: Readonly<Record<"maxBodyBytes" | "bodyTimeoutMs" | "maxTotalBodyBytes", number>>;
  /** Time during which the same document is a duplicate; undefined for none. */
  readonly replayWindowMs: number | undefined;
  /** Verifies requests. */
  readonly verifyHead: VerifyHead;
  /** Reads the delivery of a verified request, or answers it. */
  readonly read: (
    headers: Headers,
    body: Uint8Array<ArrayBuffer>,
    requestId?: string,
  ) => Delivery | Response;
  /** Decides whether a delivery may reach the bot, by it and the app's bindings; undefined for all. */
  readonly isAllowed:
    | ((delivery: Delivery, bindings: object) => boolean | Promise<boolean>)
    | undefined;
  /** Answer to a delivery that is not allowed. */
  readonly unauthorized: "reject" | "ignore";
}

/** Definition of any platform. */
type Definition = PlatformDefinition<object, EnvSpec>;

/** Checks what can be checked before a body is read, and returns the function that verifies the body. */
export type VerifyHead = (headers: Headers) => VerifyBody;

/** Checks of the options that all platforms have. */
const SHARED = {
  name: undefined,
  path: checkPath,
  maxBodyBytes: wholeNumber(),
  bodyTimeoutMs: wholeNumber({ max: MAX_TIMER_MS }),
  maxTotalBodyBytes: wholeNumber(),
  groupBy: checkFunction,
  replayWindowMs: undefined,
} satisfies Record<keyof PlatformOptions, OptionCheck | undefined>;

const DEFINITION = {
  ...SHARED,
  ...{ kind: undefined, env: checkEnvSpec, createVerifier: checkFunction, parse: checkFunction },
  ...{ isAllowed: checkFunction, unauthorized: oneOf("reject", "ignore"), respond: checkFunction },
  ...{ retry: checkRetryPolicy, testEnv: undefined, testSecrets: undefined, events: undefined },
};

const MAX_BODY_BYTES = 1024 * 1024;

/** A quarter of the memory of the smallest instances of hosting platforms. */
const MAX_TOTAL_BYTES = 128 * 1024 * 1024;

/**
 * Defines a platform: how its requests are verified and read. This reads and opens nothing.
 *
 * @typeParam TEvents The payloads of its events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @param definition The definition. Its type, `PlatformDefinition`, is in `@org/edge-base/webhook`.
 * @returns The platform, for {@linkcode defineApp} or {@linkcode createIntake}.
 * @throws {TypeError} If a part of the definition has the wrong type.
 * @throws {RangeError} If a limit is out of range.
 *
 * @example
 * ```ts
 * import { definePlatform, HttpError, type Platform, secrets } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * type MeterEvents = { reading: { type: "reading"; value: number } };
 *
 * function meter(): Platform<MeterEvents> {
 *   return definePlatform({
 *     name: "meter",
 *     env: { METER_KEY: secrets },
 *     createVerifier: ({ METER_KEY }) => (headers) => {
 *       if (!METER_KEY.includes(headers.get("X-Key") ?? "")) {
 *         throw new HttpError(401, "Invalid key", { code: "INVALID_TOKEN" });
 *       }
 *       return () => {};
 *     },
 *     parse: (headers, body) => {
 *       const payload = JSON.parse(new TextDecoder().decode(body));
 *       return { type: payload.type, deliveryId: headers.get("X-Id") ?? undefined, payload };
 *     },
 *   });
 * }
 *
 * assertEquals(meter().variables, ["METER_KEY"]);
 * ```
 *
 * @category Platforms
 */
export function definePlatform<
  TEvents extends object = Readonly<Record<string, JsonObject>>,
  const TSpec extends EnvSpec = EnvSpec,
>(
  definition: PlatformDefinition<TEvents, TSpec>,
): Platform<TEvents> {
  checkObject("define the platform", definition);
  const { name, kind = name, path = "/webhook", env = {} as TSpec } = definition;
  checkPlatformName("define the platform", name);
  const doing = `define the platform '${name}'`;
  checkOptions(doing, definition, DEFINITION, ["createVerifier", "parse"]);
  const { maxBodyBytes = MAX_BODY_BYTES, bodyTimeoutMs = 10_000 } = definition;
  const { maxTotalBodyBytes = MAX_TOTAL_BYTES } = definition;
  // A smaller budget would refuse a body that 'maxBodyBytes' allows.
  const budgets = { min: maxBodyBytes, max: Number.MAX_SAFE_INTEGER };
  checkInteger(doing, "maxTotalBodyBytes", maxTotalBodyBytes, budgets);
  const limits = { maxBodyBytes, bodyTimeoutMs, maxTotalBodyBytes };
  const { isAllowed, unauthorized = "reject", testEnv = {}, testSecrets = {} } = definition;
  const { parse, groupBy, replayWindowMs, respond, retry } = definition;
  const shared = { name, kind, path };
  const platform: DefinedPlatform<TEvents> = {
    ...shared,
    ...{ variables: Object.keys(env), retry },
    testEnv,
    testSecrets,
    prepare(variables) {
      const values = readEnv(env, variables);
      const known = Object.fromEntries(
        Object.entries(values).filter(([, value]) => value !== undefined),
      );
      return {
        ...{ ...shared, limits, groupBy, replayWindowMs, unauthorized, respond },
        verifyHead: verifierOf(name, () => definition.createVerifier(values)),
        read: (headers, body, requestId) => {
          const parsed = parsedBy(parse, headers, body);
          return parsed instanceof Response ? parsed : deliveryOf(shared, parsed, body, requestId);
        },
        isAllowed: isAllowed &&
          ((delivery, bindings) =>
            isAllowed(delivery, { ...bindings, ...known } as Parameters<typeof isAllowed>[1])),
      };
    },
  };
  return platform;
}

/** Finds the product that a platform of the package is for: `github`, `telegram`; undefined for another platform. */
export function productOf(platform: Platform): string | undefined {
  return (platform as { readonly [PRODUCT]?: string })[PRODUCT];
}

/**
 * Reads the variables of a platform, and makes what verifies and reads its requests.
 *
 * @param platform The platform.
 * @param variables The variables.
 * @returns The platform, ready for an intake.
 * @throws {VariableError} If variables are missing or wrong: the message has all of them.
 */
export function preparePlatform(platform: Platform, variables: Variables): ReadyPlatform {
  return (platform as DefinedPlatform).prepare(variables);
}

function parsedBy(
  parse: Definition["parse"],
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
): ParsedDelivery | Response {
  try {
    return parse(headers, body);
  } catch (error) {
    // As JSON.parse() throws it.
    if (error instanceof SyntaxError) throw invalidBody("Body is malformed");
    throw error;
  }
}

/**
 * Makes the delivery from a platform's result. Its parts come from outside, mostly through `JSON.parse`, and a
 * record that holds anything but texts and numbers could not be read again.
 *
 * @param platform The platform.
 * @param parsed The delivery as it was read; its types may be wrong.
 * @param bytes The request's body.
 * @param requestId The id of the request.
 * @returns The delivery, with the payload of the document that is stored.
 * @throws {HttpError} 400 `INVALID_BODY` if the document is not a JSON object; 400 `INVALID_EVENT` or
 * `INVALID_DELIVERY` if the type or the delivery id is malformed.
 * @throws {TypeError} If it is not an object.
 */
export function deliveryOf(
  { name, kind }: Pick<Platform, "name" | "kind">,
  parsed: ParsedDelivery,
  bytes: Uint8Array<ArrayBuffer>,
  requestId?: string,
): Delivery {
  if (typeof parsed !== "object" || parsed === null || isPromise(parsed)) {
    throw new TypeError(
      `The platform's parse() must return a delivery or a Response, got ${metSync(parsed)}`,
    );
  }
  const { body = bytes, repository, chat, sender } = parsed;
  const deliveryId: unknown = parsed.deliveryId ?? undefined;
  return {
    platform: kind,
    intake: name,
    source: textOf(parsed.source) ?? name,
    type: checkEventType(parsed.type),
    deliveryId: deliveryId === undefined
      ? undefined
      : checkDeliveryId(Number.isSafeInteger(deliveryId) ? String(deliveryId) : deliveryId),
    action: textOf(parsed.action),
    repository: repository ? repositoryOf(objectOf(repository)) : undefined,
    chat: chat ? chatOf(objectOf(chat)) : undefined,
    sender: sender ? senderOf(objectOf(sender)) : undefined,
    requestId,
    body,
    payload: payloadOf(body, parsed.payload),
  };
}

/** Ends of the names of variables: for a secret that signs, a token that is sent along, and the users. */
const VARIABLES = {
  secret: "WEBHOOK_SECRET",
  token: "WEBHOOK_TOKEN",
  signingSecret: "SIGNING_SECRET",
  secretToken: "SECRET_TOKEN",
  users: "ALLOWED_USERS",
} as const;

/**
 * Names a variable of a platform.
 *
 * @param name The platform's name: `my-forge`.
 * @param content What the variable holds.
 * @returns The variable's name: `MY_FORGE_WEBHOOK_SECRET`.
 */
export function variableOf(name: string, content: keyof typeof VARIABLES): string {
  return `${String(name).toUpperCase().replaceAll("-", "_")}_${VARIABLES[content]}`;
}

/**
 * Checks the options of a platform of this package.
 *
 * @param product The name of the function that makes it, for the message.
 * @param options The options.
 * @param own The names of the options that only this platform has.
 * @throws {TypeError} If they are not an object, or there is another option.
 */
export function checkPlatformOptions(
  product: string,
  options: PlatformOptions,
  own: readonly string[],
): void {
  const doing = `define the platform '${product}'`;
  checkObject(doing, options);
  checkKeys(doing, options, [...Object.keys(SHARED), ...own]);
}

/**
 * Checks a platform.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param platform The platform.
 * @throws {TypeError} If it is something else.
 */
export function checkPlatform(doing: string, platform: Platform): void {
  if (typeof (platform as Partial<DefinedPlatform> | null | undefined)?.prepare === "function") {
    return;
  }
  const got = typeof platform === "function" ? "the function itself: call it" : met(platform);
  throw new TypeError(
    `Cannot ${doing}: the platform must be what github(), telegram() or another such function returns, ` +
      `got ${got}`,
  );
}

/** Makes the verifier. The message of an error from elsewhere may quote a secret. */
function verifierOf(name: string, create: () => unknown): VerifyHead {
  let verifyHead: unknown;
  try {
    verifyHead = create();
  } catch (error) {
    if (error instanceof VariableError) throw error;
    const what = error instanceof Error ? error.name : typeof error;
    throw new VariableError(
      `The platform '${name}' cannot use its variables: a ${what} was thrown`,
    );
  }
  if (typeof verifyHead === "function") return verifyHead as VerifyHead;
  throw new TypeError(
    `Cannot define the platform '${name}': 'createVerifier' must return a function, got ${
      metSync(verifyHead)
    }`,
  );
}
