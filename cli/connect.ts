import { optionLines, section } from "./_arguments.ts";
import {
  COMMON_OPTIONS,
  type ConnectOptions,
  FORWARD_OPTIONS,
  readConnectOptions,
  REGISTER_OPTIONS,
} from "./_connect_options.ts";
import { BRIEFLY, Forwarder } from "./_forward.ts";
import { Github } from "./_github.ts";
import { hiderOf } from "./_secrets.ts";
import { Telegram } from "./_telegram.ts";
import { type CliWorld, InterruptedError, interruptible, UsageError } from "./_world.ts";

/** Text of `connect --help`. */
const CONNECT_HELP = [
  "Usage: connect telegram [URL] [OPTION...]",
  "       connect github OWNER/REPO [URL] [OPTION...]",
  "",
  ...section("Examples", [
    "connect telegram https://bot.example.com           registers the webhook, and shows it",
    "connect github acme/site https://bot.example.com   the same for a repository",
    "connect telegram                                   only shows what is registered",
    "connect telegram --forward                         for an app without a public address: fetches",
    "                                                   updates, and hands them to the app here",
    "connect github acme/site --forward                 the same with a webhook's delivery log",
  ]),
  ...section("Registering", optionLines(REGISTER_OPTIONS)),
  ...section("Forwarding", optionLines(FORWARD_OPTIONS)),
  "What the app does not take (not running, 5xx) is tried again, and what it refuses (4xx) is passed",
  "over. 401, 404 and 405 end it: the secret or the address is wrong. So does Ctrl-C. For Telegram,",
  "--events is a choice here as well.",
  "",
  ...section("Other options", optionLines(COMMON_OPTIONS)),
  ...section("Variables", [
    "telegram         TELEGRAM_BOT_TOKEN; the secret is in TELEGRAM_SECRET_TOKEN, or else in",
    "                 MESSENGER_SECRET_TOKEN",
    "github           GITHUB_TOKEN, with the repository's permission Webhooks (read and write; read",
    "                 for --forward) or the scope admin:repo_hook; the secret is in",
    "                 GITHUB_WEBHOOK_SECRET, or else in FORGE_WEBHOOK_SECRET",
  ]),
].join("\n").trimEnd();

/**
 * Registers an app's webhook with Telegram or GitHub, shows what is registered, or fetches what they have and
 * hands it to an app on this machine.
 *
 * @param args The command line, without `connect`.
 * @param world The environment of the process.
 * @returns True.
 * @throws {UsageError} If the command line is wrong.
 * @throws {InterruptedError} If the user interrupts it.
 */
export async function runConnect(args: readonly string[], world: CliWorld): Promise<true> {
  const options = readConnectOptions(args, world);
  if (options === undefined) {
    world.out(CONNECT_HELP);
    return true;
  }
  const hide = hiderOf([options.token, options.secret]);
  const safe: CliWorld = {
    ...world,
    out: (line) => world.out(hide(line)),
    err: (line) => world.err(hide(line)),
  };
  try {
    await interruptible(world, (signal) => run(options, safe, signal));
    return true;
  } catch (error) {
    throw hidden(error, hide);
  }
}

async function run(options: ConnectOptions, world: CliWorld, signal: AbortSignal): Promise<void> {
  const forwarder = new Forwarder(options, world, signal);
  const platform = new { telegram: Telegram, github: Github }[options.platform](forwarder);
  try {
    if (options.task === "forward") await platform.forward();
    // Both can be repeated without harm.
    if (options.task === "register") await forwarder.persist(() => platform.register(), BRIEFLY);
    await forwarder.persist(() => platform.show(), BRIEFLY);
  } catch (error) {
    if (error instanceof InterruptedError && options.task === "forward") forwarder.end();
    throw error;
  }
}

/** Hides secrets in the message of an error. */
function hidden(error: unknown, hide: (text: string) => string): unknown {
  const isOwn = error instanceof InterruptedError || error instanceof Deno.errors.BrokenPipe;
  if (isOwn || !(error instanceof Error)) return error;
  const message = hide(error.message);
  return error instanceof UsageError ? new UsageError(message) : new Error(message);
}
