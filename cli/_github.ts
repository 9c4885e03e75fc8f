import {
  type GithubHook,
  type GithubWebhooks,
  listed,
  unknownForm,
} from "../catch_up/github_api.ts";
import { fieldOf, quoted } from "../core/call_api.ts";
import { oneLine } from "../core/log.ts";
import type { ConnectOptions } from "./_connect_options.ts";
import { shownUrl } from "./_secrets.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Hint for a webhook that cannot be made. */
const HINTS = {
  422:
    "GitHub refuses the webhook's settings: another one may have this URL, or the URL or an event " +
    "is unknown to it",
};

/** Registers the webhook: changes the one with this URL, or creates one. */
export async function registerAtGithub(
  api: GithubWebhooks,
  { webhook, secret, events, json }: ConnectOptions,
  { out }: CliWorld,
): Promise<void> {
  const config = { url: webhook, content_type: "json", insecure_ssl: "0", secret };
  const there = (await api.hooks()).find(({ url }) => URL.parse(url)?.href === webhook);
  if (there === undefined) {
    const body = { name: "web", active: true, events: events ?? ["*"], config };
    await api.call("", { method: "POST", body, hints: HINTS });
    if (!json) out(`created  ${shownUrl(webhook)}`);
    return;
  }
  // Without a list GitHub would set the events to its default, push.
  const body = { active: true, events: events ?? eventsOf(there), config };
  await api.call(`/${there.id}`, { method: "PATCH", body, hints: HINTS });
  if (!json) out(`changed  ${there.id}  ${shownUrl(webhook)}`);
}

/** Shows the repository's webhooks. */
export async function showGithub(
  api: GithubWebhooks,
  { json }: ConnectOptions,
  { out }: CliWorld,
): Promise<void> {
  const hooks = await api.hooks();
  if (hooks.length === 0 && !json) out(`${api.owner} has no webhook`);
  for (const hook of hooks) {
    const shown = {
      ...{ id: hook.id, url: shownUrl(hook.url), active: hook.facts.active === true },
      ...{ events: eventsOf(hook), lastResponse: responseOf(hook.facts.last_response) },
    };
    out(json ? JSON.stringify(shown) : lineOf(shown));
  }
}

/**
 * Finds the webhook whose delivery log is meant: the named one, or the only one.
 *
 * @throws {UsageError} If there are several. The message names them.
 */
export async function findHook(
  api: GithubWebhooks,
  wanted: string | undefined,
): Promise<string> {
  const { owner: repository } = api;
  const hooks = await api.hooks();
  const names = listed(hooks);
  if (hooks.length === 0) {
    throw new Error(
      `${repository} has no webhook, and so no delivery log: create one with connect github ` +
        `${repository} URL`,
    );
  }
  if (wanted === undefined && hooks.length > 1) {
    throw new UsageError(`${repository} has several webhooks, choose one with --hook: ${names}`);
  }
  const hook = hooks.find(({ id }) => wanted === undefined || id === wanted);
  if (hook !== undefined) return hook.id;
  throw new UsageError(`${repository} has no webhook ${wanted}, only ${names}`);
}

function eventsOf({ facts: { events } }: GithubHook): string[] {
  if (Array.isArray(events)) return events.map(quoted);
  throw unknownForm("a webhook without events");
}

function responseOf(response: unknown): string {
  const code = fieldOf(response, "code");
  const message = quoted(fieldOf(response, "message")) || quoted(fieldOf(response, "status"));
  return typeof code === "number" ? `${code} ${message}`.trimEnd() : message;
}

/** Facts about a webhook that are shown. */
interface ShownHook {
  readonly id: string;
  readonly url: string;
  readonly active: boolean;
  readonly events: readonly string[];
  /** Answer to the last delivery. */
  readonly lastResponse: string;
}

function lineOf({ id, url, active, events, lastResponse }: ShownHook): string {
  const columns = [
    ...[id, active ? "active" : "inactive", url, events.join(",")],
    `last response: ${lastResponse || "none"}`,
  ];
  return oneLine(columns.join("  "));
}
