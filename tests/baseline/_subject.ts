import type { RunAppOptions } from "../../mod.ts";
import type { ForgeIntakeOptions } from "../../webhook/forge.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../_deliveries.ts";
import { environmentOf } from "../_inherited_env.ts";

/** How a subject is started. */
export interface SubjectOptions {
  /** @default {"forge"} */
  readonly app?: "forge" | "messenger";
  /** Variables that add to those of every subject, or replace them. */
  readonly env?: Readonly<Record<string, string>>;
  /** What of the package is to be otherwise than by default; the plain version has nothing of it. */
  readonly intake?: Partial<Pick<ForgeIntakeOptions, "bodyTimeoutMs" | "replayWindowMs">>;
  /** As `intake`. */
  readonly worker?: Partial<Pick<RunAppOptions, "leaseMs" | "retry">>;
}

/** An answer; undefined in its place means that there was none. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A subject that runs, or has ended. */
export interface Subject extends AsyncDisposable {
  readonly process: Deno.ChildProcess;
  readonly port: number;
  readonly url: string;
  /** What it has written so far, to both of its outputs. */
  readonly lines: readonly string[];
  /** Sends a request to a path, by default to the webhook. */
  send(init: RequestInit, path?: string): Promise<Answer | undefined>;
  /** Of which events a handler has started, each time it has. */
  starts(): string[];
  /** Waits until a number of handlers have started, and then until no more start for a while. */
  settled(count: number): Promise<string[]>;
  /** Resolves when it has ended and all is read that it wrote. */
  readonly ended: Promise<Deno.CommandStatus>;
}

/** Starts a subject; undefined if it ends instead of listening. */
export type Start = (options?: SubjectOptions) => Promise<Subject | undefined>;

/** Both listen by then, or never will. */
const START_TIMEOUT_MS = 20_000;

/** A handler starts by then, or not at all. */
const HANDLER_TIMEOUT_MS = 10_000;

/** A second start of the same event would be there by then. */
const QUIET_MS = 300;

const script = (path: string) => new URL(path, import.meta.url).href;

/** The plain version. */
export const startPlain: Start = ({ app = "forge", env = {} } = {}) =>
  start([script(`../../dev/bench/baseline/${app}.ts`)], env);

/** The same, made of the package. */
export const startEdgeBase: Start = (options = {}) =>
  start([script("./_edge_base.ts"), JSON.stringify(options)], options.env ?? {});

async function start(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Subject | undefined> {
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", "-A", ...args],
    clearEnv: true,
    env: environmentOf({
      ...{ PORT: "0", HOST: "127.0.0.1", KV_URL: ":memory:" },
      ...{ FORGE_WEBHOOK_SECRET: FORGE_SECRET, MESSENGER_SECRET_TOKEN: MESSENGER_SECRET },
      ...{ MESSENGER_ALLOWED_USERS: "42", ...env },
    }),
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const lines: string[] = [];
  const listening = Promise.withResolvers<number | undefined>();
  const follow = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
    let rest = "";
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      const complete = (rest + text).split("\n");
      rest = complete.pop() ?? "";
      lines.push(...complete);
      const port = complete.map((line) => /listening.*?(\d{4,5})/.exec(line)?.[1]).find(Boolean);
      if (port !== undefined) listening.resolve(Number(port));
    }
    if (rest !== "") lines.push(rest);
  };
  const read = Promise.all([follow(process.stdout), follow(process.stderr)]);
  const ended = read.then(() => process.status);
  ended.then(() => listening.resolve(undefined));
  let refuses = true;
  const tooLong = setTimeout(() => {
    refuses = false;
    process.kill("SIGKILL");
  }, START_TIMEOUT_MS);
  const port = await listening.promise.finally(() => clearTimeout(tooLong));
  if (port === undefined) {
    // Neither is an answer to what a test asks: to wait too long, and to lack a package.
    if (refuses && !lines.some((line) => line.includes("--cached-only"))) return undefined;
    throw new Error(`Cannot start ${args.join(" ")}:\n${lines.join("\n")}`);
  }
  const url = `http://127.0.0.1:${port}`;
  const starts = () =>
    lines.filter((line) => line.startsWith("start ")).map((line) => line.slice(6));
  return {
    process,
    port,
    url,
    lines,
    ended,
    send: (init, path = "/webhook") => send(`${url}${path}`, init),
    starts,
    settled: async (count) => {
      const end = performance.now() + HANDLER_TIMEOUT_MS;
      while (starts().length < count && performance.now() < end) await pause(10);
      for (let seen = -1; seen !== starts().length;) {
        seen = starts().length;
        await pause(QUIET_MS);
      }
      return starts();
    },
    [Symbol.asyncDispose]: async () => {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended already.
      }
      await ended;
    },
  };
}

async function send(url: string, init: RequestInit): Promise<Answer | undefined> {
  try {
    const response = await fetch(url, init);
    const { status, headers } = response;
    return { status, headers, text: await response.text() };
  } catch {
    return undefined;
  }
}

/** Waits for a time. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
