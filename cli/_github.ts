import { fieldOf, quoted } from "./_api.ts";
import type { ConnectOptions } from "./_connect_options.ts";
import { type GithubApi, unknownForm } from "./_github_api.ts";
import { memberOf } from "../core/json_text.ts";
import { oneLine } from "./_output.ts";
import { shownUrl } from "./_secrets.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Webhook of a repository. */
interface Hook {
  readonly id: string;
  readonly url: string;
  readonly active: boolean;
  readonly events: readonly string[];
  /** Answer to the last delivery. */
  readonly lastResponse: string;
}

/** Registers the webhook: changes the one with this URL, or creates one. */
export async function registerAtGithub(
  api: GithubApi,
  { webhook, secret, events, json }: ConnectOptions,
  { out }: CliWorld,
  signal: AbortSignal,
): Promise<void> {
  const config = { url: webhook, content_type: "json", insecure_ssl: "0", secret };
  const there = (await hooksOf(api, signal)).find(({ url }) => URL.parse(url)?.href === webhook);
  if (there === undefined) {
    const body = { name: "web", active: true, events: events ?? ["*"], config };
    await api.call("", signal, { method: "POST", body });
    if (!json) out(`created  ${shownUrl(webhook)}`);
    return;
  }
  // Without a list GitHub would set the events to its default, push.
  const body = { active: true, events: events ?? there.events, config };
  await api.call(`/${there.id}`, signal, { method: "PATCH", body });
  if (!json) out(`changed  ${there.id}  ${shownUrl(webhook)}`);
}

/** Shows the repository's webhooks. */
export async function showGithub(
  api: GithubApi,
  { json, repository }: ConnectOptions,
  { out }: CliWorld,
  signal: AbortSignal,
): Promise<void> {
  const hooks = await hooksOf(api, signal);
  if (hooks.length === 0 && !json) out(`${repository} has no webhook`);
  for (const hook of hooks) {
    const shown = { ...hook, url: shownUrl(hook.url) };
    out(json ? JSON.stringify(shown) : lineOf(shown));
  }
}

/**
 * Finds the webhook whose delivery log is meant: the named one, or the only one.
 *
 * @throws {UsageError} If there are several. The message names them.
 */
export async function findHook(
  api: GithubApi,
  { hook: wanted, repository }: ConnectOptions,
  signal: AbortSignal,
): Promise<string> {
  const hooks = await hooksOf(api, signal);
  const names = hooks.map(({ id, url }) => `${id} (${URL.parse(url)?.host ?? "?"})`).join(", ");
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

async function hooksOf(api: GithubApi, signal: AbortSignal): Promise<Hook[]> {
  const hooks: Hook[] = [];
  for await (const { elements } of api.pages("", signal)) {
    hooks.push(...elements.map(hookOf));
  }
  return hooks;
}

function hookOf(text: string): Hook {
  const id = memberOf(text, "id");
  const hook: unknown = JSON.parse(text);
  const [events, url] = [fieldOf(hook, "events"), fieldOf(fieldOf(hook, "config"), "url")];
  if (id === undefined || !/^\d{1,20}$/.test(id) || !Array.isArray(events)) {
    throw unknownForm("a webhook without id or events");
  }
  return {
    id,
    url: typeof url === "string" ? url : "",
    active: fieldOf(hook, "active") === true,
    events: events.map(quoted),
    lastResponse: responseOf(fieldOf(hook, "last_response")),
  };
}

function responseOf(response: unknown): string {
  const code = fieldOf(response, "code");
  const message = quoted(fieldOf(response, "message")) || quoted(fieldOf(response, "status"));
  return typeof code === "number" ? `${code} ${message}`.trimEnd() : message;
}

function lineOf({ id, url, active, events, lastResponse }: Hook): string {
  const columns = [
    ...[id, active ? "active" : "inactive", url, events.join(",")],
    `last response: ${lastResponse || "none"}`,
  ];
  return oneLine(columns.join("  "));
}
