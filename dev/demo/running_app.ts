import { environmentOf } from "../../tests/_inherited_env.ts";

/** An app running in a process of its own, followed by what it logs. */
export interface RunningApp extends AsyncDisposable {
  /** Where it takes deliveries. */
  readonly url: string;
  /** How often each event was handled, by its delivery id. */
  readonly handled: ReadonlyMap<string, number>;
  /** How long each request took in the app, in milliseconds, by its id. */
  readonly durations: ReadonlyMap<string, number>;
}

type Line = Readonly<Record<string, unknown>>;

/**
 * Starts an app on a free port of this machine.
 *
 * @param script The app's file.
 * @param env Its variables. Of others it gets only what Deno itself needs.
 * @returns The app, once it listens. It is told to stop at the end of the scope.
 * @throws {Error} If it ends before it listens, or does not end with exit code 0.
 */
export async function startApp(script: URL, env: Record<string, string>): Promise<RunningApp> {
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", "-A", script.href],
    clearEnv: true,
    env: environmentOf({ ...env, PORT: "0", HOST: "127.0.0.1" }),
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const handled = new Map<string, number>();
  const durations = new Map<string, number>();
  const listening = Promise.withResolvers<string>();
  const following = follow(process.stdout, (line) => {
    const { deliveryId: id, requestId } = line as { deliveryId: string; requestId: string };
    if (line.message === "listening") listening.resolve(`http://${line.hostname}:${line.port}`);
    if (line.message === "event handled") handled.set(id, (handled.get(id) ?? 0) + 1);
    if (line.message === "request") durations.set(requestId, Number(line.durationMs));
  });
  process.status.then(({ code }) => listening.reject(new Error(`${script} ended with ${code}`)));
  const url = await listening.promise;
  return {
    url: `${url}/webhook`,
    handled,
    durations,
    [Symbol.asyncDispose]: async () => {
      process.kill("SIGTERM");
      const { code } = await process.status;
      await following;
      if (code !== 0) throw new Error(`${script} ended with ${code}`);
    },
  };
}

async function follow(
  output: ReadableStream<Uint8Array>,
  see: (line: Line) => void,
): Promise<void> {
  let rest = "";
  for await (const text of output.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    // A handler may write lines of its own.
    for (const line of lines.filter((each) => each.startsWith("{"))) see(JSON.parse(line));
  }
}
