import type { RunAppOptions } from "../../mod.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { environmentOf } from "../_inherited_env.ts";
import { type AppProcess, follow } from "./_follow.ts";

export type { AppProcess, Line } from "./_follow.ts";

/** Permissions that starting an app takes. */
export const APP_NEEDS = ["net", "read", "write", "run", "env"] as const;

/** The variables that both apps read. */
const SHARED = [
  ...["PORT", "HOST", "KV_URL", "NOTIFIER", "TRUSTED_PROXY_HOPS"],
  ...["DENO_DEPLOY", "DENO_TRUST_PROXY_HEADERS"],
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

/** How the app of `_own_app.ts` runs: the options of `runApp` that are data, and what it does. */
export interface OwnAppOptions
  extends Partial<Omit<RunAppOptions, "name" | "handler" | "setup" | "log">> {
  /** How long its handler takes, unless the payload has a `handlerMs` of its own. */
  readonly handlerMs?: number;
  /** What its handler leaves behind that fails: a promise at once, a timer after 300 ms. */
  readonly leaves?: readonly ("promise" | "timer")[];
  /** Whether its handler throws in the end. */
  readonly fails?: boolean;
  /** Whether it forgets `bindEnv`. */
  readonly unbound?: boolean;
  /** What its log sink adds to the records. */
  readonly mark?: string;
  /** Whether what goes through its console is marked with `byConsole`. */
  readonly marksConsole?: boolean;
}

/** Runs an app that is expected to end by itself: with what code, and what does it write? */
export async function runToEnd(
  app: AppName,
  env: Record<string, string>,
): Promise<{ code: number; stderr: string }> {
  const { code, stderr } = await command(app, env).output();
  return { code, stderr: new TextDecoder().decode(stderr).trim() };
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
): AppProcess {
  return follow(command(app, { PORT: "0", HOST: "127.0.0.1", ...env }, ignored, flags).spawn());
}

/**
 * Starts the app of `_own_app.ts`. A `limit` is set by a shell before it starts: `ulimit -n 96`.
 */
export function spawnOwnApp(
  options: OwnAppOptions,
  env: Record<string, string>,
  limit?: string,
): AppProcess {
  const script = new URL("./_own_app.ts", import.meta.url).href;
  const shared = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, PORT: "0", HOST: "127.0.0.1" };
  const args = [
    "run",
    "--cached-only",
    "--quiet",
    "--no-prompt",
    "-A",
    script,
    JSON.stringify(options),
  ];
  const command = new Deno.Command(limit === undefined ? Deno.execPath() : "sh", {
    args: limit === undefined
      ? args
      : ["-c", `${limit}; exec "$@"`, "sh", Deno.execPath(), ...args],
    clearEnv: true,
    env: environmentOf({ ...shared, ...env }),
    stdout: "piped",
    stderr: "piped",
  });
  return follow(command.spawn());
}

function command(
  app: AppName,
  env: Record<string, string>,
  ignored: readonly string[] = [],
  flags: readonly string[] = [],
): Deno.Command {
  const allowed = [...SHARED, ...OWN[app], "DENO_KV_ACCESS_TOKEN"].join();
  const args = [
    ...[
      "run",
      "--cached-only",
      "--quiet",
      "--no-prompt",
      ...flags,
      `--allow-env=${allowed}`,
      "--allow-net",
    ],
    ...["--allow-read", "--allow-write", new URL(`../../apps/${app}.ts`, import.meta.url).href],
  ];
  const options = {
    clearEnv: true,
    env: environmentOf(env),
    stdout: "piped",
    stderr: "piped",
  } as const;
  if (ignored.length === 0) return new Deno.Command(Deno.execPath(), { args, ...options });
  const script = `trap '' ${ignored.join(" ")}; exec "$@"`;
  return new Deno.Command("sh", {
    args: ["-c", script, "sh", Deno.execPath(), ...args],
    ...options,
  });
}
