import { freePort, listens } from "../../../../dev/harness/free_port.ts";
import { until } from "../../../../dev/harness/until.ts";
import { findProgram, isGranted, type Need, testWith } from "../../../_permissions.ts";

/**
 * The access token of the servers under test, which is in `DENO_KV_ACCESS_TOKEN`. No test sets another
 * one: the files that run in parallel share the variables of one process.
 */
export const ACCESS_TOKEN = "token-s3cret";

/** Reason for skipping a test that needs the server. */
export const DENOKV_MISSING = "needs denokv";

/** Finds the `denokv` server, if it is installed and may be run. */
export function denokvPath(): string | undefined {
  return findProgram("denokv", `${isGranted(["env"]) ? Deno.env.get("HOME") : ""}/.cargo/bin`);
}

/** Registers a test that needs a `denokv` server. Without one its name says why it was skipped. */
export function testDenokv(
  needs: readonly Need[],
  name: string,
  fn: (url: string) => Promise<void>,
  missing: string | undefined = denokvPath() === undefined ? DENOKV_MISSING : undefined,
): void {
  testWith(needs, name, async () => {
    await using server = await startDenokv();
    await fn(server.url);
  }, missing);
}

/** A server that does not listen by then never will. */
const START_TIMEOUT_MS = 10_000;

/** A server that runs. */
export interface Denokv extends AsyncDisposable {
  readonly url: string;
}

/** Starts a `denokv` server on a free port, with a database of its own. */
export async function startDenokv(): Promise<Denokv> {
  const folder = await Deno.makeTempDir();
  const port = freePort();
  const server = new Deno.Command(denokvPath()!, {
    args: [
      ...["--sqlite-path", `${folder}/remote.db`, "serve"],
      ...["--access-token", ACCESS_TOKEN, "--addr", `127.0.0.1:${port}`],
    ],
    stdout: "null",
    stderr: "null",
  }).spawn();
  Deno.env.set("DENO_KV_ACCESS_TOKEN", ACCESS_TOKEN);
  await until(() => listens(port), START_TIMEOUT_MS);
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.kill("SIGKILL");
      await server.status;
      await Deno.remove(folder, { recursive: true });
    },
  };
}
