import {
  checkBoolean,
  checkObject,
  checkOptions,
  checkPart,
  checkSignal,
  checkTelemetry,
  met,
  type OptionCheck,
  wholeNumber,
} from "../core/check_options.ts";
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
   * Asks for deliveries as well that were answered with 2xx, and that the store does not have: a database that was
   * restored, or a standby that has taken over, may lack the last ones. Pings are among them.
   *
   * @default {false}
   */
  readonly delivered?: boolean | undefined;
  /**
   * Only says what would be asked for.
   *
   * @default {false}
   */
  readonly dryRun?: boolean | undefined;
  /** Signal that ends it early. The work done up to then is returned. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Metrics of the deliveries: the result of `openTelemetry()`.
   *
   * @default {undefined} None are reported, as of a dry run.
   */
  readonly telemetry?: Telemetry | undefined;
}

/** Address of the API, if no other one is given. */
export const GITHUB_API = "https://api.github.com";

/** Names and ids in GitHub's paths: their description and pattern. */
export const FORMS = {
  repository: ["owner/name, such as acme/site", /^[\w-]{1,39}\/(?!\.{1,2}$)[\w.-]{1,100}$/],
  organization: ["the name of an organization", /^[\w-]{1,39}$/],
  id: ["the number of a webhook", /^\d{1,20}$/],
} as const;

/** Time for which GitHub repeats a delivery if asked, in milliseconds. */
export const KEPT_MS = 3 * 86_400_000;

/** Time by which entries of GitHub's delivery log may be out of order, in milliseconds. */
export const DISORDER_MS = 300_000;

/** Longest time between two requests for a delivery, in milliseconds. */
export const MAX_PACE_MS = 60_000;

const DOING = "catch up";

/** Makes the check of a value that must have a form. */
function formed(
  form: string,
  test: (value: unknown) => boolean,
  shown: (value: unknown) => string = met,
): OptionCheck {
  return (doing, name, value) => {
    if (test(value)) return;
    throw new TypeError(`Cannot ${doing}: '${name}' must be ${form}, got ${shown(value)}`);
  };
}

const matching = ([form, pattern]: readonly [string, RegExp]) =>
  formed(form, (value) => typeof value === "string" && pattern.test(value));

const checkUrl = formed("a URL with http or https", (value) => httpUrl(value) !== undefined);

/** Check of a secret. Only the kind of its value is named. */
const checkSecret = formed(
  "a text that is not blank",
  (value) => typeof value === "string" && value.trim() !== "",
  (value) => typeof value === "string" ? "a blank one" : met(value),
);

const checkAppId = formed("an id", (value) => /^[\w.-]{1,64}$/.test(String(value ?? "")));

const OWNERS = {
  repository: matching(FORMS.repository),
  organization: matching(FORMS.organization),
  app: formed("true", (value) => value === true),
};

const WEBHOOK = {
  id: formed(FORMS.id[0], (value) => FORMS.id[1].test(String(value))),
  url: checkUrl,
};

const AUTHENTICATION: Readonly<Record<string, OptionCheck>> = {
  api(doing, name, value) {
    checkUrl(doing, name, value);
    const url = httpUrl(value)!;
    if (keepsSecrets(url)) return;
    throw new TypeError(
      `Cannot ${doing}: '${name}' must begin with https:, since a token goes there and ${url.hostname} is ` +
        "not in this network",
    );
  },
  ...{ token: checkSecret, appId: checkAppId, privateKey: checkSecret },
  installationId: checkAppId,
};

/** Checks a store, and the options of `catchUp`. */
export function checkCatchUp(store: Pick<EventStore, "list">, options: CatchUpOptions): void {
  checkPart(DOING, store, "list", "the store must be what openEventStore() resolves with");
  checkOptions(DOING, options, {
    ...{ hooks: checkHooks, github: undefined, sinceMs: wholeNumber() },
    intake: matching(["the name of an intake", /./]),
    ...{ paceMs: wholeNumber({ min: 0, max: MAX_PACE_MS }), limit: wholeNumber({ max: 100_000 }) },
    ...{ delivered: checkBoolean, dryRun: checkBoolean, signal: checkSignal },
    telemetry: checkTelemetry,
  }, ["hooks", "sinceMs"]);
  checkGithub(options.github, options.hooks);
}

const checkHooks: OptionCheck = (doing, name, hooks) => {
  if (!Array.isArray(hooks) || hooks.length === 0) {
    const got = Array.isArray(hooks) ? "an empty one" : met(hooks);
    throw new TypeError(
      `Cannot ${doing}: '${name}' must be an array with at least one webhook, got ${got}`,
    );
  }
  hooks.forEach((hook, i) => checkHook(`'${name}[${i}]'`, hook));
};

function checkHook(name: string, hook: Readonly<Record<string, unknown>>): void {
  checkObject(DOING, hook, name);
  const owners = Object.entries(OWNERS).filter(([key]) => hook[key] !== undefined);
  if (owners.length !== 1) {
    const got = owners.map(([key]) => key).join(" and ") || "none of them";
    throw new TypeError(
      `Cannot ${DOING}: ${name} must have 'repository', 'organization' or 'app', got ${got}`,
    );
  }
  const more = hook.app === undefined ? WEBHOOK : {};
  checkOptions(`${DOING}, in ${name}`, hook, { ...Object.fromEntries(owners), ...more });
}

function checkGithub(github: CatchUpOptions["github"], hooks: CatchUpOptions["hooks"]): void {
  const wanted =
    "'github' must be an Octokit, or have a 'token', or the 'appId' and the 'privateKey' of a GitHub App";
  if (typeof github !== "object" || github === null) {
    const got = typeof github === "string" ? "a text" : met(github);
    throw new TypeError(`Cannot ${DOING}: ${wanted}, got ${got}`);
  }
  if ("request" in github) return checkPart(DOING, github, "request", wanted);
  const given: Readonly<Record<string, unknown>> = { ...github };
  const { token, appId, privateKey, installationId } = given;
  const isApp = (appId ?? privateKey) !== undefined;
  const needed = isApp ? ["appId", "privateKey"] : [];
  checkOptions(`${DOING}, in 'github'`, given, AUTHENTICATION, needed);
  if ((token !== undefined) === isApp) {
    throw new TypeError(`Cannot ${DOING}: ${wanted}, got ${isApp ? "both" : "none of them"}`);
  }
  if (!isApp || installationId !== undefined || hooks.every((hook) => "app" in hook)) return;
  throw new TypeError(
    `Cannot ${DOING}: an app reads the webhooks of a repository or an organization as one of its ` +
      "installations: give 'github' the 'installationId' as well",
  );
}
