import type { CommitEffects, EventStoreOptions } from "../../../../events/mod.ts";
import { encodeCellKey } from "../../../../events/store/cell_key.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { OpenDatabase } from "../../../../events/store/postgres/_open_database.ts";
import { Connections, type Session } from "../../../../events/store/postgres/_connections.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";
import type { PostgresTx } from "../../../../events/store/postgres/_tx.ts";
import { openPostgresEngine } from "../../../../events/store/postgres/postgres_engine.ts";
import { IS_LONG } from "../../../_length.ts";
import { simulatePostgres } from "../../worker/_simulated_postgres.ts";
import { poolerPath, POSTGRES_MISSING, postgresPath, sharedPostgres } from "../postgres/_server.ts";
import type {
  Contents,
  Damages,
  EngineUnderTest,
  HandlerEffects,
  Place,
  PlaceKind,
} from "./_engine.ts";

/** A schema that a store lies in. */
export interface PostgresPlace extends Place {
  readonly address: string;
  /** Opens the database once more, and closes it with the place. */
  openDatabase(namespace?: string): Promise<OpenDatabase>;
}

/** Place of a schema. */
interface Address {
  readonly url: string;
  readonly schema: string;
  /** URL by which it listens for wake-ups. */
  readonly listenUrl?: string | undefined;
}

/** The table of what handlers write. */
const EFFECTS = "create table if not exists @effect (name text primary key, value jsonb)";

/** The number of connections for handlers' transactions. */
const CONNECTIONS = 3;

/** The clock, which tests turn. The server's stays as it is. */
const TURNED = () => Date.now();

const inSchema = (more: Partial<PlaceKind<PostgresPlace>> = {}): PlaceKind<PostgresPlace> => ({
  name: "schema",
  needs: ["read", "write", "net", "run", "env"],
  missing: postgresPath() === undefined ? POSTGRES_MISSING : undefined,
  open: async () => await openPlace((await sharedPostgres()).direct),
  ...more,
});

const BY_TWO = inSchema({ name: "two processes on a schema", processes: 2 });

/** Behind a pooler that gives each transaction another connection, all else is the same: in the long tests only. */
const POOLED = inSchema({
  name: "schema, pooled",
  missing: poolerPath() === undefined ? "needs pgbouncer" : undefined,
  open: async () => await openPlace((await sharedPostgres()).pooled!),
});

/** Workers are woken by notifications. */
export const LISTENING = inSchema({
  name: "schema, listening",
  async open() {
    const { direct } = await sharedPostgres();
    return await openPlace(direct, direct);
  },
});

/** Stores in a schema of a Postgres database. */
export const POSTGRES: EngineUnderTest<PostgresPlace> = {
  name: "postgres",
  kinds: IS_LONG ? [inSchema(), BY_TWO, POOLED] : [inSchema()],
  shared: inSchema(),
  wakingKinds: [LISTENING],
  async openAt(text, options) {
    const address: Address = JSON.parse(text);
    const database = await open(address);
    const close = () => void database.close();
    return { store: storeIn(database, options), effects: effectsAt(address), close };
  },
  damages: damagesIn,
  async openAging() {
    const place = await openPlace((await sharedPostgres()).direct);
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
    const engine = openPostgresEngine(await place.openDatabase(), TURNED);
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
  async openSimulated(simulation) {
    const place = await openPlace((await sharedPostgres()).direct);
    const { schema }: Address = JSON.parse(place.address);
    const database = await place.openDatabase();
    const end = () => place[Symbol.asyncDispose]();
    return await simulatePostgres({ database, schema, [Symbol.asyncDispose]: end }, simulation);
  },
};

function open({ url, schema, listenUrl }: Address): Promise<OpenDatabase> {
  return OpenDatabase.open(addressIn(url).settings, {
    ...{ schema, handlers: CONNECTIONS, log: () => {} },
    listening: listenUrl === undefined ? undefined : addressIn(listenUrl).settings,
  });
}

function storeIn(database: OpenDatabase, options: EventStoreOptions) {
  return createEventStore(openPostgresEngine(database, TURNED), own(options));
}

/** The options of a store that are not about its place. */
function own({ retentionMs, keepPayloads, log }: EventStoreOptions) {
  return { retentionMs, keepPayloads, log };
}

async function openPlace(url: string, listenUrl?: string): Promise<PostgresPlace> {
  // A simulation makes the same UUIDs each time.
  const schema = `place_${crypto.getRandomValues(new Uint8Array(16)).toHex()}`;
  const address: Address = { url, schema, listenUrl };
  const databases: OpenDatabase[] = [];
  const schemas = new Set<string>();
  async function openDatabase(namespace?: string): Promise<OpenDatabase> {
    const name = namespace === undefined ? schema : `${schema}_${namespace}`.slice(0, 60);
    schemas.add(name);
    const database = await open({ ...address, schema: name });
    databases.push(database);
    return database;
  }
  await (await openDatabase()).db.run(EFFECTS);
  const closing: Promise<void>[] = [];
  const close = () => {
    for (const database of databases.splice(0)) closing.push(database.close());
  };
  return {
    ...{ address: JSON.stringify(address), path: pathOf(address) },
    ...{ openDatabase, close, effects: effectsAt(address) },
    open: async (options = {}) => storeIn(await openDatabase(options.namespace), options),
    contents: () => at(address, contentsIn),
    async [Symbol.asyncDispose]() {
      close();
      await Promise.all(closing);
      await at(address, async (db) => {
        for (const each of schemas) await db.run(`drop schema "${each}" cascade`);
      });
    },
  };
}

/** Opens a schema for a moment, as another program does. */
/** Makes the URL by which an app or the tool finds the schema. */
function pathOf({ url, schema }: Address): string {
  const path = new URL(url);
  path.searchParams.set("store_schema", schema);
  return path.href;
}

async function at<T>(address: Address, use: (db: Session) => Promise<T>): Promise<T> {
  const db = await Connections.to(addressIn(address.url).settings, {
    schema: `"${address.schema}"`,
    handlers: 1,
  });
  try {
    return await use(db);
  } finally {
    await db.close();
  }
}

type Effects = (tx: PostgresTx) => Promise<unknown>;

/** Takes the transaction that handlers get; the tests do not know that it is one. */
const asEffects = (effects: Effects) => effects as unknown as CommitEffects;

function effectsAt(address: Address): HandlerEffects {
  const insert = `insert into "${address.schema}".effect as known values ($1, $2::jsonb)`;
  const upsert = `${insert} on conflict (name) do update set value =`;
  const sum = "to_jsonb(known.value::numeric + excluded.value::numeric)";
  const json = (value: string | number) => JSON.stringify(value);
  return {
    set: (name, value) =>
      asEffects((tx) => tx.query(`${upsert} excluded.value`, [name, json(value)])),
    add: (name, value) => asEffects((tx) => tx.query(`${upsert} ${sum}`, [name, json(value)])),
    create: (name, value) => asEffects((tx) => tx.query(insert, [name, json(value)])),
    refused: () => asEffects((tx) => tx.query("select 1 / 0")),
    refusal: "division by zero",
    get: (name) => at(address, (db) => valueOf(db, name)),
    all: (beginning) => at(address, (db) => valuesOf(db, beginning)),
  };
}

type Value = string | number;

async function valueOf(db: Session, name: string): Promise<Value | null> {
  const [row] = await db.all<{ value: string }>(
    "select value::text as value from @effect where name = $1",
    name,
  );
  return row ? JSON.parse(row.value) : null;
}

async function valuesOf(db: Session, beginning: string): Promise<Map<string, Value>> {
  const rows = await db.all<{ name: string; value: string }>(
    "select name, value::text as value from @effect where starts_with(name, $1)",
    `${beginning}/`,
  );
  return new Map(rows.map(({ name, value }) => [
    name.slice(beginning.length + 1),
    JSON.parse(value),
  ]));
}

/** Kinds of cells that stay without events, or are counted by themselves. */
const OWN = [
  ...["source", "keptBytes", "keptCounted", "checked", "console", "waiter", "kept"],
  ...["problem", "problemNew", "problemHour", "problemLast"],
];

async function contentsIn(db: Session): Promise<Contents> {
  const count = async (from: string, ...values: string[]): Promise<number> => {
    const [row] = await db.all<{ n: number }>(`select count(*) as n from ${from}`, ...values);
    return row!.n;
  };
  const cells = (kind: string) =>
    count("@cell where name = $1 or starts_with(name, $2)", kind, `${kind}/`);
  const [sum] = await db.all<{ total: number }>("select total from @cell where name = 'keptBytes'");
  let others = await count("@cell");
  for (const kind of OWN) others -= await cells(kind);
  return {
    ...{ events: await count("@event"), ids: await count("@event"), names: await cells("waiter") },
    times: await count("@event where due_at is not null"),
    positions: await count("@event where group_key is not null") + await count("@ordering_group"),
    payloads: await count(
      "(select id from @payload union select id from @event where body is not null) as known",
    ),
    results: await cells("step"),
    uploads: await count("@payload where uploaded_at is not null"),
    kept: { payloads: await cells("kept"), bytes: sum?.total ?? 0 },
    others,
  };
}

const encoder = new TextEncoder();

function damagesIn({ address }: PostgresPlace): Damages {
  const run = (sql: string, ...values: (string | number | Uint8Array)[]) =>
    at(JSON.parse(address), (db) => db.run(sql, ...values)).then(() => {});
  return {
    async spoil(what, id) {
      const [table, column, key, where] = what === "event"
        ? ["event", "record", "id", "id = $1"]
        : ["cell", "value", "name", what === "name" ? "name = $1" : "starts_with(name, $1)"];
      const value = what === "event" ? id : what === "name" ? `waiter/${id}` : "content/";
      const [row] = await at(
        JSON.parse(address),
        (db) =>
          db.all<{ key: string; value: Uint8Array }>(
            `select ${key} as key, ${column} as value from @${table} where ${where}`,
            value,
          ),
      );
      const put = (bytes: Uint8Array) =>
        run(`update @${table} set ${column} = $1 where ${key} = $2`, bytes, row!.key);
      await put(new Uint8Array([255, 0]));
      return () => put(row!.value);
    },
    spoilCell(...key) {
      return run(
        "update @cell set value = $1 where key = $2",
        ...[encoder.encode("{"), encodeCellKey(key)],
      );
    },
    async lose(what, id) {
      if (what === "event") await run("delete from @event where id = $1", id);
      else if (what === "name") await run("delete from @cell where name = $1", `waiter/${id}`);
      else {
        await run(
          "delete from @payload where id = (select payload from @event where id = $1)",
          id,
        );
        await run("update @event set body = null where id = $1", id);
      }
    },
    makeDue(id) {
      return run(
        "update @event set other_due_at = $1::float8 where id = $2",
        ...[Date.now() - 1, id],
      );
    },
  };
}
