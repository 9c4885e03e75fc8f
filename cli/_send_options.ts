import type { ForgeSender, MessengerSender } from "../testing/deliveries.ts";
import { variableOf } from "../webhook/platform.ts";
import { appIn } from "./_app.ts";
import { COMMON, numeric, oneOf, readValues, splitArguments } from "./_arguments.ts";
import { secretIn } from "./_secrets.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Platforms by their names in an app, each with its senders. The first sender is the default. */
export const PLATFORMS = {
  forge: {
    kind: "forge",
    senders: ["github", "gitea", "forgejo", "gitlab", "gitlab-token", "forge"],
  },
  github: { kind: "forge", senders: ["github"] },
  gitea: { kind: "forge", senders: ["gitea", "forgejo"] },
  gitlab: { kind: "forge", senders: ["gitlab", "gitlab-token"] },
  messenger: { kind: "messenger", senders: ["telegram", "messenger"] },
  telegram: { kind: "messenger", senders: ["telegram"] },
  slack: { kind: "slack", senders: ["slack"] },
  stripe: { kind: "stripe", senders: ["stripe"] },
} as const;

/** Port of an app; `deno task messenger` has another one. */
const [PORT, MESSENGER_PORT] = [8000, 8001];

/** Options of `send`. */
export const SEND_OPTIONS = {
  file: { value: "PATH", about: "the payload, sent byte for byte" },
  from: {
    value: "SENDER",
    about: `${PLATFORMS.forge.senders.join(", ")}; or ${PLATFORMS.messenger.senders.join(", ")}`,
  },
  id: { value: "ID", about: "the delivery's id; sending the same id again makes a duplicate" },
  form: { about: "sent in a form, as GitHub, Gitea and Forgejo can" },
  user: numeric("ID", "the user of a message (42)"),
  chat: numeric("ID", "the group of a message, such as -5"),
  text: { value: "TEXT", about: "the text of a message (hello)" },
  bad: oneOf(
    "FAULT",
    "a fault, so that it is refused: signature (wrong), missing (no signature), body (changed after " +
      "signing), stale (signed 10 minutes ago) or json (not JSON)",
    ["signature", "missing", "body", "stale", "json"],
  ),
  url: {
    value: "URL",
    about: "the app's address (http://localhost:8000, for messenger :8001; or at PORT)",
  },
  name: {
    value: "NAME",
    about: "the platform's name in the app, if it has another: SECOND_WEBHOOK_SECRET",
  },
  "secret-file": {
    value: "PATH",
    about: "a file with the secret, instead of the variable; a line break at its end is ignored",
  },
  repeat: numeric(
    "N",
    "number of deliveries, sent one after the other, each with its own id",
    1,
    9_999_999,
  ),
  ...COMMON,
} as const;

const firstOf = {
  ...{ forge: "push", messenger: "message", slack: "app_mention", stripe: "invoice.paid" },
} as const;

/** Variables that hold the secret, by kind of platform. */
const SECRETS = {
  forge: "secret",
  messenger: "secretToken",
  slack: "signingSecret",
  stripe: "secret",
} as const;

/** Sender of a delivery. */
type SenderName = ForgeSender | MessengerSender | "slack" | "stripe";

/** Options of `send`, as read. */
export type SendOptions = Exclude<ReturnType<typeof readSendOptions>, undefined>;

/**
 * Reads the command line of `send`: `PLATFORM TYPE [--OPTION ...]`.
 *
 * @returns The options; undefined if the user asks for help.
 */
export function readSendOptions(args: readonly string[], world: Pick<CliWorld, "env" | "err">) {
  const { words: [name = "", type, ...rest], given } = splitArguments(args, SEND_OPTIONS);
  if (given.has("help")) return undefined;
  if (!isPlatform(name)) {
    const known = Object.keys(PLATFORMS).join(", ");
    throw new UsageError(
      name === ""
        ? `Name the platform, such as send forge: ${known}`
        : `send signs only for ${known}; sign others yourself. For a platform with another name, ` +
          "give that with --name",
    );
  }
  const { kind: platform, senders } = PLATFORMS[name];
  if (type === undefined) {
    throw new UsageError(`Name the event: send ${name} ${firstOf[platform]}`);
  }
  if (rest.length > 0) throw new UsageError(`Unexpected arguments: ${rest.join(" ")}`);
  const from = oneOf<SenderName>("SENDER", "", senders);
  const values = readValues("send", { ...SEND_OPTIONS, from }, given);
  const port = world.env("PORT")?.trim() || (name === "messenger" ? MESSENGER_PORT : PORT);
  const options = {
    ...values,
    ...{ platform, name: values.name ?? name, type, from: values.from ?? senders[0] },
    ...{ url: appIn(values.url, port), isGuessed: values.url === undefined },
    ...{ user: values.user ?? 42, text: values.text ?? "hello" },
    repeat: values.repeat ?? 1,
  };
  checkFault(options);
  const { "secret-file": file } = values;
  return { ...options, secret: file ? secretIn(file, world) : secretOf(options, world) };
}

/** Part of the options that the faults and the secret depend on. */
interface Sender {
  readonly platform: keyof typeof SECRETS;
  /** Name of the platform in its app. */
  readonly name: string;
  readonly from: SenderName;
  readonly form?: boolean;
  readonly bad?: string;
}

function isPlatform(name: string): name is keyof typeof PLATFORMS {
  return Object.hasOwn(PLATFORMS, name);
}

/** Reads the secret from the variable that the app reads. */
function secretOf({ platform, name, from }: Sender, { env }: Pick<CliWorld, "env">): string {
  const variable = variableOf(name, from === "gitlab-token" ? "token" : SECRETS[platform]);
  const secret = env(variable);
  if (!secret) {
    throw new UsageError(
      `Set ${variable}, or name a file that holds the secret with --secret-file`,
    );
  }
  return secret;
}

/** Senders that sign the time. */
const SIGNS_TIME: readonly SenderName[] = ["gitlab", "slack", "stripe"];

function checkFault({ bad, from, platform, form }: Sender): void {
  const signs = platform !== "messenger" && from !== "gitlab-token";
  if (bad === "body" && !signs) throw new UsageError(`--bad body: ${from} does not sign the body`);
  if (bad === "stale" && !SIGNS_TIME.includes(from)) {
    throw new UsageError("--bad stale: only --from gitlab signs the time");
  }
  if (form && platform === "slack") {
    throw new UsageError("--form: slack sends commands and interactions in forms by itself");
  }
  if (form && (platform !== "forge" || from.startsWith("gitlab"))) {
    throw new UsageError(`--form: ${from} does not send forms`);
  }
}
