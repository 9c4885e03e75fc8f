import * as harness from "../../dev/harness/start_app.ts";
import type { RunningApp } from "../../dev/harness/start_app.ts";
import type { App, StartAppOptions } from "../../mod.ts";
import { FORGE_SECRET } from "../_deliveries.ts";

export type { Line, RunningApp } from "../../dev/harness/start_app.ts";

type Definition = App["definition"];

/** Permissions that starting an app takes. */
export const APP_NEEDS = ["net", "read", "write", "run", "env"] as const;

/** The variables that both apps read. */
const SHARED = [
  ...["PORT", "HOST", "KV_URL", "NOTIFIER", "TRUSTED_PROXY_HOPS", "LOG_FORMAT"],
  ...["DENO_DEPLOY", "DENO_TRUST_PROXY_HEADERS"],
  ...["CONSOLE_TOKEN", "CONSOLE_OPERATOR_TOKEN", "CONSOLE_ENVIRONMENT"],
];

/** The variables that each app reads of its own. */
const OWN = {
  forge: [
    "FORGE_WEBHOOK_SECRET",
    "FORGE_WEBHOOK_SECRET_PREVIOUS",
    "FORGE_WEBHOOK_TOKEN",
    "FORGE_WEBHOOK_TOKEN_PREVIOUS",
  ],
  messenger: [
    "MESSENGER_SECRET_TOKEN",
    "MESSENGER_SECRET_TOKEN_PREVIOUS",
    "MESSENGER_ALLOWED_USERS",
  ],
} as const;

/** The name of an app. */
export type AppName = keyof typeof OWN;

/** Options of the app in `_own_app.ts`: those of `defineApp` and `runApp` that are data, and what its handler does. */
export interface OwnAppOptions
  extends
    Pick<Definition, "namespace" | "retentionMs">,
    NonNullable<Definition["worker"]>,
    Pick<StartAppOptions, "graceMs"> {
  /**
   * Name of its engine.
   *
   * @default {"kv"}
   */
  readonly engine?: string;
  /** Time that its handler takes, unless the payload has a `handlerMs` of its own. */
  readonly handlerMs?: number;
  /** Failures that its handler leaves behind: a promise at once, a timer after 300 ms. */
  readonly leaves?: readonly ("promise" | "timer")[];
  /** Makes its handler throw in the end. */
  readonly fails?: boolean;
  /** Makes its `routes` async. */
  readonly isAsync?: boolean;
  /** Makes it put a message into the queue of its KV when it starts. */
  readonly enqueues?: boolean;
  /** Mark that its log sink adds to the records. */
  readonly mark?: string;
  /** Marks what goes through its console with `byConsole`. */
  readonly marksConsole?: boolean;
}

/** Runs an app that is expected to end by itself. */
export async function runToEnd(
  app: AppName,
  env: Record<string, string>,
): Promise<{ code: number; stderr: string }> {
  return await harness.runToEnd(optionsOf(app, env));
}

/**
 * Starts an app on a free port, allowed to read its own variables and no others. Signals that it is to
 * ignore are given to it by a shell. Flags are Deno's.
 */
export function spawnApp(
  app: AppName,
  env: Record<string, string>,
  ignored: readonly string[] = [],
  flags: readonly string[] = [],
): RunningApp {
  const ignoring = ignored.length === 0 ? {} : { before: `trap '' ${ignored.join(" ")}` };
  return harness.startApp({ ...optionsOf(app, env, flags), ...ignoring });
}

/** Starts the app of `_own_app.ts`. A `limit` is set by a shell before it starts: `ulimit -n 96`. */
export function spawnOwnApp(
  options: OwnAppOptions,
  env: Record<string, string>,
  limit?: string,
): RunningApp {
  return harness.startApp({
    script: new URL("./_own_app.ts", import.meta.url),
    args: [JSON.stringify(options)],
    env: { FORGE_WEBHOOK_SECRET: FORGE_SECRET, ...env },
    ...(limit === undefined ? {} : { before: limit }),
  });
}

function optionsOf(
  app: AppName,
  env: Record<string, string>,
  flags: readonly string[] = [],
): harness.AppOptions {
  const allowed = [...SHARED, ...OWN[app], "DENO_KV_ACCESS_TOKEN"].join();
  const granted = [`--allow-env=${allowed}`, "--allow-net", "--allow-read", "--allow-write"];
  const script = new URL(`../../apps/${app}.ts`, import.meta.url);
  return { script, env, flags: [...flags, ...granted] };
}
