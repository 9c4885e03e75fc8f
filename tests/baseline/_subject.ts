import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { pause } from "../../dev/harness/until.ts";
import type { WorkerOptions } from "../../mod.ts";

import { FORGE_SECRET, MESSENGER_SECRET } from "../_deliveries.ts";
import type { ForgeIntakeOptions } from "../webhook/_intakes.ts";

/** Options of a subject. */
export interface SubjectOptions {
  /** @default {"forge"} */
  readonly app?: "forge" | "messenger";
  /** Variables that add to those of every subject, or replace them. */
  readonly env?: Readonly<Record<string, string>>;
  /** Options of the package that differ from the defaults; the baseline has none of them. */
  readonly intake?: Partial<Pick<ForgeIntakeOptions, "bodyTimeoutMs" | "replayWindowMs">>;
  /** As `intake`. */
  readonly worker?: Partial<Pick<WorkerOptions, "leaseMs" | "retry">>;
}

/** An answer; undefined in its place means that there was none. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A subject that runs, or has ended. */
export interface Subject extends RunningApp {
  readonly port: number;
  /** Its address, as `url` resolves to it. */
  readonly address: string;
  /** Sends a request to a path, by default to the webhook. */
  send(init: RequestInit, path?: string): Promise<Answer | undefined>;
  /** The events whose handler has started, once for each start. */
  starts(): string[];
  /** Waits until a number of handlers have started, and then until no more start for a while. */
  settled(count: number): Promise<string[]>;
}

/** Starts a subject; undefined if it ends instead of listening. */
export type Start = (options?: SubjectOptions) => Promise<Subject | undefined>;

/** A handler starts by then, or not at all. */
const HANDLER_TIMEOUT_MS = 10_000;

/** A second start of the same event would be there by then. */
const QUIET_MS = 300;

/** The baseline. */
export const startBaseline: Start = ({ app = "forge", env = {} } = {}) =>
  start(new URL(`../../dev/bench/baseline/${app}.ts`, import.meta.url), env);

/** The same, made of the package. */
export const startEdgeBase: Start = (options = {}) =>
  start(
    new URL("./_edge_base.ts", import.meta.url),
    options.env ?? {},
    JSON.stringify(options),
  );

async function start(
  script: URL,
  env: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<Subject | undefined> {
  const app = startApp({
    script,
    args,
    env: {
      ...{ KV_URL: ":memory:", FORGE_WEBHOOK_SECRET: FORGE_SECRET },
      ...{ MESSENGER_SECRET_TOKEN: MESSENGER_SECRET, MESSENGER_ALLOWED_USERS: "42", ...env },
    },
    text: true,
  });
  const url = await app.url.catch((error) => refused(app, error));
  if (url === undefined) return undefined;
  const starts = () =>
    app.output.filter((line) => line.startsWith("start ")).map((line) => line.slice(6));
  return Object.assign(app, {
    port: Number(new URL(url).port),
    address: url,
    send: (init: RequestInit, path = "/webhook") => send(`${url}${path}`, init),
    starts,
    settled: async (count: number) => {
      const end = performance.now() + HANDLER_TIMEOUT_MS;
      while (starts().length < count && performance.now() < end) await pause(10);
      for (let seen = -1; seen !== starts().length;) {
        seen = starts().length;
        await pause(QUIET_MS);
      }
      return starts();
    },
  });
}

/** Passes if a subject has ended by itself: to take too long, or to lack a package, is no answer. */
async function refused(app: RunningApp, error: Error): Promise<undefined> {
  const hasEnded = error.message.startsWith("The app ended");
  await app[Symbol.asyncDispose]();
  if (!hasEnded || app.output.some((line) => line.includes("--cached-only"))) throw error;
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
