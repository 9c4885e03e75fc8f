import { fieldOf } from "../core/parse_json.ts";
import {
  GITHUB,
  type GithubHook,
  type GithubWebhooks,
  listed,
  openGithub,
} from "../catch_up/github_api.ts";
import { quoted, unknownForm } from "../core/call_api.ts";
import { oneLine } from "../core/log.ts";
import type { Forwarder } from "./_forward.ts";
import { forwardLog } from "./_github_deliveries.ts";
import { shownUrl } from "./_secrets.ts";
import { UsageError } from "./_world.ts";

/** Hint for a webhook that cannot be created or changed. */
const HINTS = {
  422:
    "GitHub refuses the webhook's settings: another one may have this URL, or the URL or an event " +
    "is unknown to it",
};

/** A repository's webhooks: what `connect github` does with them. */
export class Github {
  readonly #forwarder: Forwarder;
  readonly #api: GithubWebhooks;

  constructor(forwarder: Forwarder) {
    this.#forwarder = forwarder;
    const { options: { api, token, repository }, world: { now }, signal } = forwarder;
    this.#api = openGithub({ token, api }, { signal, now })({ repository });
  }

  /** Registers the webhook: changes the one with this URL, or creates one. */
  async register(): Promise<void> {
    const { options: { webhook, secret, events, json }, world } = this.#forwarder;
    const config = { url: webhook, content_type: "json", insecure_ssl: "0", secret };
    const there = (await this.#api.hooks()).find(({ url }) => URL.parse(url)?.href === webhook);
    if (there === undefined) {
      const body = { name: "web", active: true, events: events ?? ["*"], config };
      await this.#api.call("", { method: "POST", body, hints: HINTS });
      if (!json) world.out(`created  ${shownUrl(webhook)}`);
      return;
    }
    // Without a list GitHub would set the events to its default, push.
    const body = { active: true, events: events ?? eventsOf(there), config };
    await this.#api.call(`/${there.id}`, { method: "PATCH", body, hints: HINTS });
    if (!json) world.out(`changed  ${there.id}  ${shownUrl(webhook)}`);
  }

  /** Shows the webhooks. */
  async show(): Promise<void> {
    const { options: { json }, world: { out } } = this.#forwarder;
    const hooks = await this.#api.hooks();
    if (hooks.length === 0 && !json) out(`${this.#api.owner} has no webhook`);
    for (const hook of hooks) {
      const { id, facts } = hook;
      const [url, active, events] = [shownUrl(hook.url), facts.active === true, eventsOf(hook)];
      const lastResponse = responseOf(facts.last_response);
      if (json) out(JSON.stringify({ id, url, active, events, lastResponse }));
      else {
        const response = `last response: ${lastResponse || "none"}`;
        const columns = [id, active ? "active" : "inactive", url, events.join(","), response];
        out(oneLine(columns.join("  ")));
      }
    }
  }

  /** Hands new deliveries of a webhook's log to the app. */
  async forward(): Promise<never> {
    return await forwardLog(this.#api, () => this.#findHook(), this.#forwarder);
  }

  /**
   * Finds the webhook whose delivery log is meant: the named one, or the only one.
   *
   * @throws {UsageError} If there are several. The message names them.
   */
  async #findHook(): Promise<string> {
    const { owner } = this.#api;
    const { hook: wanted } = this.#forwarder.options;
    const hooks = await this.#api.hooks();
    if (hooks.length === 0) {
      throw new Error(
        `${owner} has no webhook, and so no delivery log: create one with connect github ${owner} URL`,
      );
    }
    if (wanted === undefined && hooks.length > 1) {
      throw new UsageError(
        `${owner} has several webhooks, choose one with --hook: ${listed(hooks)}`,
      );
    }
    const hook = hooks.find(({ id }) => wanted === undefined || id === wanted);
    if (hook !== undefined) return hook.id;
    throw new UsageError(`${owner} has no webhook ${wanted}, only ${listed(hooks)}`);
  }
}

function eventsOf({ facts: { events } }: GithubHook): string[] {
  if (Array.isArray(events)) return events.map(quoted);
  throw unknownForm(GITHUB, "a webhook without events");
}

function responseOf(response: unknown): string {
  const code = fieldOf(response, "code");
  const message = quoted(fieldOf(response, "message")) || quoted(fieldOf(response, "status"));
  return typeof code === "number" ? `${code} ${message}`.trimEnd() : message;
}
