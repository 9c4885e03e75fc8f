/**
 * A typed router for events: handlers by the event's type and action, each of which succeeds or fails
 * on its own.
 *
 * The types of payloads are those that the platforms publish (`@octokit/openapi-webhooks-types`,
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
 *   .on("issues.opened", ({ payload }) => opened.push(payload.issue.title))
 *   .onOther(() => {}); // what has no handler is dropped, not kept as dead
 *
 * await using bot = await startTestBot(router.handle);
 * await bot.deliver(forgeDelivery("issues", { action: "opened", issue: { title: "Help" } }));
 * assertEquals(opened, ["Help"]);
 * ```
 *
 * @module
 */
export type {
  ActionOf,
  EventHandlerFor,
  EventName,
  EventPayload,
  PlatformEvents,
  WithAction,
} from "./event_name.ts";
export { createEventRouter, type EventRouter, type HandlerOptions } from "./event_router.ts";
export type { ForgeEvents, Underscored } from "./forge_events.ts";
export type { MessengerEvents, UpdateKind } from "./messenger_events.ts";

// Types of other folders that these mention.
export type { EventHandler, HandlerContext, WebhookEvent } from "../worker/mod.ts";
