import { environmentOf } from "./environment.ts";
import { follow, type RunningApp } from "./follow_app.ts";

export type { Line, RunningApp } from "./follow_app.ts";

/** Options of a process that runs a module. */
export interface AppOptions {
  /** The module's address. */
  readonly script: string | URL;
  /** Arguments of the module. */
  readonly args?: readonly string[];
  /** Its variables. Of others it gets only what Deno itself needs. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Flags of Deno, the permissions among them.
   *
   * @default {["-A"]}
   */
  readonly flags?: readonly string[];
  /**
   * Path of the Deno that runs it.
   *
   * @default {Deno.execPath()}
   */
  readonly deno?: string | undefined;
  /** A command that a shell executes before it becomes the app: `ulimit -n 96`. */
  readonly before?: string;
  /** The folder it runs in. */
  readonly cwd?: string | URL;
  /**
   * Lets it write text besides its records. Without this, a line that is no JSON is an error.
   *
   * @default {false}
   */
  readonly text?: boolean;
}

const PIPED = { stdout: "piped", stderr: "piped" } as const;

/** Makes the command that runs a module in a process of its own. */
export function appCommand(
  { script, args = [], env = {}, flags = ["-A"], before, cwd, deno = Deno.execPath() }: AppOptions,
  stdio: Pick<Deno.CommandOptions, "stdin" | "stdout" | "stderr"> = PIPED,
): Deno.Command {
  const run = ["run", "--cached-only", "--quiet", "--no-prompt", ...flags, String(script), ...args];
  const [program, its] = before === undefined
    ? [deno, run]
    : ["sh", ["-c", `${before}; exec "$@"`, "sh", deno, ...run]];
  const folder = cwd === undefined ? {} : { cwd };
  return new Deno.Command(program, {
    args: its,
    clearEnv: true,
    env: environmentOf(env),
    ...folder,
    ...stdio,
  });
}

/** Starts an app, by default on a free port of this machine; it is killed at the end of its scope. */
export function startApp(options: AppOptions): RunningApp {
  const env = { PORT: "0", HOST: "127.0.0.1", ...options.env };
  return follow(appCommand({ ...options, env }).spawn(), options.text);
}

/** Runs an app that is expected to end by itself. */
export async function runToEnd(options: AppOptions): Promise<{ code: number; stderr: string }> {
  const { code, stderr } = await appCommand(options).output();
  return { code, stderr: new TextDecoder().decode(stderr).trim() };
}
