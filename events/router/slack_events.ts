import type { SlackEvent, View } from "@slack/types";

/**
 * An event of Slack's Events API, in its envelope.
 *
 * @typeParam TEvent The event.
 * @category Types of payloads
 */
export interface SlackCallback<TEvent> {
  /** Kind of the envelope. */
  readonly type: "event_callback";
  /** Id of the event, the same when Slack sends it again. */
  readonly event_id: string;
  /** Time of the event, in seconds since the epoch. */
  readonly event_time: number;
  /** Id of the workspace. */
  readonly team_id: string;
  /** Id of the app. */
  readonly api_app_id: string;
  /** Event. */
  readonly event: TEvent;
}

/**
 * A slash command: the fields that Slack posts.
 *
 * @category Types of payloads
 */
export interface SlackCommand {
  /** Kind of the payload. */
  readonly type: "slash_command";
  /** Command, with its slash. */
  readonly command: string;
  /** Text behind the command; empty without one. */
  readonly text: string;
  /** Address for answers, for 30 minutes. */
  readonly response_url: string;
  /** Id with which a modal can be opened, for 3 s after the command. */
  readonly trigger_id: string;
  /** Id of the user. */
  readonly user_id: string;
  /** Id of the conversation. */
  readonly channel_id: string;
  /** Id of the workspace. */
  readonly team_id: string;
  /** Id of the app. */
  readonly api_app_id: string;
}

/**
 * Parts that all interactions of Slack have: the person, the workspace and the app.
 *
 * @category Types of payloads
 */
export interface SlackInteraction {
  /** Person. */
  readonly user: { readonly id: string; readonly name?: string; readonly team_id?: string };
  /** Workspace; null for an app of a whole organization. */
  readonly team: { readonly id: string; readonly domain?: string } | null;
  /** Id of the app. */
  readonly api_app_id: string;
  /** Id with which a modal can be opened, for 3 s after the interaction. */
  readonly trigger_id?: string;
}

/**
 * A click on a button, or a choice in a menu.
 *
 * @category Types of payloads
 */
export interface SlackBlockActions extends SlackInteraction {
  /** Kind of the payload. */
  readonly type: "block_actions";
  /** Elements that were used: nearly always one. */
  readonly actions: readonly {
    readonly type: string;
    readonly action_id: string;
    readonly block_id: string;
    readonly action_ts: string;
    readonly value?: string;
    readonly selected_option?: { readonly value: string };
  }[];
  /** Address for answers, for 30 minutes; undefined in a modal or a home tab. */
  readonly response_url?: string;
  /** Conversation of the message; undefined in a modal or a home tab. */
  readonly channel?: { readonly id: string; readonly name?: string };
  /** Message with the element; undefined in a modal or a home tab. */
  readonly message?: { readonly ts: string; readonly thread_ts?: string; readonly text?: string };
  /** Modal or home tab with the element. */
  readonly view?: SlackViewEvent["view"];
}

/**
 * A modal that was submitted or closed.
 *
 * @category Types of payloads
 */
export interface SlackViewEvent extends SlackInteraction {
  /** Kind of the payload. */
  readonly type: "view_submission" | "view_closed";
  /** Modal, with what was put in (`state`). */
  readonly view: View & {
    readonly id: string;
    readonly hash: string;
    readonly state: {
      readonly values: {
        readonly [blockId: string]: { readonly [actionId: string]: { readonly type: string } };
      };
    };
  };
}

/**
 * A shortcut, of the whole workspace or of a message.
 *
 * @category Types of payloads
 */
export interface SlackShortcut extends SlackInteraction {
  /** Kind of the payload. */
  readonly type: "shortcut" | "message_action";
  /** Name that the app has given to the shortcut. */
  readonly callback_id: string;
  /** Address for answers, for 30 minutes; only for a message's shortcut. */
  readonly response_url?: string;
  /** Conversation of the message; only for a message's shortcut. */
  readonly channel?: { readonly id: string; readonly name?: string };
  /** Message; only for a message's shortcut. */
  readonly message?: { readonly ts: string; readonly thread_ts?: string; readonly text?: string };
}

/**
 * The payloads of Slack: of events by their type and, after a dot, their subtype (`message.channel_join`), of commands
 * and interactions by their type and the name that the app has given (`slash_command.deploy`, `block_actions.approve`,
 * `view_submission.order`, `shortcut.help`).
 *
 * @category Types of payloads
 */
export type SlackEvents =
  & {
    readonly [TType in SlackEvent["type"]]: TType extends "app_rate_limited"
      ? Extract<SlackEvent, { type: TType }> // without an envelope
      : SlackCallback<Extract<SlackEvent, { type: TType }>>;
  }
  & {
    readonly [
      TSubtype in NonNullable<
        Extract<SlackEvent, { type: "message" }>["subtype"]
      > as `message.${TSubtype}`
    ]: SlackCallback<Extract<SlackEvent, { type: "message"; subtype: TSubtype }>>;
  }
  & {
    readonly slash_command: SlackCommand;
    readonly [name: `slash_command.${string}`]: SlackCommand;
    readonly block_actions: SlackBlockActions;
    readonly [name: `block_actions.${string}`]: SlackBlockActions;
    readonly view_submission: SlackViewEvent & { readonly type: "view_submission" };
    readonly [name: `view_submission.${string}`]: SlackViewEvent & {
      readonly type: "view_submission";
    };
    readonly view_closed: SlackViewEvent & { readonly type: "view_closed" };
    readonly [name: `view_closed.${string}`]: SlackViewEvent & { readonly type: "view_closed" };
    readonly shortcut: SlackShortcut & { readonly type: "shortcut" };
    readonly [name: `shortcut.${string}`]: SlackShortcut & { readonly type: "shortcut" };
    readonly message_action: SlackShortcut & { readonly type: "message_action" };
    readonly [name: `message_action.${string}`]: SlackShortcut & {
      readonly type: "message_action";
    };
  };
