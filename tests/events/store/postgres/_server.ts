import { setTimeout } from "node:timers/promises";
import { freePort, listens } from "../../../../dev/harness/free_port.ts";
import { findProgram, isGranted } from "../../../_permissions.ts";

/** Reason for skipping a test that needs the server. */
export const POSTGRES_MISSING = "needs postgresql";

/** A server that does not listen after so many looks never will. */
const LOOKS = 3_000;

/** The number of times that a pooler is started: it ends if the port of one that was killed is still taken. */
const POOLER_TRIES = 20;

/** Folder of the versions that Debian installs. */
const DEBIAN = "/usr/lib/postgresql";

/** Users that may own a server, which refuses to run as root. */
const UNPRIVILEGED = ["postgres", "nobody"];

/** Settings for tests: what they store need not outlive the machine. */
const SETTINGS = ["fsync=off", "full_page_writes=off", "max_connections=300"];

/** Finds the programs of the newest server, if one is installed and may be run. */
export function postgresPath(): string | undefined {
  const onPath = findProgram("initdb", ...versions());
  // One on the path may be a link to it, without the other programs beside it.
  return onPath && Deno.realPathSync(onPath).slice(0, -"/initdb".length);
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

/** Finds the pooler, if it is installed and may be run. */
export function poolerPath(): string | undefined {
  return findProgram("pgbouncer", "/usr/sbin");
}

/** URLs of the database of the tests. */
export interface ServerUrls {
  readonly direct: string;
  /** Through a pooler; undefined if none is installed. */
  readonly pooled?: string | undefined;
  /** Folder of the server, with an empty database in `template`. */
  readonly folder: string;
}

/**
 * Starts the server of this process, or finds it: all files of tests share one, whichever of them is the first. It ends
 * with the process, and its folder with it.
 *
 * @returns Its URLs.
 */
export async function sharedPostgres(): Promise<ServerUrls> {
  const folder = `${Deno.env.get("TMPDIR") ?? "/tmp"}/edge-base-postgres-${Deno.pid}`;
  const ready = `${folder}/ready`;
  try {
    await Deno.mkdir(folder);
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    await until(() => Deno.stat(ready).then(() => true, () => false));
    return JSON.parse(await Deno.readTextFile(ready));
  }
  await endWithTests(folder);
  const user = await owner(folder);
  // Servers of single tests are copies of this one, see `_own_server.ts`.
  await initDatabase(`${folder}/template`, user);
  await copyDatabase(`${folder}/template`, `${folder}/data`, user);
  const { url, port } = await startServer(folder, user);
  const pooler = await startPooler(folder, port, user);
  const urls = { direct: url, pooled: pooler?.url, folder };
  await Deno.writeTextFile(`${ready}.new`, JSON.stringify(urls));
  await Deno.rename(`${ready}.new`, ready);
  return urls;
}

/**
 * Has a script end the servers in a folder, and remove it, once this process has ended: a process that is killed can
 * end nothing itself.
 */
export async function endWithTests(folder: string): Promise<void> {
  await inBackground(
    'while [ -d "$2" ] && kill -0 "$1" 2>/dev/null; do sleep 0.3; done; ' +
      'kill -QUIT $(head -n 1 "$2"/data/postmaster.pid); kill -TERM $(cat "$2"/pooler.pid); for i in 1 2 3 4 5; do sleep 1; rm -rf "$2" && break; done',
    [String(Deno.pid), folder],
  );
}

/** Makes an empty database in a folder. */
export async function initDatabase(data: string, user: User): Promise<void> {
  const { success } = await new Deno.Command(`${postgresPath()}/initdb`, {
    ...user,
    args: ["-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    ...{ stdin: "null", stdout: "null", stderr: "null", cwd: "/" },
  }).output();
  if (!success) throw new Error("Cannot make a database: initdb has failed");
}

/** Copies a database whose server does not run. */
export async function copyDatabase(from: string, to: string, user: User): Promise<void> {
  const { success } = await new Deno.Command("cp", { ...user, args: ["-R", from, to] }).output();
  if (!success) throw new Error("Cannot copy a database");
}

/** Starts the server of the database in `data` of a folder. */
export async function startServer(
  folder: string,
  user: User,
  { settings = SETTINGS, port = freePort(), before = [] }: {
    readonly settings?: readonly string[] | undefined;
    readonly port?: number;
    /** A command that becomes the server, and its user. */
    readonly before?: readonly string[];
  } = {},
): Promise<{ readonly url: string; readonly port: number; readonly pid: number }> {
  const pid = await inBackground('exec "$@"', [
    ...before,
    ...[`${postgresPath()}/postgres`, "-D", `${folder}/data`, "-p", String(port)],
    ...["-k", folder, "-h", "127.0.0.1"],
    ...settings.flatMap((setting) => ["-c", setting]),
  ], before.length === 0 ? user : {});
  await until(() => listens(port));
  return { url: `postgres://tests@127.0.0.1:${port}/postgres`, port, pid };
}

/** Starts a pooler in its transaction mode: a statement outside of a transaction may go anywhere. */
export async function startPooler(
  folder: string,
  port: number,
  user: User,
  own = freePort(),
): Promise<{ readonly url: string; readonly port: number; readonly pid: number } | undefined> {
  const program = poolerPath();
  if (program === undefined) return undefined;
  const config = `${folder}/pgbouncer.ini`;
  await Deno.writeTextFile(
    config,
    `[databases]
postgres = host=127.0.0.1 port=${port} dbname=postgres user=tests
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
pidfile = ${folder}/pooler.pid
auth_type = any
pool_mode = transaction
server_login_retry = 1
default_pool_size = 20
max_client_conn = 1000
server_reset_query_always = 1
server_reset_query = DISCARD ALL
`,
  );
  for (let tries = 1;; tries++) {
    const pid = await inBackground('exec "$@"', [program, "-q", config], user);
    let isThere = false;
    await until(async () => (isThere = await listens(own)) || !isRunning(pid));
    if (isThere) return { url: `postgres://tests@127.0.0.1:${own}/postgres`, port: own, pid };
    if (tries === POOLER_TRIES) throw new Error("The pooler of the tests ends at once");
    await setTimeout(500);
  }
}

/** Waits by the timers of Node, which go on where a test turns the clock. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; !(await condition()); looks++) {
    if (looks > LOOKS) throw new Error("The server of the tests does not start");
    await setTimeout(10);
  }
}

/** Runs a script that goes on: nothing of it is open in this process, where a test may have started it. */
export async function inBackground(
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
export interface User {
  readonly uid?: number;
  readonly gid?: number;
}

/** Gives a folder to a user who may run a server. */
export async function owner(folder: string): Promise<User> {
  const { uid: own } = await Deno.stat(folder);
  if (own !== 0) return {};
  const users = (await Deno.readTextFile("/etc/passwd")).split("\n").map((line) => line.split(":"));
  const user = UNPRIVILEGED.map((name) => users.find(([each]) => each === name)).find(Boolean)!;
  const [uid, gid] = [Number(user[2]), Number(user[3])];
  await Deno.chown(folder, uid, gid);
  return { uid, gid };
}

/** Checks that a process runs. Deno reads nothing of `/proc` with the permissions of the tests. */
export function isRunning(pid: number): boolean {
  if (pid === 0) return false;
  const script = 'read -r _ _ state _ < /proc/$0/stat && [ "$state" != Z ]';
  const args = ["-c", script, String(pid)];
  return new Deno.Command("sh", { args, stdout: "null", stderr: "null" }).outputSync().success;
}
