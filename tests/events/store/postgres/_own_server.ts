import pg from "pg";
import { freePort } from "../../../../dev/harness/free_port.ts";
import {
  copyDatabase,
  endWithTests,
  isRunning,
  owner,
  sharedPostgres,
  startPooler,
  startServer,
  until,
  type User,
} from "./_server.ts";

/** Settings of a server of one test: what it stores must outlive its own crash, and not that of the machine. */
const SETTINGS = ["fsync=off", "max_connections=60"];

/** Sizes of a small disk, in mebibytes: before, and once it has grown. */
const [SMALL, GROWN] = [24, 200] as const;

/** Signals by which a server shuts down: https://www.postgresql.org/docs/current/server-shutdown.html. */
const SIGNALS = { fast: "SIGINT", immediate: "SIGQUIT" } as const;

/** Options of {@linkcode OwnPostgres.start}. */
export interface OwnPostgresOptions {
  /** Settings, as `name=value`. */
  readonly settings?: readonly string[];
  /** Sets up another database than an empty one, in the folder `data` of a folder. */
  readonly make?: (folder: string, user: User) => Promise<void>;
  /** Has a pooler in its transaction mode before it. */
  readonly isPooled?: boolean;
  /** Mounts a small disk in the folder `disk`, for nobody but the server. */
  readonly hasSmallDisk?: boolean;
}

/** A server of one test, to be stopped and started again. */
export class OwnPostgres implements AsyncDisposable {
  /** Its URL, or that of the pooler. */
  url = "";
  /** Its own URL. */
  direct = "";
  port = freePort();
  readonly user: User;
  readonly folder: string;
  readonly #poolerPort = freePort();
  readonly #hasSmallDisk: boolean;
  #settings: readonly string[];
  #pid = 0;
  #poolerPid = 0;

  private constructor(
    folder: string,
    user: User,
    { settings = [], hasSmallDisk = false }: OwnPostgresOptions,
  ) {
    this.folder = folder;
    this.user = user;
    this.#settings = [...SETTINGS, ...settings];
    this.#hasSmallDisk = hasSmallDisk;
  }

  /** Folder of the small disk. */
  get disk(): string {
    return `${this.folder}/disk`;
  }

  /** Starts a server. It ends with the test, or with the process. */
  static async start(
    options: OwnPostgresOptions = {},
  ): Promise<OwnPostgres> {
    const { make = copyTemplate, isPooled = false } = options;
    // Tests that are recorded have their temporary folders where its user may read nothing.
    const dir = Deno.env.get("TMPDIR") ?? "/tmp";
    const folder = await Deno.makeTempDir({ dir, prefix: "edge-base-postgres-" });
    await endWithTests(folder);
    const user = await owner(folder);
    await make(folder, user);
    const server = new OwnPostgres(folder, user, options);
    await server.start();
    if (isPooled) await server.startPooler();
    return server;
  }

  /** Starts it again, with other settings if there are any. */
  async start(settings: readonly string[] = []): Promise<void> {
    this.#settings = [...this.#settings, ...settings];
    const before = this.#hasSmallDisk ? await this.#withDisk() : [];
    const options = { settings: this.#settings, port: this.port, before };
    const { url, pid } = await startServer(this.folder, this.user, options);
    [this.url, this.direct, this.#pid] = [this.#poolerPid ? this.url : url, url, pid];
    await until(() => this.sql("select 1").then(() => true, () => false));
  }

  /** Makes the command that runs it with a disk that nobody else sees, and that goes with it. */
  async #withDisk(): Promise<string[]> {
    await Deno.mkdir(this.disk, { recursive: true });
    const { uid = Deno.uid()!, gid = Deno.gid()! } = this.user;
    const mount = `mount -t tmpfs -o size=${SMALL}m,uid=${uid},gid=${gid} tmpfs "$0"`;
    const as = `setpriv --reuid ${uid} --regid ${gid} --clear-groups`;
    return ["unshare", "-m", "sh", "-c", `${mount} && exec ${as} "$@"`, this.disk];
  }

  /** Makes the small disk larger. */
  async growDisk(): Promise<void> {
    const remount = ["mount", "-o", `remount,size=${GROWN}m`, this.disk];
    await runTo("nsenter", ["-t", String(this.#pid), "-m", ...remount], {});
  }

  /** Stops it: `immediate` is a crash, after which it recovers. */
  async stop(mode: keyof typeof SIGNALS): Promise<void> {
    Deno.kill(this.#pid, SIGNALS[mode]);
    await ended(this.#pid);
  }

  /** Stops and starts it. */
  async restart(mode: keyof typeof SIGNALS): Promise<void> {
    await this.stop(mode);
    await this.start();
  }

  /** Makes a standby the server of a port. */
  async promote(port: number): Promise<void> {
    await this.sql("select pg_promote()");
    await this.stop("fast");
    this.port = port;
    await this.start();
  }

  async startPooler(): Promise<void> {
    const pooler = await startPooler(this.folder, this.port, this.user, this.#poolerPort);
    [this.url, this.#poolerPid] = [pooler!.url, pooler!.pid];
  }

  /** Kills the pooler. */
  async killPooler(): Promise<void> {
    Deno.kill(this.#poolerPid, "SIGKILL");
    await ended(this.#poolerPid);
    await Deno.remove(`${this.folder}/pooler.pid`).catch(() => {});
  }

  /** Has all but its administrator log in by a password. */
  async requirePasswords(): Promise<void> {
    const rules = "host all tests 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    await Deno.writeTextFile(`${this.folder}/data/pg_hba.conf`, rules);
    await this.sql("select pg_reload_conf()");
  }

  /** Runs statements as its administrator. Returns the rows of the last one. */
  sql<T = Record<string, unknown>>(text: string, values: readonly unknown[] = []): Promise<T[]> {
    return sqlAt(this.direct, text, values);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [pid, signal] of [[this.#poolerPid, "SIGTERM"], [this.#pid, "SIGQUIT"]] as const) {
      if (!isRunning(pid)) continue;
      Deno.kill(pid, signal);
      await ended(pid);
    }
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** Runs statements at a server. Returns the rows of the last one. */
export async function sqlAt<T = Record<string, unknown>>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client({ connectionString: url, password: () => "" });
  client.on("error", () => {});
  await client.connect();
  try {
    const results = await client.query({ text, values: [...values] });
    return [results].flat().at(-1)!.rows;
  } finally {
    await client.end();
  }
}

/** Makes the database of a test of the one that all tests have. */
async function copyTemplate(folder: string, user: User): Promise<void> {
  const { folder: shared } = await sharedPostgres();
  await copyDatabase(`${shared}/template`, `${folder}/data`, user);
}

/** Runs a program to its end, as the owner of a server. */
export async function runTo(program: string, args: string[], user: User): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, {
    ...user,
    ...{ args, cwd: "/", stdin: "null", stdout: "null", stderr: "piped" },
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

const ended = (pid: number) => until(() => !isRunning(pid));
