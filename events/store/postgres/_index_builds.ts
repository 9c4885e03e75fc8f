/**
 * The indexes that a later layout adds to the table of events, which may be large.
 *
 * They are built beside the programs that write it (`create index concurrently`), once the rest of the migration is made:
 * a build takes minutes for millions of events. Until then the store works without them, and lists by problems, and of
 * done events, read more. Of several processes one builds, and each that starts looks whether there is something to
 * build. One that is closed or killed leaves its build to the server, which goes on with it. If that fails as well, an
 * invalid index stays, and the next process builds it anew.
 *
 * @module
 */
import { type LogSink, reasonOf, writeLog } from "../../../core/mod.ts";
import { sleep } from "../../../core/timeouts.ts";
import type { Connections } from "./_connections.ts";
import { type Lent, type PgSettings, Pool } from "./_pool.ts";
import { type Index, INDEXES } from "./_schema.ts";

/** Pause before another look while another process builds, in milliseconds. */
const LOOK_MS = 15_000;

/** Pauses after failures, in milliseconds: that after the first one, which doubles each time, and the longest. */
const [AGAIN_MS, LONGEST_MS] = [60_000, 3_600_000] as const;

/** Parts that building takes. */
export interface IndexBuilding {
  /** Settings of the connections, which are apart from the others: a statement of those has to be answered in 20 s. */
  readonly settings: PgSettings;
  /** Connections by which it is looked for what is missing. */
  readonly db: Connections;
  readonly log: LogSink;
  /** Signal that ends it. */
  readonly signal: AbortSignal;
}

/** Builds the indexes that are missing, and tries again until they are there. It does not reject. */
export async function buildIndexes(building: IndexBuilding): Promise<void> {
  const { log, signal } = building;
  for (let failures = 0; !signal.aborted;) {
    let pauseMs: number = LOOK_MS;
    try {
      if ((await missingIn(building)).length === 0) return;
      await build(building);
    } catch (error) {
      if (signal.aborted) return;
      writeLog(log, "warn", "index not built: trying again", { reason: reasonOf(error) });
      pauseMs = Math.min(LONGEST_MS, AGAIN_MS * 2 ** failures++);
    }
    await sleep(pauseMs, signal).catch(() => {});
  }
}

/** Lists the indexes that are not there, or invalid. */
async function missingIn({ db }: IndexBuilding): Promise<Index[]> {
  const rows = await db.all<{ name: string }>(
    `select name from unnest(string_to_array($1, ' ')) as wanted (name)
    where not exists (select from pg_index where indexrelid = to_regclass('@' || name) and indisvalid)`,
    INDEXES.map(({ name }) => name).join(" "),
  );
  return INDEXES.filter(({ name }) => rows.some((row) => row.name === name));
}

/** Builds what is missing, unless another process does. */
async function build(building: IndexBuilding): Promise<void> {
  const { settings, signal } = building;
  const [pool] = await Pool.ofEach(settings, [2]);
  const lent: Lent[] = [];
  const cut = () => {
    for (const { client } of lent) client.connection.stream.destroy();
  };
  signal.addEventListener("abort", cut);
  try {
    const take = async () => {
      const taken = await pool!.take();
      lent.push(taken);
      signal.throwIfAborted();
      return taken;
    };
    const isFirst = await keepOthersOut(await take(), `edge-base indexes ${building.db.schema}`);
    if (isFirst) await buildBy(building, await take());
  } finally {
    signal.removeEventListener("abort", cut);
    // The transaction of the first one ends with its connection.
    for (const each of lent) pool!.giveBack(Object.assign(each, { isLost: true }));
    await pool!.close();
  }
}

/** Builds by one connection, while a transaction of another one keeps other processes from doing so. */
async function buildBy(building: IndexBuilding, { client }: Lent): Promise<void> {
  const { db, log } = building;
  const run = (sql: string) => client.query({ text: db.statement(sql) });
  // A process that was killed may have left a build to the server.
  const [going] = await db.all(
    `select from pg_stat_progress_create_index
    where datname = current_database() and relid = to_regclass('@event')`,
  );
  if (going) return;
  await run(withoutTimeouts(client.processID));
  for (const { name, on } of await missingIn(building)) {
    const start = performance.now();
    await run(`drop index concurrently if exists @${name}`);
    await run(`create index concurrently ${name} ${on}`);
    const ms = Math.round(performance.now() - start);
    writeLog(log, "info", "index built", { index: name, ms });
  }
}

/**
 * Makes the statement that lets those after it take as long as they do, whatever the user's or the database's settings
 * are. A pooler names a connection by another number than the server: there the settings would stay for other users.
 */
const withoutTimeouts = (processId: number) =>
  `select set_config(name, '0', false) from unnest(array['statement_timeout', 'lock_timeout']) as name
  where pg_backend_pid() = ${processId}`;

/**
 * Begins a transaction that keeps other processes from building, unless one does. It must have no snapshot while it is
 * idle, since a build waits for all older ones: so nothing waits for the lock, and the statement has no parameters, by which
 * its portal would stay.
 */
async function keepOthersOut({ client }: Lent, name: string): Promise<boolean> {
  await client.query({ text: "begin isolation level read committed" });
  const lock = `hashtextextended('${name.replaceAll("'", "''")}', 0)`;
  const { rows } = await client.query({
    text: `select pg_try_advisory_xact_lock(${lock}) as is_first`,
  });
  return (rows as { is_first: boolean }[])[0]!.is_first;
}
