/**
 * Platforms, and the intakes of their deliveries. `github()`, `telegram()`, `gitlab()` and the others are
 * platforms, and {@linkcode definePlatform} makes one of your own.
 *
 * An app of `defineApp` takes its platform's deliveries in by itself. In an app that is composed by hand,
 * {@linkcode createIntake} does: it verifies, parses and authorizes a request, and puts it into the event
 * store. Its steps are here one by one as well: each passes its result to the next.
 *
 * @example
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { openEventStore, startWorker } from "@org/edge-base/events";
 * import { createIntake, github } from "@org/edge-base/webhook";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * const env = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" };
 * app.route("/", createIntake(github(), { store, env }));
 * const worker = startWorker(store, (event) => console.log(event.type));
 *
 * assertEquals((await app.request("/webhook", { method: "POST" })).status, 401);
 * await worker.stop();
 * ```
 *
 * @module
 */
export {
  type AllowedUsersEnv,
  authorizeUpdate,
  type AuthorizeUser,
  isUserAuthorized,
} from "./authorize.ts";
export { BodyBudget, type BodyShare, type ReservedRoom } from "./body_budget.ts";
export {
  forge,
  type ForgeOptions,
  gitea,
  github,
  type GithubOptions,
  gitlab,
  verifyForgeDelivery,
} from "./forge.ts";
export {
  createIntake,
  enqueueDelivery,
  type IntakeOptions,
  type IntakeParts,
  type IntakeStore,
} from "./intake.ts";
export { messenger, type MessengerOptions, telegram, verifyMessengerUpdate } from "./messenger.ts";
export { byChat, byRepository, type DeliveryGroup, type GroupBy } from "./grouping.ts";
export {
  definePlatform,
  type LimitName,
  type Platform,
  type PlatformDefinition,
  type PlatformOptions,
  type ReadyPlatform,
  type ReceivedBody,
  type TestSecretName,
  type VerifyBody,
  type VerifyHead,
} from "./platform.ts";
export { parseForgeDelivery } from "./platforms/forge.ts";
export { parseMessengerUpdate, updateKindOf, userIdOf } from "./platforms/messenger.ts";
export { type ParsedDelivery, parseJsonObject } from "./platforms/readers.ts";
export type { JsonObject } from "../core/parse_json.ts";
export { checkDeclaredBody, readBody, type ReadBodyOptions } from "./read_body.ts";
export type { VerifiedBy } from "./verifier.ts";
export { standard, type StandardEvents, type StandardOptions } from "./standard.ts";
export { verifySecretToken } from "./verify_secret_token.ts";
export { isWeakPublicKey, verifySignature, verifySignatureBytes } from "./verify_signature.ts";

// Types from other folders that appear in the exports above.
export {
  type EnvOf,
  type EnvSpec,
  type EnvVariable,
  optional,
  required,
  secrets,
  VariableError,
  type Variables,
} from "../core/env.ts";
export type { LogLevel, LogRecord, LogSink } from "../core/mod.ts";
export type {
  AcceptResult,
  Delivery,
  EventChat,
  EventRepository,
  EventSender,
  EventStore,
} from "../events/store/mod.ts";
export type { Attempt, AttemptedEvent, Telemetry } from "../telemetry/mod.ts";
