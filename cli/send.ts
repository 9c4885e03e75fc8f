import { payloadOf, requestOf } from "./_deliveries.ts";
import { oneLine } from "./_output.ts";
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

Delivery
  --file PATH      its payload, sent byte for byte
  --from SENDER    github, gitea, forgejo, gitlab, gitlab-token or forge; telegram or messenger
  --id ID          its id; sending the same id again makes a duplicate
  --form           sent in a form, as GitHub, Gitea and Forgejo can
  --user ID        of a message: its user (42); --chat=ID is its group, --text its text
  --bad FAULT      a fault, so that it is refused: signature (wrong), missing (no signature), body
                   (changed after signing), stale (signed 10 minutes ago) or json (not JSON)

App
  --url URL        its address (http://localhost:8000 for a forge, :8001 for a messenger; or at PORT)
                   The secret comes from the variable that the app reads: FORGE_WEBHOOK_SECRET,
                   FORGE_WEBHOOK_TOKEN or MESSENGER_SECRET_TOKEN
  --secret-file PATH
                   a file with the secret instead; a line break at its end is ignored
  --repeat N       number of deliveries, sent one after the other, each with its own id

  --json           one JSON document per line
  --help`;

/** Most answers that are written one by one. */
const MAX_LINES = 20;

/** Longest wait for an answer. */
const TIMEOUT_MS = 60_000;

interface Answer {
  readonly status: number;
  readonly code: string | null;
  readonly text: string;
  readonly ms: number;
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
  for (let i = 0; i < options.repeat; i++) {
    const answer = await send(options, payload);
    answers.push(answer);
    if (i < MAX_LINES || options.json) {
      io.out(options.json ? JSON.stringify(answer) : lineOf(answer));
    }
  }
  if (options.repeat > 1 && !options.json) io.out(summaryOf(answers));
  const wanted = options.bad === undefined ? 2 : 4;
  return answers.every(({ status }) => Math.floor(status / 100) === wanted);
}

async function send(options: SendOptions, payload: object): Promise<Answer> {
  const { method, headers, body } = requestOf(options, payload);
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
  return { status: response.status, code: response.headers.get("X-Error-Code"), text, ms };
}

function lineOf({ status, code, text, ms }: Answer): string {
  const answered = [
    status,
    code,
    oneLine(text).slice(0, 200),
  ];
  return `${answered.filter((part) => part).join(" ")}  ${ms} ms`;
}

function summaryOf(answers: readonly Answer[]): string {
  const counts = new Map<number, number>();
  for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
  const statuses = [...counts].map(([status, count]) => `${count} x ${status}`).join(", ");
  const times = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (part: number) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  return `${answers.length} sent: ${statuses}; median ${at(0.5)} ms, 99 % within ${at(0.99)} ms`;
}
