import { freePort, listens } from "../../../dev/harness/free_port.ts";
import { until } from "../../../dev/harness/until.ts";
import { type Need, testWith } from "../../_permissions.ts";

/**
 * The access token of the servers under test, which is in `DENO_KV_ACCESS_TOKEN`. No test sets another
 * one: the files that run in parallel share the variables of one process.
 */
export const ACCESS_TOKEN = "token-s3cret";

/** Reason for skipping a test that needs the server. */
export const DENOKV_MISSING = "needs denokv, and the permission to run it";

/** Finds the `denokv` server, if it is installed and may be run. */
export function denokvPath(): string | undefined {
  const granted = (["run", "env", "read"] as const).every((name) =>
    Deno.permissions.querySync({ name }).state === "granted"
  );
  if (!granted) return undefined;
  const folders = (Deno.env.get("PATH") ?? "").split(Deno.build.os === "windows" ? ";" : ":");
  folders.push(`${Deno.env.get("HOME") ?? ""}/.cargo/bin`);
  return folders.map((folder) => `${folder}/denokv`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

/** Registers a test that needs a `denokv` server. Without one its name says why it was skipped. */
export function testDenokv(
  needs: readonly Need[],
  name: string,
  fn: (url: string) => Promise<void>,
): void {
  if (denokvPath() === undefined) {
    Deno.test({ name: `${name} (skipped: ${DENOKV_MISSING})`, ignore: true, fn: () => {} });
    return;
  }
  testWith(needs, name, async () => {
    await using server = await startDenokv();
    await fn(server.url);
  });
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
