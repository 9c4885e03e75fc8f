import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { deliver } from "../apps/_deliver.ts";
import type { StoreAddress } from "../events/store/engines/_engine.ts";

/** Payload of what is delivered. */
const BODY = JSON.stringify({ ref: "refs/heads/main" });

/** Options of the app in `_app.ts`. */
export interface ProcessOptions {
  readonly at: StoreAddress;
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
  /** Makes its handler wait for an answer, which it leaves beside the store, below `result`. */
  readonly waits?: boolean;
}

/** An app in a process of its own that is sent deliveries, killed and frozen. */
export interface AppProcess extends RunningApp {
  /** Sends a delivery and returns the status of the answer; undefined if there was none. */
  deliver(id: string): Promise<number | undefined>;
  signal(signal: Deno.Signal): void;
}

/** Options that an app is started with. */
export type StartOptions = Omit<ProcessOptions, "secret">;

/** Starts an app, with flags of Deno, and waits until it listens. */
export async function startProcess(
  options: StartOptions,
  ...flags: string[]
): Promise<AppProcess> {
  const app = startApp({
    script: new URL("./_app.ts", import.meta.url),
    args: [JSON.stringify({ ...options, secret: FORGE_SECRET })],
    flags: ["-A", ...flags],
  });
  await app.url;
  return Object.assign(app, {
    deliver: (id: string) => deliver(app, id, BODY).then(({ status }) => status, () => undefined),
    signal: (signal: Deno.Signal) => app.process.kill(signal),
  });
}
