import { parseArgs } from "node:util";
import type { ForgeSender, MessengerSender } from "../testing/mod.ts";
import { UsageError } from "./_world.ts";

/** Fault of a delivery that is sent to be refused. */
export type Fault = "signature" | "missing" | "body" | "stale" | "json";

/** Options of `send`. */
export interface SendOptions {
  readonly platform: "forge" | "messenger";
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

/** Senders of each platform. The first is the default. */
const SENDERS = {
  forge: ["github", "gitea", "forgejo", "gitlab", "gitlab-token", "forge"],
  messenger: ["telegram", "messenger"],
} as const;

/** Ports of `deno task forge` and `deno task messenger`. */
const PORTS = { forge: 8000, messenger: 8001 } as const;

const FAULTS: readonly Fault[] = ["signature", "missing", "body", "stale", "json"];

const OPTIONS = {
  bad: { type: "string" },
  chat: { type: "string" },
  file: { type: "string" },
  form: { type: "boolean" },
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
  const [platform, type, ...rest] = positionals;
  if (platform !== "forge" && platform !== "messenger") {
    throw new UsageError("Name the platform: send forge, or send messenger");
  }
  if (type === undefined) {
    throw new UsageError(`Name the event: send ${platform} ${firstOf[platform]}`);
  }
  if (rest.length > 0) throw new UsageError(`Unexpected arguments: ${rest.join(" ")}`);
  const options: SendOptions = {
    ...{ platform, type, file: values.file, id: values.id },
    from: oneOf("--from", values.from ?? SENDERS[platform][0], SENDERS[platform]),
    url: urlOf(values.url ?? `http://localhost:${variable("PORT")?.trim() || PORTS[platform]}`),
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
    secret: file === undefined ? secretIn(options, variable) : secretOf(file, io),
  };
}

const firstOf = { forge: "push", messenger: "message" } as const;

function parse(args: readonly string[]) {
  if (args.some((arg) => /^--secret(=|$)/.test(arg))) {
    throw new UsageError(
      "--secret is gone, since the process list showed the secret: set FORGE_WEBHOOK_SECRET, " +
        "FORGE_WEBHOOK_TOKEN or MESSENGER_SECRET_TOKEN, or name a file with --secret-file",
    );
  }
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** Reads the secret from the variable that the app reads. */
function secretIn({ platform, from }: SendOptions, variable: ReadVariable): string {
  const name = platform === "messenger"
    ? "MESSENGER_SECRET_TOKEN"
    : from === "gitlab-token"
    ? "FORGE_WEBHOOK_TOKEN"
    : "FORGE_WEBHOOK_SECRET";
  const secret = variable(name);
  if (!secret) {
    throw new UsageError(`Set ${name}, or name a file that holds the secret with --secret-file`);
  }
  return secret;
}

/** Reads the secret from a file, without the line break that editors and `echo` add. */
function secretOf(path: string, { err }: OptionsIo): string {
  const text = readText(path);
  const secret = text.replace(/\r?\n$/, "");
  if (secret.trim() === "") throw new UsageError("The file of --secret-file is blank");
  if (secret !== text) {
    err("The line break at the end of the secret's file is ignored. An app would not ignore it.");
  }
  return secret;
}

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    const reason = error instanceof Error ? error.name : String(error);
    throw new UsageError(`The file of --secret-file cannot be read: ${reason}`);
  }
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
