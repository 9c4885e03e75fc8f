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
  await inBackground(
    'while kill -0 "$1" 2>/dev/null; do sleep 0.3; done; kill -INT "$2"; sleep 1; rm -rf "$3"',
    [String(Deno.pid), String(pid), folder],
  );
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
  const { success } = await new Deno.Command(`${bin}/initdb`, {
    ...user,
    args: ["-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    ...{ stdin: "null", stdout: "null", stderr: "null", cwd: "/" },
  }).output();
  if (!success) throw new Error("Cannot make a database: initdb has failed");
  const port = freePort();
  const pid = await inBackground('exec "$@"', [
    ...[`${bin}/postgres`, "-D", data, "-p", String(port), "-k", folder, "-h", "127.0.0.1"],
    ...SETTINGS.flatMap((setting) => ["-c", setting]),
  ], user);
  await until(() => listens(port), START_TIMEOUT_MS);
  return { url: `postgres://tests@127.0.0.1:${port}/postgres`, pid };
}

/** Runs a script that goes on: nothing of it is open in this process, where a test may have started it. */
async function inBackground(
  script: string,
  args: readonly string[],
  user: User = {},
): Promise<number> {
  const whole = `sh -c "$0" sh "$@" </dev/null >/dev/null 2>&1 & echo $!`;
  const { stdout } = await new Deno.Command("sh", {
    ...user,
    args: ["-c", whole, script, ...args],
    ...{ stdin: "null", stderr: "null", cwd: "/" },
  }).output();
  return Number(new TextDecoder().decode(stdout));
}

/** A user, by its numbers; nothing for the one who runs the tests. */
interface User {
  readonly uid?: number;
  readonly gid?: number;
}

/** Gives a folder to a user who may run a server. */
async function owner(folder: string): Promise<User> {
  const { uid: own } = await Deno.stat(folder);
  if (own !== 0) return {};
  const users = (await Deno.readTextFile("/etc/passwd")).split("\n").map((line) => line.split(":"));
  const user = UNPRIVILEGED.map((name) => users.find(([each]) => each === name)).find(Boolean)!;
  const [uid, gid] = [Number(user[2]), Number(user[3])];
  await Deno.chown(folder, uid, gid);
  return { uid, gid };
}
