import { DatabaseSync } from "node:sqlite";
import type { CommitEffects, EventStoreOptions } from "../../../../events/mod.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openSqliteFile, type SqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { encodeCellKey } from "../../../../events/store/cell_key.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { openSimulatedSqlite } from "../../worker/_simulated_sqlite.ts";
import { ON_DENO_2_5 } from "../../../_deno_version.ts";
import type {
  Contents,
  Damages,
  EngineUnderTest,
  HandlerEffects,
  Place,
  PlaceKind,
} from "./_engine.ts";

/** A file that a store lies in. */
export interface SqlitePlace extends Place {
  readonly path: string;
  /** Opens the file once more, and closes it with the place. */
  openFile(namespace?: string): Promise<SqliteFile>;
}

/** The table of what handlers write. */
const EFFECTS = "create table if not exists effect (name text primary key, value)";

const inFile = (more: Partial<PlaceKind<SqlitePlace>> = {}): PlaceKind<SqlitePlace> => ({
  name: "file",
  needs: ["read", "write"],
  open: openPlace,
  ...more,
});

const BY_TWO = inFile({
  ...{ name: "two processes on a file", needs: ["read", "write", "run"], processes: 2 },
});

/** Stores in a SQLite file. */
export const SQLITE: EngineUnderTest<SqlitePlace> = {
  name: "sqlite",
  // With the oldest Deno, whose time is short, two processes share a file in the tests of processes alone.
  kinds: ON_DENO_2_5 ? [inFile()] : [inFile(), BY_TWO],
  shared: inFile(),
  async openAt(path, options) {
    const file = await openSqliteFile(path, { isApp: true });
    return { store: storeIn(file, options), effects: effectsAt(path), close: () => file.close() };
  },
  damages: damagesIn,
  async openAging() {
    const place = await openPlace();
    const { now } = Date;
    let passed = 0;
    Date.now = () => now() + passed;
    return {
      ...place,
      async pass(ms) {
        passed += ms;
        const store = await place.open();
        await store.tidy({});
      },
      async [Symbol.asyncDispose]() {
        Date.now = now;
        await place[Symbol.asyncDispose]();
      },
    };
  },
  async openFailing(place, fault, options = {}) {
    const engine = openSqliteEngine(await place.openFile());
    let isArmed = false;
    const failingOnce = <T, A>(method: (argument: A) => Promise<T>) => async (argument: A) => {
      const isMeant = isArmed;
      isArmed = false;
      if (isMeant && fault === "before") throw new Error("connection lost");
      const applied = await method(argument);
      if (isMeant) throw new Error("connection lost");
      return applied;
    };
    const failing = {
      ...engine,
      apply: failingOnce(engine.apply),
      transact: failingOnce(engine.transact),
    };
    return { store: createEventStore(failing, own(options)), arm: () => void (isArmed = true) };
  },
  openSimulated: openSimulatedSqlite,
};

function storeIn(file: SqliteFile, options: EventStoreOptions) {
  return createEventStore(openSqliteEngine(file), own(options));
}

/** The options of a store that are not about its place. */
function own({ retentionMs, keepPayloads, log }: EventStoreOptions) {
  return { retentionMs, keepPayloads, log };
}

async function openPlace(): Promise<SqlitePlace> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/store.db`;
  const files: SqliteFile[] = [];
  async function openFile(namespace?: string): Promise<SqliteFile> {
    const file = await openSqliteFile(namespace === undefined ? path : `${path}-${namespace}`);
    files.push(file);
    return file;
  }
  const { db } = await openFile();
  db.run(EFFECTS);
  const closing: Promise<void>[] = [];
  const close = () => {
    for (const file of files.splice(0)) closing.push(file.close());
  };
  return {
    ...{ path, address: path, openFile, close, effects: effectsAt(path) },
    open: async (options = {}) => storeIn(await openFile(options.namespace), options),
    contents: () => Promise.resolve(at(path, contentsIn)),
    async [Symbol.asyncDispose]() {
      close();
      await Promise.all(closing);
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Opens a file for a moment, as another program does. */
function at<T>(path: string, use: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path);
  try {
    db.exec("pragma busy_timeout = 5000");
    return use(db);
  } finally {
    db.close();
  }
}

type Effects = (db: DatabaseSync) => unknown;

/** Takes the database that handlers get; the tests do not know that it is one. */
const asEffects = (effects: Effects) => effects as CommitEffects;

function effectsAt(path: string): HandlerEffects {
  const upsert = "insert into effect values (?, ?) on conflict (name) do update set value = ";
  return {
    set: (name, value) =>
      asEffects((db) => db.prepare(`${upsert} excluded.value`).run(name, value)),
    add: (name, value) =>
      asEffects((db) => db.prepare(`${upsert} value + excluded.value`).run(name, value)),
    create: (name, value) =>
      asEffects((db) => db.prepare("insert into effect values (?, ?)").run(name, value)),
    refused: () =>
      asEffects(() => {
        throw new Error("refused by the handler");
      }),
    refusal: "refused by the handler",
    get: (name) => Promise.resolve(at(path, (db) => valueOf(db, name))),
    all: (beginning) => Promise.resolve(at(path, (db) => valuesOf(db, beginning))),
  };
}

type Value = string | number;

function valueOf(db: DatabaseSync, name: string): Value | null {
  const row = db.prepare("select value from effect where name = ?").get(name);
  return row ? row.value as Value : null;
}

function valuesOf(db: DatabaseSync, beginning: string): Map<string, Value> {
  const rows = db.prepare("select * from effect where name glob ?").all(`${beginning}/*`);
  return new Map(rows.map(({ name, value }) => [
    String(name).slice(beginning.length + 1),
    value as Value,
  ]));
}

/** Kinds of cells that stay without events, or are counted by themselves. */
const OWN = [
  ...["source", "keptBytes", "keptCounted", "checked", "console", "waiter", "kept", "step"],
  ...["problem", "problemNew", "problemHour", "problemLast"],
];

function contentsIn(db: DatabaseSync): Contents {
  const count = (from: string, ...values: string[]): number =>
    Number(db.prepare(`select count(*) as n from ${from}`).get(...values)!.n);
  const cells = (kind: string) => count("cell where name = ? or name glob ?", kind, `${kind}/*`);
  const bytes = db.prepare("select total from cell where name = 'keptBytes'").get()?.total ?? 0;
  return {
    ...{ events: count("event"), ids: count("event"), names: cells("waiter") },
    times: count("event where due_at is not null"),
    positions: count("event where group_key is not null") + count("ordering_group"),
    payloads: count("(select id from payload union select id from event where body is not null)"),
    uploads: count("payload where uploaded_at is not null"),
    kept: { payloads: cells("kept"), bytes: Number(bytes) },
    results: cells("step"),
    others: count("cell") - OWN.reduce((sum, kind) => sum + cells(kind), 0),
  };
}

function damagesIn({ path }: SqlitePlace): Damages {
  const run = (sql: string, ...values: (string | number | Uint8Array)[]) =>
    at(path, (db) => void db.prepare(sql).run(...values));
  return {
    spoil(what, id) {
      const [table, column, where] = what === "event"
        ? ["event", "record", "id = ?"]
        : ["cell", "value", what === "name" ? "name = ?" : "name glob ?"];
      const value = what === "event" ? id : what === "name" ? `waiter/${id}` : "content/*";
      const row = at(path, (db) =>
        db.prepare(
          `select rowid as n, ${column} as value from ${table} where ${where}`.replace(
            "rowid as n",
            table === "event" ? "seq as n" : "key as n",
          ),
        ).get(value))!;
      const key = table === "event" ? "seq" : "key";
      const put = (text: string) =>
        run(`update ${table} set ${column} = ? where ${key} = ?`, text, row.n as never);
      // SQLite refuses to read a column of what is no JSON at all.
      put(JSON.stringify({ version: 2, value: row.value }));
      if (table === "cell") put("{");
      return Promise.resolve(() => Promise.resolve(put(String(row.value))));
    },
    spoilCell(...key) {
      const sql = "update cell set value = '{' where key = ?";
      return Promise.resolve(run(sql, encodeCellKey(key)));
    },
    lose(what, id) {
      if (what === "event") run("delete from event where id = ?", id);
      else if (what === "name") run("delete from cell where name = ?", `waiter/${id}`);
      else {
        run("delete from payload where id = (select payload from event where id = ?)", id);
        run("update event set body = null where id = ?", id);
      }
      return Promise.resolve();
    },
    makeDue(id) {
      return Promise.resolve(
        run("update event set other_due_at = ? where id = ?", Date.now() - 1, id),
      );
    },
  };
}
