import { VariableError, type Variables } from "../core/env.ts";
import type { NotifierKind } from "../events/mod.ts";
import type { Place } from "./serve_app.ts";

/**
 * Reads a whole number.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @param options `fallback` is the number to use if the variable is not set, or blank; `max` is the largest
 * number allowed. The smallest is 0.
 * @returns The number.
 * @throws {VariableError} If the variable is not a whole number in that range.
 */
export function readInteger(
  variables: Variables,
  name: string,
  { fallback, max }: { readonly fallback: number; readonly max: number },
): number {
  const text = variables.get(name)?.trim();
  if (!text) return fallback;
  if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
  throw new VariableError(`${name} must be a whole number from 0 to ${max}`);
}

/**
 * Reads the notifier that wakes workers.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The notifier. `auto` becomes `watch` on Deno Deploy, which has no KV queues.
 * @throws {VariableError} If it is none of `auto`, `enqueue` and `watch`.
 */
export function readNotifier(variables: Variables, name: string): NotifierKind | "auto" {
  const notifier = variables.get(name)?.trim() || "auto";
  if (notifier === "enqueue" || notifier === "watch") return notifier;
  if (notifier !== "auto") throw new VariableError(`${name} must be auto, enqueue or watch`);
  return onDeploy(variables) ? "watch" : "auto";
}

/** URL of a remote KV. */
export const REMOTE_KV: RegExp = /^https?:\/\//i;

/**
 * Reads the place of the KV.
 *
 * @param variables The variables.
 * @returns A path, `:memory:` or the URL of a remote KV; undefined for Deno's default database.
 * @throws {VariableError} If it is another URL.
 */
export function readKvUrl(variables: Variables): string | undefined {
  const place = variables.get("KV_URL")?.trim();
  if (!place) return undefined;
  if (!/^\w+:\/\//.test(place) || REMOTE_KV.test(place)) return place;
  throw new VariableError("KV_URL must be a path, :memory: or a URL with http or https");
}

/**
 * Reads the form of the log's records.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The form. `auto` is `text` on a terminal, else `json`.
 * @throws {VariableError} If it is none of `auto`, `json` and `text`.
 */
export function readLogFormat(
  variables: Pick<Variables, "get">,
  name: string,
): "json" | "text" | "auto" {
  const format = variables.get(name)?.trim() || "auto";
  if (format === "json" || format === "text" || format === "auto") return format;
  throw new VariableError(`${name} must be auto, json or text`);
}

/**
 * Tells whether the app runs on Deno Deploy.
 *
 * @param variables The variables.
 * @returns True if the variable that the platform sets says so.
 */
export function onDeploy(variables: Pick<Variables, "get">): boolean {
  // Since August 2025 the platform's documents have given its value as 1 as well.
  return ["true", "1"].includes(variables.get("DENO_DEPLOY") ?? "");
}

/**
 * Refuses the variable that makes Deno take the client's address from a header. On Deno Deploy the
 * platform sets that header. Elsewhere any client can choose its address with it, and a malformed header
 * ends the process (Deno 2.9.6).
 *
 * @param variables The variables.
 * @throws {VariableError} If it is set outside Deno Deploy.
 */
export function refuseProxyHeaders(variables: Variables): void {
  const name = "DENO_TRUST_PROXY_HEADERS";
  if (!variables.get(name) || onDeploy(variables)) return;
  throw new VariableError(
    `${name} must not be set outside Deno Deploy: set TRUSTED_PROXY_HOPS for a reverse proxy`,
  );
}

/**
 * Reads the address to listen on, from `HOST` and `PORT`.
 *
 * @param variables The variables.
 * @returns The address: by default port 8000 of all of the machine's addresses.
 * @throws {VariableError} If the port is not a whole number from 0 to 65,535.
 */
export function readPlace(variables: Variables): Place {
  return {
    port: readInteger(variables, "PORT", { fallback: 8000, max: 65_535 }),
    hostname: variables.get("HOST")?.trim() || "0.0.0.0",
  };
}
