/**
 * The webhook intake: it verifies, parses and authorizes a request, and puts it into the event store.
 *
 * `createForgeIntake` and `createMessengerIntake` do all of that. To compose an intake by hand, use the
 * steps one by one: each passes its result to the next.
 *
 * @example
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { openEventStore, startWorker } from "@org/edge-base/events";
 * import { createForgeIntake } from "@org/edge-base/webhook";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * app.route("/", createForgeIntake({ secrets: ["It's a Secret to Everybody"], store }));
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
export { BodyBudget, type BodyShare } from "./body_budget.ts";
export { createForgeIntake, type ForgeIntakeOptions, verifyForgeDelivery } from "./forge.ts";
export { enqueueDelivery, type IntakeOptions, type IntakeStore } from "./intake.ts";
export {
  createMessengerIntake,
  type MessengerIntakeOptions,
  verifyMessengerUpdate,
} from "./messenger.ts";
export { byChat, byRepository, type OrderBy } from "./ordering.ts";
export { parseForgeDelivery } from "./platforms/forge.ts";
export { parseMessengerUpdate, updateKindOf, userIdOf } from "./platforms/messenger.ts";
export { parseJsonObject } from "./platforms/readers.ts";
export type { JsonObject } from "../core/parse_json.ts";
export { checkDeclaredBody, readBody, type ReadBodyOptions } from "./read_body.ts";
export type { VerifiedBy } from "./verifier.ts";
export { verifySecretToken } from "./verify_secret_token.ts";
export { verifySignature, verifySignatureBytes } from "./verify_signature.ts";

// Types from other folders that appear in the exports above.
export type { LogLevel, LogRecord, LogSink } from "../core/mod.ts";
export type {
  AcceptResult,
  Delivery,
  EventChat,
  EventRepository,
  EventSender,
  EventStore,
} from "../events/store/mod.ts";
export type {
  Attempt,
  AttemptedEvent,
  AttemptOutcome,
  CountedDelivery,
  DeliveryOutcome,
  StoredDelivery,
  Telemetry,
} from "../telemetry/mod.ts";
