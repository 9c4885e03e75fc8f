import { FORMS, GITHUB_API } from "../catch_up/options.ts";
import { isInnerHost, isOwnHost } from "../core/hosts.ts";
import { TELEGRAM_SECRET } from "../webhook/messenger.ts";
import { variableOf } from "../webhook/platform.ts";
import { appIn, webhookIn } from "./_app.ts";
import {
  apiOption,
  COMMON,
  formed,
  matching,
  readValues,
  splitArguments,
  timed,
} from "./_arguments.ts";
import { secretIn } from "./_secrets.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Platform that an app is connected to. */
type ConnectPlatform = "telegram" | "github";

/** Task of `connect`: show webhooks, register one, or fetch for an app here. */
type ConnectTask = "show" | "register" | "forward";

const EVENT = /^[a-z][a-z0-9_]{0,99}$/;

/** Options for registering a webhook. */
export const REGISTER_OPTIONS = {
  events: formed(
    "LIST",
    "kinds of events, or of Telegram's updates, such as push,issues; * for all (Telegram: for its default). " +
      "GitHub sends all if nothing is said; what is registered already stays",
    "names such as push,issues or *",
    eventsIn,
  ),
  "drop-pending": { about: "Telegram forgets the updates that wait" },
} as const;

/** Options for an app without a public address. */
export const FORWARD_OPTIONS = {
  forward: { about: "fetches events, and hands them to the app here" },
  url: { value: "URL", about: "the app's address (http://localhost:8000, or at PORT)" },
  "take-over": {
    about: "deletes the bot's webhook first, with which Telegram hands out no updates",
  },
  hook: matching("ID", "the webhook, if the repository has several", FORMS.id),
  since: timed(
    "AGE",
    "deliveries from before the start as well, such as 10m: GitHub keeps 3 days",
  ),
} as const;

/** Options of every task. */
export const COMMON_OPTIONS = {
  "secret-file": {
    value: "PATH",
    about: "a file with the secret that the app has; a line break at its end is ignored",
  },
  api: apiOption("the API's address (https://api.telegram.org, https://api.github.com)"),
  ...COMMON,
} as const;

const OPTIONS = { ...REGISTER_OPTIONS, ...FORWARD_OPTIONS, ...COMMON_OPTIONS } as const;

type OptionName = keyof typeof OPTIONS;

/** Differences between the platforms. The secret is in the first variable that is set. */
const PLATFORMS = {
  telegram: {
    ...{ title: "Telegram", api: "https://api.telegram.org", token: "TELEGRAM_BOT_TOKEN" },
    secrets: ["telegram", "messenger"].map((name) => variableOf(name, "secretToken")),
    tokenForm: /^\d{1,20}:[\w-]{1,200}$/,
    tokenIs: "the bot's token as @BotFather gives it: digits, a colon, letters",
  },
  github: {
    ...{ title: "GitHub", api: GITHUB_API, token: "GITHUB_TOKEN" },
    secrets: ["github", "forge"].map((name) => variableOf(name, "secret")),
    tokenForm: /^[\x21-\x7e]{1,1000}$/,
    tokenIs: "a token without spaces",
  },
} as const;

/** Words that name a task in messages. */
const TASKS = {
  show: "without a URL and --forward",
  register: "URL",
  forward: "--forward",
} as const;

/** Options of each task, beside the common ones. */
const OWN: Readonly<Record<ConnectPlatform, Readonly<Record<ConnectTask, readonly OptionName[]>>>> =
  {
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

/** Ports that Telegram sends updates to (`setWebhook`). The empty one is 443. */
const TELEGRAM_PORTS = ["", "80", "88", "443", "8443"];

/** Options of `connect`, as read. */
export type ConnectOptions = Exclude<ReturnType<typeof readConnectOptions>, undefined>;

/**
 * Reads the command line of `connect`: `PLATFORM [REPOSITORY] [URL] [--OPTION ...]`.
 *
 * @returns The options; undefined if the user asks for help.
 */
export function readConnectOptions(args: readonly string[], world: Pick<CliWorld, "env" | "err">) {
  const { words: [platform, ...rest], given } = splitArguments(args, OPTIONS);
  if (given.has("help")) return undefined;
  if (platform !== "telegram" && platform !== "github") {
    throw new UsageError("Name the platform: connect telegram, or connect github OWNER/REPO");
  }
  const repository = platform === "github" ? repositoryOf(rest.shift()) : "";
  const [webhook, ...others] = rest;
  if (others.length > 0) {
    throw new UsageError(`Unexpected arguments after the URL: ${others.length}`);
  }
  const task = taskOf(given.has("forward"), webhook);
  const names: readonly string[] = [...OWN[platform][task], "api", "json"];
  const own = Object.entries(OPTIONS).filter(([name]) => names.includes(name));
  const command = `connect ${platform} ${TASKS[task]}`;
  const values = readValues(command, Object.fromEntries(own) as typeof OPTIONS, given);
  const { api = PLATFORMS[platform].api, url, "secret-file": file } = values;
  return {
    ...values,
    ...{ platform: platform as ConnectPlatform, task, repository, api },
    ...readSecrets(platform, task, file, world),
    /** Address to register; empty for the other tasks. */
    webhook: webhook === undefined ? "" : webhookOf(platform, webhook, values.api === undefined),
    app: appIn(url, world.env("PORT")?.trim() || 8000),
  };
}

function repositoryOf(text: string | undefined): string {
  if (text === undefined) throw new UsageError("Name the repository: connect github OWNER/REPO");
  const [must, pattern] = FORMS.repository;
  if (pattern.test(text)) return text;
  throw new UsageError(`The repository must be ${must}, got ${text}`);
}

function taskOf(isForward: boolean, webhook: string | undefined): ConnectTask {
  if (!isForward) return webhook === undefined ? "show" : "register";
  if (webhook === undefined) return "forward";
  throw new UsageError(
    "--forward registers no webhook: leave the URL out, or give the app's address with --url",
  );
}

/** Reads the token and the secret. The error names everything that is missing. */
function readSecrets(
  platform: ConnectPlatform,
  task: ConnectTask,
  file: string | undefined,
  world: Pick<CliWorld, "env" | "err">,
): { readonly token: string; /** Empty for the task `show`. */ readonly secret: string } {
  const { title, token: tokenName, secrets, tokenForm, tokenIs } = PLATFORMS[platform];
  const needsSecret = task !== "show";
  const token = world.env(tokenName) ?? "";
  const isBlank = (name: string) => !world.env(name)?.trim();
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
  const secret = file === undefined ? world.env(secretName!)! : secretIn(file, world);
  if (platform === "telegram" && !TELEGRAM_SECRET.test(secret)) {
    throw new UsageError(
      `${file === undefined ? secretName : "The secret"} must have 1 to 256 characters, and none ` +
        "but A-Z, a-z, 0-9, _ and -: Telegram takes no others",
    );
  }
  return { token, secret };
}

/** Reads the address to register, and refuses one that the platform cannot reach. */
function webhookOf(platform: ConnectPlatform, text: string, isPublic: boolean): string {
  const { title } = PLATFORMS[platform];
  const url = webhookIn(text);
  if (url === undefined) {
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

function eventsIn(text: string): string[] | undefined {
  if (text.trim() === "*") return ["*"];
  const events = text.split(",").map((each) => each.trim());
  return events.every((each) => EVENT.test(each)) ? events : undefined;
}
