/**
 * The webhook intake and what becomes of an event: a request is verified, parsed, authorized and put
 * into the event store; a worker takes it from there to the handler.
 *
 * `createForgeIntake` and `createMessengerIntake` do all of the first half. Its single steps are
 * exported for whoever composes an intake by hand, with data going from one to the next.
 *
 * @example
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { createForgeIntake, openEventStore, startWorker } from "@org/edge-base/webhook";
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
  updateKindOf,
  userIdOf,
} from "./authorize.ts";
export { BodyBudget, type BodyShare } from "./body_budget.ts";
export type { Delivery, PlatformName } from "./delivery.ts";
export { enqueueDelivery } from "./enqueue.ts";
export type { EventHandler, HandlerContext, WebhookEvent } from "./event.ts";
export type { EventChat, EventRepository, EventSender } from "./event_subject.ts";
export { createForgeIntake, type ForgeIntakeOptions } from "./forge.ts";
export { GiveUpError } from "./give_up_error.ts";
export type { IntakeOptions, IntakeStore } from "./intake.ts";
export { createEventLogger } from "./log_event.ts";
export {
  createMessengerIntake,
  type MessengerIntakeOptions,
  parseMessengerUpdate,
  verifyMessengerUpdate,
} from "./messenger.ts";
export { byChat, byRepository, type OrderBy } from "./ordering.ts";
export { parseForgeDelivery } from "./parse_forge_delivery.ts";
export { type JsonObject, parseJsonObject } from "../core/parse_json.ts";
export type { ProvedBy } from "./proved_by.ts";
export { checkDeclaredBody, readBody, type ReadBodyOptions } from "./read_body.ts";
export { retryDelay, type RetryPolicy } from "./retry_policy.ts";
export { type EventWorker, startWorker } from "./worker.ts";
export type { WorkerOptions } from "./worker_options.ts";
export { verifyForgeDelivery } from "./verify_forge_delivery.ts";
export { verifySecretToken } from "./verify_secret_token.ts";
export { verifySignature, verifySignatureBytes } from "./verify_signature.ts";
export * from "./store/mod.ts";
