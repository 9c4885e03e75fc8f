/**
 * Tools for testing bots: signed deliveries of every sender, and a bot that handles them within the test,
 * with a clock that can be advanced.
 *
 * @example
 * ```ts
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const titles: unknown[] = [];
 *
 * await using bot = await startTestBot(({ payload }) => titles.push(payload.issue));
 * await bot.deliver(forgeDelivery("issues", { action: "opened", issue: "Help" }));
 * assertEquals(titles, ["Help"]);
 * ```
 *
 * @module
 */
export {
  forgeDelivery,
  type ForgeDeliveryOptions,
  type ForgeSender,
  type TestDelivery,
} from "./forge_delivery.ts";
export {
  type MessengerSender,
  messengerUpdate,
  type MessengerUpdateOptions,
} from "./messenger_update.ts";
export {
  type Outcome,
  startTestBot,
  type TestBot,
  type TestBotOptions,
  type TestCallOptions,
} from "./test_bot.ts";
export { TEST_SECRETS, type TestSecrets } from "./test_secrets.ts";

// Types from other folders that appear in the exports above.
export type {
  EventHandler,
  EventRecord,
  EventStore,
  PlatformName,
  WorkerOptions,
} from "../events/mod.ts";
export type { LogRecord } from "../core/mod.ts";
export type { ForgeIntakeOptions, JsonObject, MessengerIntakeOptions } from "../webhook/mod.ts";
