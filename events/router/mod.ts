/**
 * The types of the platforms' payloads, and the router behind `bot.on`: handlers by the event's type and
 * action, each of which succeeds or fails on its own.
 *
 * In an app of `defineApp` you need this entry point only for types, such as `EventPayload<GithubEvents,
 * "push">`. They are those that GitHub, Telegram and Slack publish (`@octokit/openapi-webhooks-types`,
 * `@grammyjs/types`, `@slack/types`), and those that GitLab and Stripe document. Nothing of them is loaded when the
 * app runs.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import type { EventPayload, GithubEvents } from "@org/edge-base/router";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * function branchOf({ ref }: EventPayload<GithubEvents, "push">): string {
 *   return ref.replace("refs/heads/", "");
 * }
 *
 * const branches: string[] = [];
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("push", ({ payload }) => branches.push(branchOf(payload)));
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(forgeDelivery("push", { ref: "refs/heads/main" }));
 * assertEquals(branches, ["main"]);
 * ```
 *
 * @module
 */
export {
  createEventRouter,
  type EventRouter,
  type EventsOf,
  type HandlerOptions,
  type RouterOptions,
  type RouterTypes,
} from "./event_router.ts";
export type {
  ActionOf,
  EventName,
  EventPayload,
  FieldOf,
  ForgeEvents,
  GithubEvents,
  TelegramEvents,
  Underscored,
} from "./event_types.ts";
export type {
  GitlabChange,
  GitlabChanges,
  GitlabCommit,
  GitlabEvents,
  GitlabIssue,
  GitlabLabel,
  GitlabMergeRequest,
  GitlabNote,
  GitlabPerson,
  GitlabProject,
  GitlabRepository,
  GitlabUser,
} from "./gitlab_events.ts";
export type {
  SlackBlockActions,
  SlackCallback,
  SlackCommand,
  SlackEvents,
  SlackInteraction,
  SlackShortcut,
  SlackViewEvent,
} from "./slack_events.ts";
export type { StripeEvents, StripeSnapshotEvent, StripeThinEvent } from "./stripe_events.ts";

// Types from other folders that appear in the exports above.
export type { EventStore, StoreDefinition } from "../store/mod.ts";
export type {
  EventHandler,
  HandlerContext,
  RatedEvent,
  RateOptions,
  WebhookEvent,
} from "../worker/mod.ts";
