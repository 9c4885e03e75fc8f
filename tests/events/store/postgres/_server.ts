import { freePort, listens } from "../../../../dev/harness/free_port.ts";
import { until } from "../../../../dev/harness/until.ts";
import { findProgram, isGranted } from "../../../_permissions.ts";

/** Reason for skipping a test that needs the server. */
export const POSTGRES_MISSING = "needs postgresql";

/** A server that does not listen by then never will. */
const START_TIMEOUT_MS = 30_000;

/** Folder of the versions that Debian installs. */
const DEBIAN = "/usr/lib/postgresql";

/** Users that may own a server, which refuses to run as root. */
const UNPRIVILEGED = ["postgres", "nobody"];

/** Settings for tests: what they store need not outlive the machine. */
const SETTINGS = ["fsync=off", "full_page_writes=off", "max_connections=300"];

/** Finds the programs of the newest server, if one is installed and may be run. */
export function postgresPath(): string | undefined {
  const onPath = findProgram("initdb", ...versions());
  return onPath?.slice(0, -"/initdb".length);
}

function versions(): string[] {
  if (!isGranted(["run", "env", "read"])) return [];
  try {
    const names = [...Deno.readDirSync(DEBIAN)].map(({ name }) => name);
    return names.sort((a, b) => Number(b) - Number(a)).map((name) => `${DEBIAN}/${name}/bin`);
  } catch {
    return [];
  }
}

/**
 * Starts the server of this process, or finds it: all files of tests share one, whichever of them is the first. It ends
 * with the process, and its folder with it.
 *
 * @returns Its URL.
 */
export async function sharedPostgres(): Promise<string> {
  const folder = `${Deno.env.get("TMPDIR") ?? "/tmp"}/edge-base-postgres-${Deno.pid}`;
  const ready = `${folder}/ready`;
  try {
    await Deno.mkdir(folder);
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    await until(() => Deno.stat(ready).then(() => true, () => false), START_TIMEOUT_MS);
    return await Deno.readTextFile(ready);
  }
  const { url, pid } = await startServer(folder);
  // A process cannot end what it has started once it has been killed.
  const script =
    'while kill -0 "$1" 2>/dev/null; do sleep 0.3; done; kill -INT "$2"; sleep 1; rm -rf "$3"';
  new Deno.Command("sh", {
    args: ["-c", script, "sh", String(Deno.pid), String(pid), folder],
    ...{ stdin: "null", stdout: "null", stderr: "null" },
  }).spawn().unref();
  await Deno.writeTextFile(`${ready}.new`, url);
  await Deno.rename(`${ready}.new`, ready);
  return url;
}

/** A server that runs. */
interface Server {
  readonly url: string;
  readonly pid: number;
}

async function startServer(folder: string): Promise<Server> {
  const bin = postgresPath()!;
  const user = await owner(folder);
  const data = `${folder}/data`;
  const options = { ...user, stdin: "null", stdout: "null", stderr: "null", cwd: "/" } as const;
  const { success } = await new Deno.Command(`${bin}/initdb`, {
    ...options,
    args: ["-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
  }).output();
  if (!success) throw new Error("Cannot make a database: initdb has failed");
  const port = freePort();
  const server = new Deno.Command(`${bin}/postgres`, {
    ...options,
    args: [
      ...["-D", data, "-p", String(port), "-k", folder, "-h", "127.0.0.1"],
      ...SETTINGS.flatMap((setting) => ["-c", setting]),
    ],
  }).spawn();
  server.unref();
  await until(() => listens(port), START_TIMEOUT_MS);
  return { url: `postgres://tests@127.0.0.1:${port}/postgres`, pid: server.pid };
}

/** Gives a folder to a user who may run a server. */
async function owner(folder: string): Promise<{ readonly uid?: number; readonly gid?: number }> {
  const { uid: own } = await Deno.stat(folder);
  if (own !== 0) return {};
  const users = (await Deno.readTextFile("/etc/passwd")).split("\n").map((line) => line.split(":"));
  const user = UNPRIVILEGED.map((name) => users.find(([each]) => each === name)).find(Boolean)!;
  const [uid, gid] = [Number(user[2]), Number(user[3])];
  await Deno.chown(folder, uid, gid);
  return { uid, gid };
}
