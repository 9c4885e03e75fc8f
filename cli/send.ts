import { oneLine } from "../core/log.ts";
import { variableOf } from "../webhook/platform.ts";
import { quoted } from "../core/call_api.ts";
import { type AppAnswer, lineOf, nameOfApp, sendTo } from "./_app.ts";
import { optionLines, section, wrap } from "./_arguments.ts";
import { deliveryIdOf, payloadOf, requestOf } from "./_deliveries.ts";
import { PLATFORMS, readSendOptions, SEND_OPTIONS, type SendOptions } from "./_send_options.ts";
import type { CliWorld } from "./_world.ts";

/** Text of `send --help`. */
const SEND_HELP = [
  "Usage: send PLATFORM EVENT [OPTION...]",
  "",
  ...wrap(
    "Sends deliveries to an app, signed as its platform does. PLATFORM is the app's name for it: " +
      `${
        Object.keys(PLATFORMS).join(", ")
      }. Each line ends with the delivery's id, by which events show ` +
      "finds its event.",
  ),
  "",
  ...wrap(
    "The secret comes from the variable that the app reads: FORGE_WEBHOOK_SECRET, " +
      "GITHUB_WEBHOOK_SECRET, GITLAB_WEBHOOK_TOKEN, TELEGRAM_SECRET_TOKEN, SLACK_SIGNING_SECRET, ...",
  ),
  "",
  ...section("Examples", [
    "send forge push                    a published example of a push, signed as GitHub does",
    "send forge issues.opened           one with this action",
    "send messenger message --user 42   a message of this user",
    "send slack app_mention             an event of Slack, or a slash_command, a click, ...",
    "send stripe invoice.paid           an event of Stripe",
  ]),
  ...section("Options", optionLines(SEND_OPTIONS)),
].join("\n").trimEnd();

/** Most answers that are written one by one. */
const MAX_LINES = 20;

/** Answer to a delivery. */
interface Answer extends AppAnswer {
  /** Id of the delivery, by which `events show` finds its event. */
  readonly id: string | undefined;
}

/**
 * Signs and sends deliveries to an app, and writes its answers and their times.
 *
 * @param args The command line, without `send`.
 * @param io Output and variables.
 * @returns True if the app answered as expected: 2xx, or 4xx to a delivery with a fault.
 * @throws {UsageError} If the command line is wrong.
 * @throws {Error} If the app does not answer, or another program listens where it would by default.
 */
export async function runSend(
  args: readonly string[],
  io: Pick<CliWorld, "out" | "err" | "env">,
): Promise<boolean> {
  const options = readSendOptions(args, io);
  if (options === undefined) {
    io.out(SEND_HELP);
    return true;
  }
  const payload = await payloadOf(options);
  if (options.isGuessed) {
    requestOf(options, payload); // a mistake in the command line comes first
    await tellApp(options.url, io);
  }
  const answers: Answer[] = [];
  try {
    await sendAll(options, payload, (answer) => {
      if (answers.push(answer) <= MAX_LINES || options.json) {
        io.out(shown(answer, options.json));
      }
    });
  } finally {
    // Also if the app has gone away meanwhile.
    if (answers.length > 0 && options.repeat > 1 && !options.json) io.out(summaryOf(answers));
  }
  for (const status of new Set(answers.map(({ status }) => status))) {
    const remedy = remedyFor(status, options);
    if (remedy !== undefined) io.err(remedy);
  }
  const wanted = options.bad === undefined ? 2 : 4;
  return answers.every(({ status }) => Math.floor(status / 100) === wanted);
}

/**
 * Says which app listens at an address that the user has not given.
 *
 * @throws {Error} If it is another program: it would get a delivery that is signed with the app's secret.
 */
async function tellApp(url: string, { err }: Pick<CliWorld, "err">): Promise<void> {
  const { host } = new URL(url);
  const name = await nameOfApp(url);
  if (name === undefined) {
    throw new Error(
      `Another program listens at ${host}: its /health names no app. Give the app's address with ` +
        "--url, or its port in PORT",
    );
  }
  err(`To ${quoted(name)} at ${host}`);
}

async function sendAll(
  options: SendOptions,
  payload: object,
  onAnswer: (answer: Answer) => void,
): Promise<void> {
  for (let i = 0; i < options.repeat; i++) onAnswer(await send(options, payload));
}

/** Says what to do about a refusal; undefined if the answer says it, or the refusal is wanted. */
function remedyFor(
  status: number,
  { url, bad, platform, name, user }: SendOptions,
): string | undefined {
  if (status === 404) {
    return `The app has nothing at ${
      new URL(url).pathname
    }: a webhook's path is /webhook, or the 'path' ` +
      "of its platform. Give the whole address with --url";
  }
  if (bad !== undefined) return undefined;
  if (status === 401) {
    return "The app checks with another secret: give the one that it was started with, in the same " +
      "variable or with --secret-file";
  }
  return status === 403 && platform === "messenger"
    ? `The user ${user} may not use the app: add this id to its ${
      variableOf(name, "users")
    } and start it again, ` +
      "or give another id with --user"
    : undefined;
}

async function send(options: SendOptions, payload: object): Promise<Answer> {
  const delivery = requestOf(options, payload);
  return { ...await sendTo(options.url, delivery), id: deliveryIdOf(delivery) };
}

function shown({ id, ...answer }: Answer, asJson: boolean | undefined): string {
  const { status, code, text, ms } = answer;
  if (asJson) return JSON.stringify({ status, code, text, ms, id });
  return id === undefined ? lineOf(answer) : `${lineOf(answer)}  id ${oneLine(id)}`;
}

function summaryOf(answers: readonly Answer[]): string {
  const counts = new Map<number, number>();
  for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
  const statuses = [...counts].map(([status, count]) => `${count} x ${status}`).join(", ");
  const times = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (part: number) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  return `${answers.length} sent: ${statuses}; median ${at(0.5)} ms, 99 % within ${at(0.99)} ms`;
}
