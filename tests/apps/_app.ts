/** Permissions that starting an app takes. */
export const APP_NEEDS = ["net", "read", "write", "run", "env"] as const;

/** The variables that both apps read. */
const SHARED = ["PORT", "HOST", "KV_URL", "QUEUE_BELL", "TRUSTED_PROXY_HOPS", "DENO_DEPLOY"];

/** The variables that each app reads of its own. */
const OWN = {
  forge: ["FORGE_WEBHOOK_SECRET", "FORGE_WEBHOOK_SECRET_PREVIOUS"],
  messenger: [
    "MESSENGER_SECRET_TOKEN",
    "MESSENGER_SECRET_TOKEN_PREVIOUS",
    "MESSENGER_ALLOWED_USERS",
  ],
} as const;

/** The name of an app. */
export type AppName = keyof typeof OWN;

/** What an app logs, a record a line. */
export type Line = Readonly<Record<string, unknown>>;

/** An app's process, and what it wrote so far. */
export interface AppProcess extends AsyncDisposable {
  readonly process: Deno.ChildProcess;
  readonly lines: readonly Line[];
  /** Resolves with its address once it listens. */
  readonly url: Promise<string>;
  /** Waits for a record. */
  line(matches: (line: Line) => boolean): Promise<Line>;
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
 * ignore are given to it by a shell.
 */
export function spawnApp(
  app: AppName,
  env: Record<string, string>,
  ignored: readonly string[] = [],
): AppProcess {
  const process = command(app, { PORT: "0", HOST: "127.0.0.1", ...env }, ignored).spawn();
  const lines: Line[] = [];
  const waiting = new Set<() => void>();
  const following = (async () => {
    let rest = "";
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
      const complete = (rest + text).split("\n");
      rest = complete.pop() ?? "";
      lines.push(...complete.map((line) => JSON.parse(line)));
      for (const look of waiting) look();
    }
  })();
  const errors = process.stderr.pipeTo(new WritableStream());
  const line = (matches: (line: Line) => boolean) =>
    new Promise<Line>((resolve, reject) => {
      const look = () => {
        const found = lines.find(matches);
        if (found === undefined) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      look();
      following.then(() => reject(new Error(`The app ended: ${JSON.stringify(lines)}`)));
    });
  const url = line(({ message }) => message === "listening")
    .then(({ hostname, port }) => `http://${hostname}:${port}`);
  url.catch(() => {});
  return {
    process,
    lines,
    url,
    line,
    [Symbol.asyncDispose]: async () => {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended already.
      }
      await Promise.all([process.status, following, errors]);
    },
  };
}

/** What Deno itself needs: none of the variables that an app reads. */
function inheritedEnv(): Record<string, string> {
  const names = ["PATH", "HOME", "DENO_DIR", "DENO_KV_ACCESS_TOKEN", "SSL_CERT_FILE"];
  const set = names.map((name) => [name, Deno.env.get(name)] as const);
  return { NO_COLOR: "1", ...Object.fromEntries(set.filter(([, value]) => value !== undefined)) };
}

function command(
  app: AppName,
  env: Record<string, string>,
  ignored: readonly string[] = [],
): Deno.Command {
  const allowed = [...SHARED, ...OWN[app], "DENO_KV_ACCESS_TOKEN"].join();
  const args = [
    ...["run", "--quiet", "--no-prompt", `--allow-env=${allowed}`, "--allow-net"],
    ...["--allow-read", "--allow-write", new URL(`../../apps/${app}.ts`, import.meta.url).href],
  ];
  const options = {
    clearEnv: true,
    env: { ...inheritedEnv(), ...env },
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
