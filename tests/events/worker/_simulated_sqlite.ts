import type { CommitEffects, EventStore } from "../../../events/mod.ts";
import { createEventStore } from "../../../events/store/open_store.ts";
import type { Connection } from "../../../events/store/sqlite/_connection.ts";
import { openSqliteFile, type SqliteFile } from "../../../events/store/sqlite/_file.ts";
import { GroupCommit } from "../../../events/store/sqlite/_group_commit.ts";
import type { SqliteTx } from "../../../events/store/sqlite/_guard.ts";
import { openSqliteEngine } from "../../../events/store/sqlite/sqlite_engine.ts";
import { deleteUploads } from "../store/_tidying.ts";
import { simulateEngine } from "./_simulated_engine.ts";
import { never, type SimulatedPlace, type Written } from "./_simulated_place.ts";
import type { Simulation } from "./_simulation.ts";

/** The table of what handlers write, with the step of the commit. */
const EFFECTS = "create table effect (name text primary key, value, step integer)";

/** Changes the value if there is one. */
const IF_THERE = "on conflict (name) do update set value =";

/** Result codes of SQLite for a file that another process has locked, and for a disk that fails. */
const [BUSY, IO_ERROR] = [5, 10] as const;

/** Opens an empty SQLite file in a simulation. */
export async function openSimulatedSqlite(simulation: Simulation): Promise<SimulatedPlace> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/store.db`;
  const files: SqliteFile[] = [];
  const watchers = new Set<() => void>();
  const openFile = async () => {
    const file = await openSqliteFile(path, { log: () => {} });
    files.push(file);
    return file;
  };
  const file = await openFile();
  const { db } = file;
  db.run(EFFECTS);
  const open = () => createEventStore(openSqliteEngine(file));
  return {
    effects: {
      set: (name, value) => writing(simulation, name, value, `${IF_THERE} excluded.value`),
      add: (name, value) => writing(simulation, name, value, `${IF_THERE} value + excluded.value`),
      create: (name, value) => writing(simulation, name, value),
      get: (name) => Promise.resolve(valueIn(db, name)),
    },
    open: () => Promise.resolve(open()),
    async process({ faultRate = 0, keepPayloads, log = () => {} } = {}) {
      const own = await simulation.turn(openFile);
      const { file, cut: cutFile } = simulateFile(own, simulation, faultRate);
      const view = simulateEngine(openSqliteEngine(file), simulation, { faultRate, watchers });
      const cut = () => [cutFile, view.cut].forEach((each) => each());
      return { store: createEventStore(view.engine, { keepPayloads, log }), cut };
    },
    written: (beginning) => Promise.resolve(writtenIn(db, beginning)),
    lose: () => Promise.resolve(lose(db, simulation)),
    leftovers: () => leftoversIn(open(), db),
    async [Symbol.asyncDispose]() {
      for (const each of files) await each.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

function writing(
  simulation: Simulation,
  name: string,
  value: string | number,
  otherwise = "",
): CommitEffects {
  const sql = `insert into effect values (?, ?, ?) ${otherwise}`;
  const effects = (tx: SqliteTx) => tx.prepare(sql).run(name, value, simulation.step);
  return effects as CommitEffects;
}

/**
 * Makes the view of a file that a process has in a simulation: a transaction begins in its turn, and changes gather
 * for the next one while the disk is synced. Either may go wrong.
 */
function simulateFile(
  real: SqliteFile,
  simulation: Simulation,
  faultRate: number,
): { readonly file: SqliteFile; cut(): void } {
  let isCut = false;
  const isFaulty = () => simulation.random() < faultRate;
  async function begin(): Promise<void> {
    await simulation.turn(async () => {
      if (isFaulty()) throw failing(simulation.oneOf([BUSY, IO_ERROR]));
      if (!isCut) await real.db.begin();
    });
    if (isCut) await never();
  }
  async function sync(): Promise<void> {
    await simulation.turn(() => Promise.resolve());
    if (isCut) await never();
    if (isFaulty()) throw failing(IO_ERROR);
  }
  const db = new Proxy(real.db, {
    get(target, name) {
      if (name === "begin") return begin;
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const disk = { sync, works() {}, fails() {} };
  const file = { ...real, db, place: { openings: 1 }, commits: new GroupCommit(db, disk) };
  return { file, cut: () => void (isCut = true) };
}

function failing(errcode: number): Error {
  return Object.assign(new Error("The disk fails"), { errcode });
}

function valueIn(db: Connection, name: string): string | number | null {
  type Value = { readonly value: string | number };
  return db.one<Value>("select value from effect where name = ?", name)?.value ?? null;
}

function writtenIn(db: Connection, beginning: string): Written[] {
  const rows = db.all<Written>("select * from effect where name glob ?", `${beginning}/*`);
  return rows.map(({ name, ...rest }) => ({ ...rest, name: name.slice(beginning.length + 1) }));
}

/** Columns that lead to an event: the times at which it is due, or its position in a group. */
const LEADING = {
  due_at: "own_due_at = null, other_due_at = null",
  group_key: "group_key = null, position = null",
};

function lose(db: Connection, simulation: Simulation): void {
  const [column, lost] = simulation.oneOf(Object.entries(LEADING));
  const rows = db.all<{ seq: number }>(`select seq from event where ${column} is not null`);
  if (rows.length === 0) return;
  db.run(`update event set ${lost} where seq = ?`, simulation.oneOf(rows).seq);
}

/** Kinds of cells that stay when all events are purged: sums that are 0, states, and notes of processes and of the store. */
const OWN = [
  ...["state", "process", "keptCounted", "checked", "source"],
  // Notes of problems are kept for days.
  ...["problem", "problemNew", "problemHour", "problemLast"],
];

/** Purges all events of a file once nothing is due any more, and tells what is left then. */
async function leftoversIn(store: EventStore, db: Connection): Promise<unknown[]> {
  await store.purge({});
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await deleteUploads(store, 0);
  // Values that nobody has waited for are kept for a while.
  for await (const answer of store.answers()) if (!answer.eventId) await answer.delete();
  const cells = db.all<{ name: string }>(
    "select name, value, total from cell where total is not 0",
  );
  return [
    ...db.all("select id, state, record from event"),
    ...db.all("select * from ordering_group"),
    ...db.all("select id, part from payload"),
    ...cells.filter(({ name }) => !OWN.includes(name.split("/")[0]!)),
  ];
}
