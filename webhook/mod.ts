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
 * @example The steps one by one
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { openEventStore } from "@org/edge-base/events";
 * import { checkDeclaredBody, enqueueDelivery, readBody } from "@org/edge-base/webhook";
 * import { parseForgeDelivery, verifyForgeDelivery } from "@org/edge-base/webhook";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * app.post("/webhook", async (c) => {
 *   const { headers } = c.req.raw;
 *   checkDeclaredBody(headers, 1_000_000);
 *   const body = await readBody(c.req.raw, { maxBytes: 1_000_000 });
 *   verifyForgeDelivery(headers, body, ["a long random text"]); // over bytes, before all else
 *   const delivery = parseForgeDelivery(headers, body);
 *   await enqueueDelivery(store, { ...delivery, requestId: c.var.requestId }); // or 503
 *   return c.text("OK");
 * });
 *
 * assertEquals((await app.request("/webhook", { method: "POST" })).status, 401);
 * ```
 *
 * @module
 */
export { forge, type ForgeOptions, gitea, github, gitlab } from "./forge.ts";
export { byRepository, parseForgeDelivery, verifyForgeDelivery } from "./forge.ts";
export { type DeliveryGroup, type GroupBy } from "./grouping.ts";
export { createIntake, enqueueDelivery, type IntakeOptions } from "./intake.ts";
export { messenger, type MessengerOptions, telegram } from "./messenger.ts";
export {
  byChat,
  isUserAuthorized,
  parseMessengerUpdate,
  verifyMessengerUpdate,
} from "./messenger.ts";
export {
  definePlatform,
  type ParsedDelivery,
  type Platform,
  type PlatformDefinition,
  type PlatformOptions,
} from "./platform.ts";
export { checkDeclaredBody, readBody } from "./read_body.ts";
export { parseJsonObject } from "./readers.ts";
export { byChannel, byThread, slack, type SlackOptions } from "./slack.ts";
export { standard, type StandardOptions } from "./standard.ts";
export { byObject, stripe, type StripeOptions } from "./stripe.ts";
export {
  isWeakPublicKey,
  verifySecretToken,
  verifySignature,
  verifySignatureBytes,
} from "./verify_signature.ts";

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
export type { JsonObject } from "../core/parse_json.ts";
export type {
  AcceptResult,
  BatchOptions,
  Delivery,
  EventChat,
  EventRepository,
  EventSender,
  EventStore,
  InterruptRule,
  NewerOptions,
  PlacesOptions,
} from "../events/store/mod.ts";
export type { Attempt, Telemetry } from "../telemetry/mod.ts";
