import { killNow } from "../harness/follow_app.ts";
import { freePort, listens } from "../harness/free_port.ts";
import { appCommand } from "../harness/start_app.ts";
import { pause } from "../harness/until.ts";
import { bodyOf, SECRET, type Sign } from "./delivery.ts";
import type { Handled } from "./servers/_server.ts";
import { cpuMs, type Memory, memoryOf, writtenBytes } from "./proc.ts";
import type { Subject } from "./subjects.ts";

/** Options of a server. */
export interface AppOptions {
  /** URL of the KV, or path of the file, with its events. */
  readonly kvUrl: string;
  /** Further variables. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A server in a process of its own. */
export interface AppProcess extends AsyncDisposable {
  readonly url: string;
  /** Time from the start of the process to its first answer to a delivery. */
  readonly startMs: number;
  handled(): Promise<Handled>;
  /** Forgets how long the events so far have waited. */
  resetLags(): Promise<void>;
  /** The CPU time it has used so far. */
  cpuMs(): number;
  /** The bytes it has written to the disk so far. */
  writtenBytes(): number;
  memory(): Memory;
}

const START_TIMEOUT_MS = 30_000;

const SMALL_BODY = bodyOf(0);

/** Starts a server and waits for its first `OK`. Its log is thrown away, as is that of all others. */
export async function startApp(
  { script, args = [], flags = [], sign }: Subject,
  { kvUrl, env = {} }: AppOptions,
): Promise<AppProcess> {
  const [port, handledPort] = [freePort(), freePort()];
  const url = `http://127.0.0.1:${port}/webhook`;
  const handledUrl = `http://127.0.0.1:${handledPort}/`;
  const start = performance.now();
  const variables = {
    ...env,
    HOST: "127.0.0.1",
    PORT: String(port),
    KV_URL: kvUrl,
    SQLITE_FILE: kvUrl,
    FORGE_WEBHOOK_SECRET: SECRET,
    BENCH_HANDLED_PORT: String(handledPort),
  };
  // A server ends with the benchmark, by the end of its standard input.
  const process = appCommand(
    { script, args, env: variables, flags: ["--unstable-kv", "-A", ...flags] },
    { stdin: "piped", stdout: "null", stderr: "inherit" },
  ).spawn();
  const kill = async () => {
    killNow(process);
    await process.status;
  };
  try {
    await firstAnswer(url, port, sign);
  } catch (error) {
    await kill();
    throw error;
  }
  return {
    url,
    startMs: performance.now() - start,
    handled: async () => await (await fetch(handledUrl)).json(),
    resetLags: async () => await (await fetch(handledUrl, { method: "DELETE" })).json(),
    cpuMs: () => cpuMs(process.pid),
    writtenBytes: () => writtenBytes(process.pid),
    memory: () => memoryOf(process.pid),
    [Symbol.asyncDispose]: kill,
  };
}

async function firstAnswer(url: string, port: number, sign: Sign): Promise<void> {
  const { headers, body } = sign(SMALL_BODY);
  const end = performance.now() + START_TIMEOUT_MS;
  while (!(await listens(port))) {
    if (performance.now() > end) throw new Error("The server does not listen");
    await pause(1);
  }
  const id = crypto.randomUUID();
  const all = { ...headers, "X-GitHub-Delivery": id };
  const response = await fetch(url, { method: "POST", headers: all, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`The server answers ${response.status} ${text}`);
}
