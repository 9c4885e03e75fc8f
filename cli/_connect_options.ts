import { parseArgs } from "node:util";
import { isInnerHost, isOwnHost, keepsSecrets } from "../core/hosts.ts";
import { FORMS, GITHUB_API } from "../catch_up/options.ts";
import { ageOf } from "./_options.ts";
import { secretIn } from "./_secrets.ts";
import type { ReadVariable } from "./_send_options.ts";
import { UsageError } from "./_world.ts";

/** Platform that an app is connected to. */
export type ConnectPlatform = "telegram" | "github";

/** Task of `connect`: to show what is registered, to register a webhook, or to fetch for an app here. */
export type ConnectTask = "show" | "register" | "forward";

/** Options of `connect`. */
export interface ConnectOptions {
  readonly platform: ConnectPlatform;
  readonly task: ConnectTask;
  /** Address of the platform's API, without a slash at its end. */
  readonly api: string;
  readonly token: string;
  /** Secret that is shared with the app; empty for the task `show`. */
  readonly secret: string;
  /** Repository at GitHub, `owner/name`; otherwise empty. */
  readonly repository: string;
  /** Address to register; empty for the other tasks. */
  readonly webhook: string;
  /** Kinds of events that are wanted; undefined if nothing was said. */
  readonly events: readonly string[] | undefined;
  readonly dropPending: boolean;
  readonly takeOver: boolean;
  /** Address of the app on this machine. */
  readonly app: string;
  /** Id of the repository's webhook to read. */
  readonly hook: string | undefined;
  /** Age of the oldest delivery that is wanted, in milliseconds. */
  readonly sinceMs: number | undefined;
  readonly json: boolean;
}

/** Input and output for reading the options. */
interface OptionsIo {
  readonly variable: ReadVariable;
  /** Writes a line for the user. */
  readonly err: (line: string) => void;
}

const OPTIONS = {
  api: { type: "string" },
  "drop-pending": { type: "boolean" },
  events: { type: "string" },
  forward: { type: "boolean" },
  hook: { type: "string" },
  json: { type: "boolean" },
  "secret-file": { type: "string" },
  since: { type: "string" },
  "take-over": { type: "boolean" },
  url: { type: "string" },
} as const;

/** Differences between the platforms. The secret is in the first variable that is set. */
const PLATFORMS = {
  telegram: {
    ...{ title: "Telegram", api: "https://api.telegram.org", token: "TELEGRAM_BOT_TOKEN" },
    secrets: ["TELEGRAM_SECRET_TOKEN", "MESSENGER_SECRET_TOKEN"],
    tokenForm: /^\d{1,20}:[\w-]{1,200}$/,
    tokenIs: "the bot's token as @BotFather gives it: digits, a colon, letters",
  },
  github: {
    ...{ title: "GitHub", api: GITHUB_API, token: "GITHUB_TOKEN" },
    secrets: ["GITHUB_WEBHOOK_SECRET", "FORGE_WEBHOOK_SECRET"],
    tokenForm: /^[\x21-\x7e]{1,1000}$/,
    tokenIs: "a token without spaces",
  },
} as const;

/** Options of each task, beside those of all. */
const OWN: Readonly<Record<ConnectPlatform, Readonly<Record<ConnectTask, readonly string[]>>>> = {
  telegram: {
    show: [],
    register: ["events", "drop-pending", "secret-file"],
    forward: ["forward", "url", "events", "take-over", "secret-file"],
  },
  github: {
    show: [],
    register: ["events", "secret-file"],
    forward: ["forward", "url", "hook", "since", "secret-file"],
  },
};

const EVERYWHERE = ["api", "json"];

const EVENT = /^[a-z][a-z0-9_]{0,99}$/;

/** Telegram's rule for a secret token (`setWebhook`). */
const TELEGRAM_SECRET = /^[A-Za-z0-9_-]{1,256}$/;

/** Ports that Telegram sends updates to (`setWebhook`). The empty one is 443. */
const TELEGRAM_PORTS = ["", "80", "88", "443", "8443"];

type Values = ReturnType<typeof parse>["values"];

/** Reads the command line of `connect`: `PLATFORM [REPOSITORY] [URL] [--OPTION ...]`. */
export function readConnectOptions(args: readonly string[], io: OptionsIo): ConnectOptions {
  const { values, positionals } = parse(args);
  const [platform, ...rest] = positionals;
  if (platform !== "telegram" && platform !== "github") {
    throw new UsageError("Name the platform: connect telegram, or connect github OWNER/REPO");
  }
  const repository = platform === "github" ? repositoryOf(rest.shift()) : "";
  const [webhook, ...others] = rest;
  if (others.length > 0) {
    throw new UsageError(`Unexpected arguments after the URL: ${others.length}`);
  }
  const task = taskOf(values, webhook);
  refuseForeign(platform, task, values);
  const api = apiOf(platform, values.api);
  return {
    ...{ platform, task, repository, api },
    ...readSecrets(platform, task, values["secret-file"], io),
    webhook: webhook === undefined ? "" : webhookOf(platform, webhook, values.api === undefined),
    events: values.events === undefined ? undefined : eventsOf(values.events),
    dropPending: values["drop-pending"] === true,
    takeOver: values["take-over"] === true,
    app: appOf(values.url ?? `http://localhost:${io.variable("PORT")?.trim() || 8000}`),
    hook: hookOf(values.hook),
    sinceMs: values.since === undefined ? undefined : ageOf("since", values.since),
    json: values.json === true,
  };
}

function parse(args: readonly string[]) {
  const told = args.find((arg) => /^--(secret|token)(=|$)/.test(arg));
  if (told !== undefined) {
    throw new UsageError(
      `There is no ${
        told.split("=", 1)[0]
      }, since the process list would show it: set the variable ` +
        "(connect --help names it), or name a file that holds the secret with --secret-file",
    );
  }
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function repositoryOf(text: string | undefined): string {
  if (text === undefined) throw new UsageError("Name the repository: connect github OWNER/REPO");
  if (FORMS.repository.test(text)) return text;
  throw new UsageError(`The repository must be OWNER/REPO, such as acme/site, got ${text}`);
}

function taskOf(values: Values, webhook: string | undefined): ConnectTask {
  if (!values.forward) return webhook === undefined ? "show" : "register";
  if (webhook === undefined) return "forward";
  throw new UsageError(
    "--forward registers no webhook: leave the URL out, or give the app's address with --url",
  );
}

function refuseForeign(platform: ConnectPlatform, task: ConnectTask, values: Values): void {
  const own = [...OWN[platform][task], ...EVERYWHERE];
  const foreign = Object.keys(values).find((name) => !own.includes(name));
  if (foreign === undefined) return;
  const command = `connect ${platform}${task === "forward" ? " --forward" : ""}`;
  const others = Object.entries(OWN[platform]).filter(([, names]) => names.includes(foreign));
  const needs = others.some(([name]) => name === "register") ? "the URL to register" : "--forward";
  throw new UsageError(
    others.length === 0 || task !== "show"
      ? `${command}${task === "register" ? " URL" : ""} has no --${foreign}`
      : `${command} without a URL only shows what is registered: --${foreign} needs ${needs}`,
  );
}

/** Reads the token and the secret. What is missing is named at once. */
function readSecrets(
  platform: ConnectPlatform,
  task: ConnectTask,
  file: string | undefined,
  io: OptionsIo,
): Pick<ConnectOptions, "token" | "secret"> {
  const { title, token: tokenName, secrets, tokenForm, tokenIs } = PLATFORMS[platform];
  const needsSecret = task !== "show";
  const token = io.variable(tokenName) ?? "";
  const isBlank = (name: string) => !io.variable(name)?.trim();
  const secretName = secrets.find((name) => !isBlank(name));
  const missing = isBlank(tokenName) ? [tokenName] : [];
  if (needsSecret && secretName === undefined && file === undefined) {
    missing.push(`${secrets.join(" or ")} (or name a file with --secret-file)`);
  }
  if (missing.length > 0) {
    throw new UsageError(`Cannot connect ${title}: set ${missing.join(", and ")}`);
  }
  if (!tokenForm.test(token)) throw new UsageError(`${tokenName} must be ${tokenIs}`);
  if (!needsSecret) return { token, secret: "" };
  const secret = file === undefined ? io.variable(secretName!)! : secretIn(file, io);
  if (platform === "telegram" && !TELEGRAM_SECRET.test(secret)) {
    throw new UsageError(
      `${file === undefined ? secretName : "The secret"} must have 1 to 256 characters, and none ` +
        "but A-Z, a-z, 0-9, _ and -: Telegram takes no others",
    );
  }
  return { token, secret };
}

/**
 * Reads the address of a platform's API. A token goes there, so it is not sent over a public network as it is.
 *
 * @param platform The platform.
 * @param text The address; undefined for that of the platform itself.
 * @returns The address, without a slash at its end.
 * @throws {UsageError} If it is none, or one without TLS outside of the own network.
 */
export function apiOf(platform: ConnectPlatform, text: string | undefined): string {
  const url = URL.parse(text ?? PLATFORMS[platform].api);
  const isHttps = url?.protocol === "https:";
  if (
    url === null || !isHttps && url.protocol !== "http:" || url.username || url.search || url.hash
  ) {
    throw new UsageError(
      "--api must be the address of an API, without user and query, and by default is " +
        PLATFORMS[platform].api,
    );
  }
  if (!keepsSecrets(url)) {
    throw new UsageError(`--api must begin with https:, since ${url.host} is not in this network`);
  }
  return url.href.replace(/\/+$/, "");
}

/** Reads the address to register, and refuses one that the platform cannot reach. */
function webhookOf(platform: ConnectPlatform, text: string, isPublic: boolean): string {
  const { title } = PLATFORMS[platform];
  const url = urlOf(text);
  if (url === null) {
    // It may be a token in the wrong place: it is not quoted.
    throw new UsageError("The URL to register must be like https://bot.example.com");
  }
  const insteadOf = `use connect ${platform}${
    platform === "github" ? " OWNER/REPO" : ""
  } --forward for an app without a public address`;
  const host = url.hostname;
  if (isOwnHost(host) || isPublic && isInnerHost(host)) {
    throw new UsageError(`${title} cannot reach ${host}: ${insteadOf}`);
  }
  if (url.protocol !== "https:") {
    throw new UsageError(
      `The URL to register must begin with https:, got ${url.protocol} (${insteadOf})`,
    );
  }
  if (url.username || url.password) {
    throw new UsageError("The URL to register must hold no user and no password");
  }
  if (platform === "telegram" && isPublic && !TELEGRAM_PORTS.includes(url.port)) {
    throw new UsageError(`Telegram sends to the ports 443, 80, 88 and 8443 only, got ${url.port}`);
  }
  url.hash = "";
  return url.href;
}

function appOf(text: string): string {
  const url = urlOf(text);
  if (url === null || url.username || url.password) {
    throw new UsageError(
      "--url (or PORT) must be the app's address, such as http://localhost:8000/webhook",
    );
  }
  return url.href;
}

/** Completes a URL without a path with that of the webhook; null if it is none. */
function urlOf(text: string): URL | null {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return null;
  if (url.pathname === "/") url.pathname = "/webhook";
  return url;
}

function eventsOf(text: string): string[] {
  if (text.trim() === "*") return ["*"];
  const events = text.split(",").map((each) => each.trim());
  const bad = events.find((each) => !EVENT.test(each));
  if (bad === undefined) return events;
  throw new UsageError(
    `--events must be names such as push,issues or *, got ${JSON.stringify(bad)}`,
  );
}

function hookOf(text: string | undefined): string | undefined {
  if (text === undefined || FORMS.id.test(text)) return text;
  throw new UsageError(`--hook must be the id of a webhook, got ${text}`);
}
