/**
 * Tools for testing bots: signed deliveries of every sender, and your app, running within the test, with a
 * clock that can be advanced.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const titles: string[] = [];
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("issues.opened", ({ payload }) => titles.push(payload.issue.title));
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(forgeDelivery("issues", { action: "opened", issue: { title: "Help" } }));
 * assertEquals(titles, ["Help"]);
 * ```
 *
 * @module
 */
export { checkContentTypes } from "./check_content_types.ts";
export {
  forgeDelivery,
  type ForgeDeliveryOptions,
  messengerUpdate,
  type MessengerUpdateOptions,
  standardDelivery,
  type StandardDeliveryOptions,
  type TestDelivery,
} from "./deliveries.ts";
export { slackDelivery, type SlackDeliveryOptions } from "./slack_delivery.ts";
export { stripeDelivery, type StripeDeliveryOptions } from "./stripe_delivery.ts";
export { type Fixture, fixtureDelivery, type FixtureOptions } from "./fixture.ts";
export {
  type FakeOf,
  type Outcome,
  startTestBot,
  type TestBot,
  type TestBotOptions,
} from "./test_bot.ts";
export { TEST_SECRETS } from "./test_secrets.ts";

// Types from other folders that appear in the exports above.
export type { App } from "../app/define_app.ts";
export type { AppDefinition } from "../app/definition.ts";
export type { EventRecord, EventStore, StoreDefinition } from "../events/mod.ts";
export type { LogRecord } from "../core/mod.ts";
