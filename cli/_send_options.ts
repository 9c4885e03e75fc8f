import { parseArgs } from "node:util";
import type { ForgeSender, MessengerSender } from "../testing/mod.ts";
import { secretIn } from "./_secrets.ts";
import { UsageError } from "./_world.ts";

/** Fault of a delivery that is sent to be refused. */
export type Fault = "signature" | "missing" | "body" | "stale" | "json";

/** Options of `send`. */
export interface SendOptions {
  /** Kind of the platform. */
  readonly platform: "forge" | "messenger";
  /** Start of the names of the variables that its app reads: `FORGE`. */
  readonly prefix: string;
  /** Type of the event, for a forge also with an action: `issues.opened`. */
  readonly type: string;
  readonly from: ForgeSender | MessengerSender;
  readonly url: string;
  readonly secret: string | undefined;
  readonly file: string | undefined;
  readonly id: string | undefined;
  readonly form: boolean;
  readonly user: number;
  readonly chat: number | undefined;
  readonly text: string;
  readonly repeat: number;
  readonly bad: Fault | undefined;
  readonly json: boolean;
}

/** Function that reads an environment variable. */
export type ReadVariable = (name: string) => string | undefined;

/** Input and output for reading the options. */
interface OptionsIo {
  readonly variable: ReadVariable;
  /** Writes a line for the user. */
  readonly err: (line: string) => void;
}

/** Platforms by their names in an app, each with its senders. The first sender is the default. */
const PLATFORMS = {
  forge: {
    kind: "forge",
    senders: ["github", "gitea", "forgejo", "gitlab", "gitlab-token", "forge"],
  },
  github: { kind: "forge", senders: ["github"] },
  gitea: { kind: "forge", senders: ["gitea", "forgejo"] },
  gitlab: { kind: "forge", senders: ["gitlab", "gitlab-token"] },
  messenger: { kind: "messenger", senders: ["telegram", "messenger"] },
  telegram: { kind: "messenger", senders: ["telegram"] },
} as const;

/** Port of an app; `deno task messenger` has another one. */
const [PORT, MESSENGER_PORT] = [8000, 8001];

const FAULTS: readonly Fault[] = ["signature", "missing", "body", "stale", "json"];

const OPTIONS = {
  bad: { type: "string" },
  chat: { type: "string" },
  file: { type: "string" },
  form: { type: "boolean" },
  name: { type: "string" },
  from: { type: "string" },
  id: { type: "string" },
  json: { type: "boolean" },
  repeat: { type: "string" },
  "secret-file": { type: "string" },
  text: { type: "string" },
  url: { type: "string" },
  user: { type: "string" },
} as const;

/** Reads the command line of `send`: `PLATFORM TYPE [--OPTION ...]`. */
export function readSendOptions(args: readonly string[], io: OptionsIo): SendOptions {
  const { variable } = io;
  const { values, positionals } = parse(args);
  const [name = "", type, ...rest] = positionals;
  if (!isPlatform(name)) {
    throw new UsageError(
      `Name the platform, such as send forge: ${Object.keys(PLATFORMS).join(", ")}`,
    );
  }
  const { kind: platform, senders } = PLATFORMS[name];
  if (type === undefined) {
    throw new UsageError(`Name the event: send ${name} ${firstOf[platform]}`);
  }
  if (rest.length > 0) throw new UsageError(`Unexpected arguments: ${rest.join(" ")}`);
  const options: SendOptions = {
    ...{ platform, prefix: prefixOf(values.name ?? name), type, file: values.file, id: values.id },
    from: oneOf<ForgeSender | MessengerSender>("--from", values.from ?? senders[0], senders),
    url: urlOf(
      values.url ??
        `http://localhost:${
          variable("PORT")?.trim() || (name === "messenger" ? MESSENGER_PORT : PORT)
        }`,
    ),
    secret: undefined,
    form: values.form === true,
    user: integerOf("--user", values.user ?? "42"),
    chat: values.chat === undefined ? undefined : integerOf("--chat", values.chat),
    text: values.text ?? "hello",
    repeat: countOf(values.repeat ?? "1"),
    bad: values.bad === undefined ? undefined : oneOf("--bad", values.bad, FAULTS),
    json: values.json === true,
  };
  checkFault(options);
  const file = values["secret-file"];
  return {
    ...options,
    secret: file === undefined ? secretOf(options, variable) : secretIn(file, io),
  };
}

const firstOf = { forge: "push", messenger: "message" } as const;

function parse(args: readonly string[]) {
  if (args.some((arg) => /^--secret(=|$)/.test(arg))) {
    throw new UsageError(
      "--secret is gone, since the process list showed the secret: set the variable that the app reads, " +
        "such as FORGE_WEBHOOK_SECRET, or name a file with --secret-file",
    );
  }
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function isPlatform(name: string): name is keyof typeof PLATFORMS {
  return Object.hasOwn(PLATFORMS, name);
}

/** Makes the start of a platform's variables of its name, as the package does. */
function prefixOf(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}

/** Reads the secret from the variable that the app reads. */
function secretOf({ platform, prefix, from }: SendOptions, variable: ReadVariable): string {
  const name = platform === "messenger"
    ? `${prefix}_SECRET_TOKEN`
    : from === "gitlab-token"
    ? `${prefix}_WEBHOOK_TOKEN`
    : `${prefix}_WEBHOOK_SECRET`;
  const secret = variable(name);
  if (!secret) {
    throw new UsageError(`Set ${name}, or name a file that holds the secret with --secret-file`);
  }
  return secret;
}

function checkFault({ bad, from, platform, form }: SendOptions): void {
  const signs = platform === "forge" && from !== "gitlab-token";
  if (bad === "body" && !signs) throw new UsageError(`--bad body: ${from} does not sign the body`);
  if (bad === "stale" && from !== "gitlab") {
    throw new UsageError("--bad stale: only --from gitlab signs the time");
  }
  if (form && (platform === "messenger" || from.startsWith("gitlab"))) {
    throw new UsageError(`--form: ${from} does not send forms`);
  }
}

function oneOf<T extends string>(name: string, text: string, accepted: readonly T[]): T {
  const found = accepted.find((each) => each === text);
  if (found === undefined) throw new UsageError(`${name} must be one of ${accepted.join(", ")}`);
  return found;
}

/** Completes a URL without a path with that of the webhook. */
function urlOf(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) throw new UsageError(`Not a URL: ${text}`);
  if (url.pathname === "/") url.pathname = "/webhook";
  return url.href;
}

function integerOf(name: string, text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw new UsageError(`${name} must be a number: ${text}`);
  return Number(text);
}

function countOf(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new UsageError(`--repeat must be a number: ${text}`);
  return Number(text);
}
