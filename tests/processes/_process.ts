import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { FORGE_SECRET, sign } from "../_deliveries.ts";

/** Options of the app in `_app.ts`. */
export interface ProcessOptions {
  /** The path or URL of its KV. */
  readonly kv: string;
  readonly secret: string;
  /** Time that its handler takes. */
  readonly handlerMs?: number;
  readonly leaseMs?: number;
  /** Number of groups that events are spread over, to be handled together. */
  readonly groups?: number | undefined;
  /**
   * Number of events that the handler of a delivery emits, beside one with an id of its own.
   *
   * @default {0} None, and none with an id.
   */
  readonly emits?: number;
  /**
   * Makes it handle events, and not only take them in.
   *
   * @default {true}
   */
  readonly worker?: boolean;
  /** Makes its handler wait for an answer, which it leaves in the KV, below `result`. */
  readonly waits?: boolean;
}

/** An app in a process of its own that is sent deliveries, killed and frozen. */
export interface AppProcess extends RunningApp {
  /** Sends a delivery and returns the status of the answer; undefined if there was none. */
  deliver(id: string): Promise<number | undefined>;
  /** The most memory that it has held so far, in megabytes. */
  peakMb(): Promise<number>;
  signal(signal: Deno.Signal): void;
}

const BODY = `{"ref":"refs/heads/main"}`;

const SIGNATURE = sign(BODY);

/** Starts an app, with flags of Deno, and waits until it listens. */
export async function startProcess(
  options: Omit<ProcessOptions, "secret">,
  ...flags: string[]
): Promise<AppProcess> {
  const app = startApp({
    script: new URL("./_app.ts", import.meta.url),
    args: [JSON.stringify({ ...options, secret: FORGE_SECRET })],
    flags: ["-A", ...flags],
  });
  const url = await app.url;
  return Object.assign(app, {
    deliver: (id: string) => deliver(`${url}/webhook`, id),
    peakMb: async () => Number(await (await fetch(`${url}/peak`)).text()) / 1_024,
    signal: (signal: Deno.Signal) => app.process.kill(signal),
  });
}

async function deliver(url: string, id: string): Promise<number | undefined> {
  const headers = {
    "Content-Type": "application/json",
    "X-Forge-Event": "push",
    "X-Forge-Delivery": id,
    "X-Hub-Signature-256": SIGNATURE,
  };
  try {
    const response = await fetch(url, { method: "POST", headers, body: BODY });
    await response.body?.cancel();
    return response.status;
  } catch {
    return undefined;
  }
}
