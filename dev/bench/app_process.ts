import { bodyOf, SECRET, type Sign } from "./delivery.ts";
import type { Handled } from "./servers/_handled.ts";
import { cpuMs, type Memory, memoryOf } from "./proc.ts";
import type { Subject } from "./subjects.ts";

/** How a server is started. */
export interface AppOptions {
  readonly kvUrl: string;
  /** Further variables. */
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A server in a process of its own. */
export interface AppProcess extends AsyncDisposable {
  readonly url: string;
  /** From the start of the process to its first answer to a delivery. */
  readonly startMs: number;
  handled(): Promise<Handled>;
  /** Forgets how long the events so far have waited. */
  resetLags(): Promise<void>;
  /** The CPU time it has used so far. */
  cpuMs(): number;
  memory(): Memory;
}

const START_TIMEOUT_MS = 30_000;

const SMALL_BODY = bodyOf(0);

/** Starts a server and waits for its first `OK`. What it logs is thrown away, for all alike. */
export async function startApp(
  { script, sign }: Subject,
  { kvUrl, env = {} }: AppOptions,
): Promise<AppProcess> {
  const [port, handledPort] = freePorts();
  const url = `http://127.0.0.1:${port}/webhook`;
  const handledUrl = `http://127.0.0.1:${handledPort}/`;
  const start = performance.now();
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", "--unstable-kv", "-A", script.href],
    env: {
      ...env,
      HOST: "127.0.0.1",
      PORT: String(port),
      KV_URL: kvUrl,
      FORGE_WEBHOOK_SECRET: SECRET,
      BENCH_HANDLED_PORT: String(handledPort),
    },
    stdin: "piped",
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  const kill = async () => {
    try {
      process.kill("SIGKILL");
    } catch {
      // It has ended by itself.
    }
    await process.status;
  };
  try {
    await firstAnswer(url, port!, sign);
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
    memory: () => memoryOf(process.pid),
    [Symbol.asyncDispose]: kill,
  };
}

async function firstAnswer(url: string, port: number, sign: Sign): Promise<void> {
  const { headers, body } = sign(SMALL_BODY);
  const end = performance.now() + START_TIMEOUT_MS;
  while (!(await listens(port))) {
    if (performance.now() > end) throw new Error("The server does not listen");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const id = crypto.randomUUID();
  const all = { ...headers, "X-GitHub-Delivery": id };
  const response = await fetch(url, { method: "POST", headers: all, body });
  const text = await response.text();
  if (!response.ok) throw new Error(`The server answers ${response.status} ${text}`);
}

async function listens(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}

function freePorts(): number[] {
  using first = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using second = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return [first.addr.port, second.addr.port];
}
