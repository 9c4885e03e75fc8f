import { checkInteger, checkKeys, checkObject, checkPart, met } from "../core/check_options.ts";
import { isInnerHost, isOwnHost } from "../core/hosts.ts";
import type { GithubAuth } from "./_client.ts";
import type { CatchUpOptions, GithubClient, GithubHook } from "./catch_up.ts";

const DOING = "catch up";

const KEYS = [
  "hooks",
  "github",
  "sinceMs",
  "intake",
  "paceMs",
  "limit",
  "dryRun",
  "signal",
  "telemetry",
];

const AUTH_KEYS = ["api", "token", "appId", "privateKey", "installationId"];

/** Owners of webhooks, each with the form of its name. */
const OWNERS = [
  ["repository", "owner/name", /^[\w-]{1,39}\/(?!\.{1,2}$)[\w.-]{1,100}$/],
  ["organization", "the name of an organization", /^[\w-]{1,39}$/],
] as const;

/** Checks a store, and the options of `catchUp`. */
export function checkOptions(store: unknown, options: CatchUpOptions): void {
  checkPart(DOING, store, "list", "the store must be what openEventStore() resolves with");
  checkObject(DOING, options);
  checkKeys(DOING, options, KEYS);
  const { hooks, github, sinceMs, intake, paceMs = 0, limit = 1, dryRun = false } = options;
  const { signal, telemetry } = options;
  if (!Array.isArray(hooks) || hooks.length === 0) {
    const got = Array.isArray(hooks) ? "an empty one" : met(hooks);
    refuse(`'hooks' must be an array with at least one webhook, got ${got}`);
  }
  hooks.forEach((hook, i) => checkHook(`'hooks[${i}]'`, hook));
  checkGithub(github, hooks);
  checkInteger(DOING, "sinceMs", sinceMs, { max: Number.MAX_SAFE_INTEGER });
  checkInteger(DOING, "paceMs", paceMs, { min: 0, max: 60_000 });
  checkInteger(DOING, "limit", limit, { max: 100_000 });
  if (intake !== undefined && (typeof intake !== "string" || intake === "")) {
    refuse(`'intake' must be the name of an intake, got ${met(intake)}`);
  }
  if (typeof dryRun !== "boolean") refuse(`'dryRun' must be true or false, got ${met(dryRun)}`);
  if (telemetry !== undefined) {
    const wanted = "'telemetry' must be what openTelemetry() resolves with";
    checkPart(DOING, telemetry, "countDelivery", wanted);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    refuse(`'signal' must be an AbortSignal, got ${met(signal)}`);
  }
}

function checkHook(name: string, hook: GithubHook): void {
  checkObject(DOING, hook, name);
  const given: Readonly<Record<string, unknown>> = { ...hook };
  const owners = ["repository", "organization", "app"].filter((key) => given[key] !== undefined);
  if (owners.length !== 1) {
    const got = owners.length === 0 ? "none of them" : owners.join(" and ");
    refuse(`${name} must have 'repository', 'organization' or 'app', got ${got}`);
  }
  checkKeys(
    `${DOING}, in ${name}`,
    hook,
    given.app === undefined ? [...owners, "id", "url"] : owners,
  );
  if (given.app !== undefined && given.app !== true) {
    refuse(`the 'app' of ${name} must be true, got ${met(given.app)}`);
  }
  for (const [key, form, pattern] of OWNERS) {
    const value = given[key];
    if (value === undefined || (typeof value === "string" && pattern.test(value))) continue;
    refuse(`the '${key}' of ${name} must be ${form}, got ${met(value)}`);
  }
  const { id, url } = given;
  if (id !== undefined && !/^\d{1,20}$/.test(String(id))) {
    refuse(`the 'id' of ${name} must be the number of a webhook, got ${met(id)}`);
  }
  if (url !== undefined && (typeof url !== "string" || !isHttp(url))) {
    refuse(`the 'url' of ${name} must be a URL with http or https, got ${met(url)}`);
  }
}

/** Checks the authentication. Of a secret only the kind of its value is named. */
function checkGithub(github: GithubClient | GithubAuth, hooks: readonly GithubHook[]): void {
  const wanted =
    "'github' must be an Octokit, or have a 'token', or the 'appId' and the 'privateKey' of a GitHub App";
  if (typeof github !== "object" || github === null) refuse(`${wanted}, got ${kindOf(github)}`);
  if ("request" in github) return checkPart(DOING, github, "request", wanted);
  checkKeys(`${DOING}, in 'github'`, github, AUTH_KEYS);
  const given: Readonly<Record<string, unknown>> = { ...github };
  const { api, token, appId, privateKey, installationId } = given;
  if (api !== undefined && (typeof api !== "string" || !isHttp(api))) {
    refuse(`the 'api' of 'github' must be a URL with http or https, got ${met(api)}`);
  }
  checkTransport(api);
  if ((token === undefined) === (appId === undefined && privateKey === undefined)) {
    refuse(`${wanted}, got ${token === undefined ? "none of them" : "both"}`);
  }
  if (token !== undefined) return checkSecret("token", token);
  checkSecret("privateKey", privateKey);
  for (const [name, id] of Object.entries({ appId, installationId })) {
    if (id === undefined && name !== "appId" || /^[\w.-]{1,64}$/.test(String(id ?? ""))) continue;
    refuse(`the '${name}' of 'github' must be an id, got ${met(id)}`);
  }
  if (installationId !== undefined || hooks.every((hook) => "app" in hook)) return;
  refuse(
    "an app reads the webhooks of a repository or an organization as one of its installations: give " +
      "'github' the 'installationId' as well",
  );
}

/** Checks that a token is not sent over a public network as it is. */
function checkTransport(api: string | undefined): void {
  const { protocol, hostname } = new URL(api ?? "https://api.github.com");
  if (protocol === "https:" || isOwnHost(hostname) || isInnerHost(hostname)) return;
  refuse(
    `the 'api' of 'github' must begin with https:, since a token goes there and ${hostname} is not in this ` +
      "network",
  );
}

function checkSecret(name: string, value: unknown): void {
  if (typeof value === "string" && value.trim() !== "") return;
  const got = value === "" || typeof value === "string" ? "a blank one" : kindOf(value);
  refuse(`the '${name}' of 'github' must be a text that is not blank, got ${got}`);
}

function kindOf(value: unknown): string {
  return typeof value === "string" ? "a text" : met(value);
}

function isHttp(url: string): boolean {
  return /^https?:$/.test(URL.parse(url)?.protocol ?? "");
}

function refuse(reason: string): never {
  throw new TypeError(`Cannot ${DOING}: ${reason}`);
}
