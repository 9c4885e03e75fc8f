import { FORGE_SECRET, sign } from "../_deliveries.ts";

/** How an app in a process of its own runs. */
export interface ProcessOptions {
  /** The path or URL of its KV. */
  readonly kv: string;
  readonly secret: string;
  /** How long its handler takes. */
  readonly handlerMs?: number;
  readonly leaseMs?: number;
  /** Whether it handles events, or only takes them in. */
  readonly worker?: boolean;
}

/** A record that an app has logged. */
export interface Line {
  readonly message: string;
  readonly id?: string;
  readonly deliveryId?: string;
  readonly attempt?: number;
}

/** An app in a process of its own. */
export interface AppProcess extends AsyncDisposable {
  readonly pid: number;
  readonly lines: readonly Line[];
  /** Sends a delivery and tells the status of the answer; undefined if there was none. */
  deliver(id: string): Promise<number | undefined>;
  /** The most memory that it has held so far, in megabytes. */
  peakMb(): Promise<number>;
  signal(signal: Deno.Signal): void;
  /** How often something was logged of an event, or of any. */
  count(message: string, id?: string): number;
}

/** An app that does not listen by then never will. */
const START_TIMEOUT_MS = 20_000;

const BODY = `{"ref":"refs/heads/main"}`;

/** Starts an app, with flags of Deno, and waits until it listens. */
export async function startProcess(
  options: Omit<ProcessOptions, "secret">,
  ...flags: string[]
): Promise<AppProcess> {
  const script = new URL("./_app.ts", import.meta.url).href;
  const argument = JSON.stringify({ ...options, secret: FORGE_SECRET });
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "-A", ...flags, script, argument],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const lines: Line[] = [];
  const counts = new Map<string, number>();
  const listening = Promise.withResolvers<string>();
  const following = (async () => {
    let rest = "";
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
      const complete = (rest + text).split("\n");
      rest = complete.pop() ?? "";
      for (const line of complete.map((each) => JSON.parse(each))) {
        lines.push(line);
        counts.set(line.message, (counts.get(line.message) ?? 0) + 1);
        if (line.message === "listening") listening.resolve(line.url);
      }
    }
    listening.reject(new Error("The app ended before it listened"));
  })();
  const tooLong = setTimeout(() => process.kill("SIGKILL"), START_TIMEOUT_MS);
  const url = await listening.promise.finally(() => clearTimeout(tooLong));
  const signature = await sign(BODY);
  return {
    pid: process.pid,
    lines,
    deliver: (id) => deliver(`${url}/webhook`, id, signature),
    peakMb: async () => Number(await (await fetch(`${url}/peak`)).text()) / 1_024,
    signal: (signal) => process.kill(signal),
    count: (message, id) =>
      id === undefined
        ? counts.get(message) ?? 0
        : lines.filter((line) => line.message === message && (line.deliveryId ?? line.id) === id)
          .length,
    [Symbol.asyncDispose]: async () => {
      try {
        process.kill("SIGKILL");
      } catch {
        // It was killed already.
      }
      await Promise.all([process.status, following]);
    },
  };
}

async function deliver(url: string, id: string, signature: string): Promise<number | undefined> {
  const headers = {
    "Content-Type": "application/json",
    "X-Forge-Event": "push",
    "X-Forge-Delivery": id,
    "X-Hub-Signature-256": signature,
  };
  try {
    const response = await fetch(url, { method: "POST", headers, body: BODY });
    await response.body?.cancel();
    return response.status;
  } catch {
    return undefined;
  }
}

/** Waits until something holds, and fails if it does not within a time. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  withinMs: number,
): Promise<number> {
  const start = performance.now();
  while (!(await condition())) {
    if (performance.now() - start > withinMs) throw new Error(`Waited ${withinMs} ms in vain`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return performance.now() - start;
}
