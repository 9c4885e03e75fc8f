import { checkInteger, checkKeys, checkObject, checkPart, met } from "../core/check_options.ts";
import { httpUrl, keepsSecrets } from "../core/hosts.ts";
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

/** Names and ids in GitHub's paths: what they must be, and the pattern. */
export const FORMS = {
  repository: ["owner/name, such as acme/site", /^[\w-]{1,39}\/(?!\.{1,2}$)[\w.-]{1,100}$/],
  organization: ["the name of an organization", /^[\w-]{1,39}$/],
  id: ["the number of a webhook", /^\d{1,20}$/],
} as const;

/** Time for which GitHub delivers once more what it is asked for, in milliseconds. */
export const KEPT_MS = 3 * 86_400_000;

/** Longest time between two requests for a delivery, in milliseconds. */
export const MAX_PACE_MS = 60_000;

const DOING = "catch up";

/** What values must be, each with its check. */
type Conditions = Readonly<
  Record<string, readonly [must: string, check: (value: unknown) => boolean]>
>;

const matching = ([must, pattern]: readonly [string, RegExp]) =>
  [must, (value: unknown) => typeof value === "string" && pattern.test(value)] as const;

const URL_CONDITION = [
  "a URL with http or https",
  (value: unknown) => httpUrl(value) !== undefined,
] as const;

const OPTIONS: Conditions = {
  intake: matching(["the name of an intake", /./]),
  dryRun: ["true or false", (value) => typeof value === "boolean"],
  signal: ["an AbortSignal", (value) => value instanceof AbortSignal],
};

const OWNERS: Conditions = {
  repository: matching(FORMS.repository),
  organization: matching(FORMS.organization),
  app: ["true", (value) => value === true],
};

const HOOK: Conditions = {
  id: [FORMS.id[0], (value) => FORMS.id[1].test(String(value))],
  url: URL_CONDITION,
};

/** Checks a store, and the options of `catchUp`. */
export function checkOptions(store: Pick<EventStore, "list">, options: CatchUpOptions): void {
  checkPart(DOING, store, "list", "the store must be what openEventStore() resolves with");
  checkObject(DOING, options);
  checkKeys(DOING, options, [
    ...["hooks", "github", "sinceMs", "intake", "paceMs", "limit", "dryRun", "signal", "telemetry"],
  ]);
  const { hooks, github, sinceMs, paceMs = 0, limit = 1, telemetry } = options;
  if (!Array.isArray(hooks) || hooks.length === 0) {
    const got = Array.isArray(hooks) ? "an empty one" : met(hooks);
    refuse(`'hooks' must be an array with at least one webhook, got ${got}`);
  }
  hooks.forEach((hook, i) => checkHook(`'hooks[${i}]'`, hook));
  checkGithub(github, hooks);
  checkInteger(DOING, "sinceMs", sinceMs, { max: Number.MAX_SAFE_INTEGER });
  checkInteger(DOING, "paceMs", paceMs, { min: 0, max: MAX_PACE_MS });
  checkInteger(DOING, "limit", limit, { max: 100_000 });
  checkGiven((name) => `'${name}'`, { ...options }, OPTIONS);
  if (telemetry === undefined) return;
  const wanted = "'telemetry' must be what openTelemetry() resolves with";
  checkPart(DOING, telemetry, "countDelivery", wanted);
}

function checkHook(of: string, hook: CatchUpOptions["hooks"][number]): void {
  checkObject(DOING, hook, of);
  const given: Readonly<Record<string, unknown>> = { ...hook };
  const owners = Object.keys(OWNERS).filter((key) => given[key] !== undefined);
  if (owners.length !== 1) {
    const got = owners.length === 0 ? "none of them" : owners.join(" and ");
    refuse(`${of} must have 'repository', 'organization' or 'app', got ${got}`);
  }
  const more = given.app === undefined ? Object.keys(HOOK) : [];
  checkKeys(`${DOING}, in ${of}`, hook, [...owners, ...more]);
  checkGiven((name) => `the '${name}' of ${of}`, given, { ...OWNERS, ...HOOK });
}

/** Checks the authentication. Of a secret only the kind of its value is named. */
function checkGithub(github: CatchUpOptions["github"], hooks: CatchUpOptions["hooks"]): void {
  const wanted =
    "'github' must be an Octokit, or have a 'token', or the 'appId' and the 'privateKey' of a GitHub App";
  if (typeof github !== "object" || github === null) refuse(`${wanted}, got ${kindOf(github)}`);
  if ("request" in github) return checkPart(DOING, github, "request", wanted);
  const given: Readonly<Record<string, unknown>> = { ...github };
  const keys = ["api", "token", "appId", "privateKey", "installationId"];
  checkKeys(`${DOING}, in 'github'`, github, keys);
  const { api, token, appId, privateKey, installationId } = given;
  const nameOf = (name: string) => `the '${name}' of 'github'`;
  checkGiven(nameOf, given, { api: URL_CONDITION });
  const address = httpUrl(api);
  if (address !== undefined && !keepsSecrets(address)) {
    refuse(
      `the 'api' of 'github' must begin with https:, since a token goes there and ${address.hostname} is not ` +
        "in this network",
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

/** Checks the values that are given. */
function checkGiven(
  nameOf: (key: string) => string,
  given: Readonly<Record<string, unknown>>,
  conditions: Conditions,
): void {
  for (const [key, [must, check]] of Object.entries(conditions)) {
    const value = given[key];
    if (value === undefined || check(value)) continue;
    refuse(`${nameOf(key)} must be ${must}, got ${met(value)}`);
  }
}

function checkSecret(name: string, value: unknown): void {
  if (typeof value === "string" && value.trim() !== "") return;
  const got = value === "" || typeof value === "string" ? "a blank one" : kindOf(value);
  refuse(`the '${name}' of 'github' must be a text that is not blank, got ${got}`);
}

function kindOf(value: unknown): string {
  return typeof value === "string" ? "a text" : met(value);
}

function refuse(reason: string): never {
  throw new TypeError(`Cannot ${DOING}: ${reason}`);
}
