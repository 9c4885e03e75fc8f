/**
 * A typed router for events: handlers by the event's type and action, each of which succeeds or fails
 * on its own.
 *
 * The payload types are those that the platforms publish (`@octokit/openapi-webhooks-types`,
 * `@grammyjs/types`). They are types only: nothing of them is loaded when the app runs.
 *
 * @example
 * ```ts
 * import { createEventRouter } from "@org/edge-base/router";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const opened: string[] = [];
 * const router = createEventRouter()
 *   .on("issues.opened", ({ payload }) => opened.push(payload.issue.title));
 *
 * await using bot = await startTestBot(router.handle);
 * await bot.deliver(forgeDelivery("issues", { action: "opened", issue: { title: "Help" } }));
 * assertEquals(opened, ["Help"]);
 * ```
 *
 * @module
 */
export {
  createEventRouter,
  type EventRouter,
  type EventRouterOptions,
  type HandlerOptions,
} from "./event_router.ts";
export type {
  ActionOf,
  EventHandlerFor,
  EventName,
  EventPayload,
  ForgeEvents,
  MessengerEvents,
  PlatformEvents,
  Underscored,
  UpdateKind,
  WithAction,
} from "./event_types.ts";

// Types from other folders that appear in the exports above.
export type { EventHandler, HandlerContext, WebhookEvent } from "../worker/mod.ts";
