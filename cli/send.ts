import { deliveryIdOf, payloadOf, requestOf } from "./_deliveries.ts";
import { oneLine } from "../core/log.ts";
import { readSendOptions, type ReadVariable, type SendOptions } from "./_send_options.ts";

/** Output of `send`, and the variables that it reads. */
export interface SendIo {
  /** Writes a line. */
  readonly out: (line: string) => void;
  /** Writes a line for the user. */
  readonly err: (line: string) => void;
  /** Reads a variable. */
  readonly variable: ReadVariable;
}

/** Text of `send --help`. */
export const SEND_HELP = `Usage: send PLATFORM EVENT [OPTION...]

  send forge push                    a published example of a push, signed as GitHub does
  send forge issues.opened           one with this action
  send messenger message --user 42   a message of this user

  PLATFORM is forge, github, gitea, gitlab, messenger or telegram, as the app calls it

Delivery
  --file PATH      its payload, sent byte for byte
  --from SENDER    github, gitea, forgejo, gitlab, gitlab-token or forge; telegram or messenger
  --id ID          its id; sending the same id again makes a duplicate
  --form           sent in a form, as GitHub, Gitea and Forgejo can
  --user ID        of a message: its user (42); --chat=ID is its group, --text its text
  --bad FAULT      a fault, so that it is refused: signature (wrong), missing (no signature), body
                   (changed after signing), stale (signed 10 minutes ago) or json (not JSON)

App
  --url URL        its address (http://localhost:8000, for messenger :8001; or at PORT)
                   The secret comes from the variable that the app reads: FORGE_WEBHOOK_SECRET,
                   GITHUB_WEBHOOK_SECRET, GITLAB_WEBHOOK_TOKEN, TELEGRAM_SECRET_TOKEN, ...
  --name NAME      the platform's name in the app, if it has another: SECOND_WEBHOOK_SECRET
  --secret-file PATH
                   a file with the secret instead; a line break at its end is ignored
  --repeat N       number of deliveries, sent one after the other, each with its own id

  --json           one JSON document per line
  --help

  Each line ends with the delivery's id, by which events show finds its event.`;

/** Most answers that are written one by one. */
const MAX_LINES = 20;

/** Longest wait for an answer. */
const TIMEOUT_MS = 60_000;

interface Answer {
  readonly status: number;
  readonly code: string | null;
  readonly text: string;
  readonly ms: number;
  /** The delivery's id, by which `events show` finds its event. */
  readonly id: string | undefined;
}

/**
 * Signs and sends deliveries to an app, and writes its answers and their times.
 *
 * @param args The command line, without `send`.
 * @param io The output and the variables.
 * @returns True if the app answered as expected: 2xx, or 4xx to a delivery with a fault.
 * @throws {UsageError} If the command line is wrong.
 */
export async function runSend(args: readonly string[], io: SendIo): Promise<boolean> {
  const options = readSendOptions(args, io);
  const payload = await payloadOf(options);
  const answers: Answer[] = [];
  try {
    await sendAll(options, payload, (answer) => {
      if (answers.push(answer) <= MAX_LINES || options.json) {
        io.out(options.json ? JSON.stringify(answer) : lineOf(answer));
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
  { url, bad, platform, prefix, user }: SendOptions,
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
    ? `The user ${user} may not use the app: add this id to its ${prefix}_ALLOWED_USERS and start it again, ` +
      "or give another id with --user"
    : undefined;
}

async function send(options: SendOptions, payload: object): Promise<Answer> {
  const delivery = requestOf(options, payload);
  const { method, headers, body } = delivery;
  const start = performance.now();
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const request = { method, headers, body, signal, redirect: "manual" } as const;
  const response = await fetch(options.url, request).catch((error) => {
    const { host } = new URL(options.url);
    const reason = String(error.cause?.message ?? error.message);
    throw new Error(
      /refused/i.test(reason)
        ? `Nothing listens at ${host}: start the app, or give its address with --url or PORT`
        : `The app at ${host} does not answer: ${reason}`,
    );
  });
  const text = await response.text();
  const ms = Math.round((performance.now() - start) * 100) / 100;
  const code = response.headers.get("X-Error-Code");
  return { status: response.status, code, text, ms, id: deliveryIdOf(delivery) };
}

function lineOf({ status, code, text, ms, id }: Answer): string {
  const answered = [
    status,
    code,
    oneLine(text).slice(0, 200),
  ];
  const line = `${answered.filter((part) => part).join(" ")}  ${ms} ms`;
  return id === undefined ? line : `${line}  id ${oneLine(id)}`;
}

function summaryOf(answers: readonly Answer[]): string {
  const counts = new Map<number, number>();
  for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
  const statuses = [...counts].map(([status, count]) => `${count} x ${status}`).join(", ");
  const times = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (part: number) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  return `${answers.length} sent: ${statuses}; median ${at(0.5)} ms, 99 % within ${at(0.99)} ms`;
}
