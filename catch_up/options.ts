import { checkInteger, checkKeys, checkObject, checkPart, met } from "../core/check_options.ts";
import { keepsSecrets } from "../core/hosts.ts";
import type { EventStore, Telemetry } from "../events/mod.ts";

/**
 * Options of {@linkcode catchUp}.
 *
 * @category Catching up
 */
export interface CatchUpOptions {
  /** Webhooks that lead to the store: of a repository, an organization or a GitHub App. */
  readonly hooks: readonly (
    | {
      /** Marks the webhook of the GitHub App that the calls are authenticated as. */
      readonly app: true;
    }
    | (
      & ({
        /** Repository, as `owner/name`. */
        readonly repository: string;
      } | {
        /** Name of the organization. */
        readonly organization: string;
      })
      & {
        /** Id of the webhook, if there are several. */
        readonly id?: string | number | undefined;
        /** URL of the webhook, if the id is not given. */
        readonly url?: string | undefined;
      }
    )
  )[];
  /** Authentication: a client such as an `Octokit`, a token, or the id and private key of a GitHub App. */
  readonly github:
    | {
      /** Calls the API. */
      readonly request: (
        route: string,
        parameters?: Record<string, unknown>,
      ) => Promise<{
        readonly status: number;
        readonly headers: Readonly<Record<string, unknown>>;
        readonly data: unknown;
      }>;
    }
    | (
      & ({
        /** Token with the permission Webhooks (read and write). */
        readonly token: string;
      } | {
        /** Id of the GitHub App. */
        readonly appId: string | number;
        /** Private key of the GitHub App, in the form PEM. */
        readonly privateKey: string;
        /**
         * Id of the installation through which the app reads the webhooks of a repository or an organization.
         *
         * @default {undefined} None: the app reads its own webhook only.
         */
        readonly installationId?: string | number | undefined;
      })
      & {
        /**
         * Address of the API, for GitHub Enterprise Server.
         *
         * @default {"https://api.github.com"}
         */
        readonly api?: string | undefined;
      }
    );
  /** Age of the oldest deliveries that are looked at, in milliseconds. GitHub keeps three days. */
  readonly sinceMs: number;
  /**
   * Name of the intake that the webhooks lead to: ids of events begin with it.
   *
   * @default {"github"}
   */
  readonly intake?: string | undefined;
  /**
   * Time between two requests for a delivery, in milliseconds.
   *
   * @default {250}
   */
  readonly paceMs?: number | undefined;
  /**
   * Most deliveries that are asked for.
   *
   * @default {1_000}
   */
  readonly limit?: number | undefined;
  /**
   * Only says what would be asked for.
   *
   * @default {false}
   */
  readonly dryRun?: boolean | undefined;
  /** Signal that ends it early. What was done up to then is returned. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Metrics of what was asked for: what `openTelemetry()` resolves with.
   *
   * @default {undefined} None are reported, as of a dry run.
   */
  readonly telemetry?: Telemetry | undefined;
}

/** Address of the API, if no other one is given. */
export const GITHUB_API = "https://api.github.com";

/** Forms of the names and ids in GitHub's paths. */
export const FORMS = {
  repository: /^[\w-]{1,39}\/(?!\.{1,2}$)[\w.-]{1,100}$/,
  organization: /^[\w-]{1,39}$/,
  id: /^\d{1,20}$/,
} as const;

/** Time for which GitHub delivers once more what it is asked for, in milliseconds. */
export const KEPT_MS = 3 * 86_400_000;

/** Longest time between two requests for a delivery, in milliseconds. */
export const MAX_PACE_MS = 60_000;

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

/** Owners of webhooks, and what their names must be. */
const OWNERS = [
  ["repository", "owner/name"],
  ["organization", "the name of an organization"],
] as const;

/** Checks a store, and the options of `catchUp`. */
export function checkOptions(store: Pick<EventStore, "list">, options: CatchUpOptions): void {
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
  checkInteger(DOING, "paceMs", paceMs, { min: 0, max: MAX_PACE_MS });
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

function checkHook(name: string, hook: CatchUpOptions["hooks"][number]): void {
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
  for (const [key, form] of OWNERS) {
    const value = given[key];
    if (value === undefined || (typeof value === "string" && FORMS[key].test(value))) continue;
    refuse(`the '${key}' of ${name} must be ${form}, got ${met(value)}`);
  }
  const { id, url } = given;
  if (id !== undefined && !FORMS.id.test(String(id))) {
    refuse(`the 'id' of ${name} must be the number of a webhook, got ${met(id)}`);
  }
  if (url !== undefined && (typeof url !== "string" || !isHttp(url))) {
    refuse(`the 'url' of ${name} must be a URL with http or https, got ${met(url)}`);
  }
}

/** Checks the authentication. Of a secret only the kind of its value is named. */
function checkGithub(github: CatchUpOptions["github"], hooks: CatchUpOptions["hooks"]): void {
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
  if (api !== undefined && !keepsSecrets(new URL(api))) {
    refuse(
      "the 'api' of 'github' must begin with https:, since a token goes there and " +
        `${new URL(api).hostname} is not in this network`,
    );
  }
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
