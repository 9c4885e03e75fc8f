import { HAS_FAILED } from "../sql/rows.ts";
import { type Connections, type Session, sqlStateOf } from "./_connections.ts";

/**
 * The layout of the schema.
 *
 * An event is a row: its record as JSON in UTF-8, the columns that the engine finds it by, and columns for people. The
 * record is not `text` or `jsonb`, since these refuse some of what JSON can hold. A payload of up to 1 MiB is in the row,
 * which Postgres keeps apart from it (TOAST), so that it is not written again when the row is.
 */
const TABLES = `
create table @event (
  seq bigint generated always as identity primary key,
  id text collate "C" not null unique,
  received_at double precision not null,
  state text collate "C" not null,
  -- The time of the record, and another one: an event is due at the earlier.
  own_due_at double precision,
  other_due_at double precision,
  due_at double precision generated always as (least(own_due_at, other_due_at)) stored,
  -- Its time in the index of the schedule. The end of a lease is not in it, so that renewing one touches no index.
  scheduled_at double precision generated always as
    (case when state = 'running' then other_due_at else least(own_due_at, other_due_at) end) stored,
  group_key text collate "C",
  position double precision,
  -- Its payload in the table payload, if that is too large for the row, was uploaded, or was kept.
  payload text collate "C",
  settled_at double precision,
  forget_at double precision,
  version text collate "C" not null,
  type text,
  action text,
  source text,
  intake text,
  repository text,
  chat double precision,
  ordering_key text,
  attempts double precision,
  outcome text,
  error text,
  record bytea not null,
  body bytea
) with (fillfactor = 80);
alter table @event alter column record set storage external;
alter table @event alter column body set storage external;
create index event_received on @event (received_at, id);
create index event_due on @event (scheduled_at, id) where scheduled_at is not null;
create index event_open on @event (state, received_at, id) where state <> 'done';
create unique index event_group on @event (group_key, position) where group_key is not null;
create index event_forget on @event (forget_at) where forget_at is not null;

create table @ordering_group (
  key text collate "C" primary key,
  next double precision not null,
  places double precision not null,
  joined_at double precision
) with (fillfactor = 80);

create table @payload (
  id text collate "C" not null,
  part double precision not null,
  body bytea not null,
  uploaded_at double precision,
  primary key (id, part)
);
alter table @payload alter column body set storage external;
create index payload_uploaded on @payload (uploaded_at) where uploaded_at is not null;

create table @cell (
  key bytea primary key,
  name text not null,
  value bytea,
  total double precision,
  forget_at double precision,
  version text collate "C" not null
) with (fillfactor = 80);
create index cell_forget on @cell (forget_at) where forget_at is not null;

create view @waiting as select id, type, action, source, repository, chat, ordering_key, attempts, error,
  to_timestamp(received_at / 1000) as received, to_timestamp(due_at / 1000) as due
  from @event where state in ('queued', 'parked');
-- The name of the worker is nowhere else, and nothing in a text of the record can look like this.
create view @running as select id, type, action, source, repository, chat, ordering_key, attempts,
  substring(encode(record, 'escape') from '"lease":\\{"owner":"([^"]*)"') as worker,
  to_timestamp(own_due_at / 1000) as lease_until
  from @event where state = 'running';
create view @dead as select id, type, action, source, repository, chat, ordering_key, attempts, outcome, error,
  to_timestamp(received_at / 1000) as received, to_timestamp(settled_at / 1000) as died
  from @event where state = 'dead';

-- What is noted about the schema: whose events are in it, and who may use it.
create table @layout (
  name text primary key,
  value text not null
);
`;

/** An index that a later layout adds to the table of events, which may be large. */
export interface Index {
  readonly name: string;
  /** The rest of the statement that makes it. */
  readonly on: string;
}

/** A layout of the schema. The first one is made of an empty schema, and each other of the one before it. */
export interface Layout {
  /** The statements that make it. They must let the programs of {@linkcode Layout.usableBy} go on, and take no time. */
  readonly sql: string;
  /** Indexes that it has besides: they are built later if there may be events, see `_index_builds.ts`. */
  readonly indexes?: readonly Index[] | undefined;
  /** The number of the oldest layout whose programs may use it. Within a minor version it stays. */
  readonly usableBy: number;
  /** The version of the package that made it first, for people. */
  readonly since: string;
}

/** Columns by which the events that have failed are found. */
const PROBLEMS = `
alter table @event add column problem text collate "C";
alter table @event add column problem_at double precision;
`;

/** Indexes that find the events that have failed, by their problems, and those that are done. */
const OF_PROBLEMS: readonly Index[] = [
  {
    name: "event_problem",
    on: `on @event (problem, state, received_at, id) where problem is not null and ${HAS_FAILED}`,
  },
  { name: "event_done", on: "on @event (received_at, id) where state = 'done'" },
];

/** The layouts, in their order: the number of the first one is 1. */
export const LAYOUTS: readonly Layout[] = [
  { sql: TABLES, usableBy: 1, since: "0.1.0" },
  { sql: PROBLEMS, indexes: OF_PROBLEMS, usableBy: 1, since: "0.1.0" },
];

/** All indexes that a later layout has added. */
export const INDEXES: readonly Index[] = LAYOUTS.flatMap(({ indexes = [] }) => indexes);

/** Codes of Postgres for a table or a schema that is not there. */
const MISSING: readonly (string | undefined)[] = ["42P01", "3F000"];

/**
 * Reads the layout of a schema.
 *
 * @param db The database.
 * @param layouts The layouts that the program knows.
 * @returns Its number; 0 if there are no tables of a store.
 * @throws {Error} If a newer program has made it, and this one may not use it.
 */
export async function layoutOf(db: Session, layouts = LAYOUTS): Promise<number> {
  const rows = await readNotes(db);
  if (!rows) return 0;
  const notes = new Map(rows.map(({ name, value }) => [name, value]));
  const number = Number(notes.get("layout") ?? 0);
  if (Number(notes.get("usable_by_layout") ?? 0) <= layouts.length) return number;
  throw new Error(
    `a newer version of this package has made its tables, with layout ${number}: ` +
      `use version ${notes.get("usable_by_version")} or a later one`,
  );
}

async function readNotes(db: Session): Promise<{ name: string; value: string }[] | undefined> {
  try {
    return await db.all("select name, value from @layout");
  } catch (error) {
    if (MISSING.includes(sqlStateOf(error))) return undefined;
    throw error;
  }
}

/**
 * Brings a schema to the latest layout, in one transaction. Of several processes that start at the same time one does
 * so, and the others wait for it. The indexes of a later layout are left for later, unless the schema is empty.
 *
 * @param db The connections.
 * @param layouts The layouts that the program knows.
 * @throws {Error} If a newer program has made it, and this one may not use it. It is left as it is.
 */
export async function bringToLayout(db: Connections, layouts = LAYOUTS): Promise<void> {
  if (await layoutOf(db, layouts) >= layouts.length) return;
  await db.transaction(async (tx) => {
    await lockSchema(tx, db.schema);
    const [{ is_there: isThere }] = await tx.all(
      "select to_regclass($1) is not null as is_there",
      `${db.schema}.layout`,
    ) as [{ is_there: boolean }];
    const made = isThere ? await layoutOf(tx, layouts) : 0;
    if (made >= layouts.length) return;
    const schema = db.schema.replace(/^"|"$/g, "").replaceAll('""', '"');
    const [found] = await tx.all("select 1 from pg_namespace where nspname = $1", schema);
    if (!found) await tx.run(`create schema ${db.schema}`);
    // Who waits for a lock holds up all who come after it: rather somebody tries again.
    if (made > 0) await tx.run(`set local lock_timeout = ${LOCK_MS}`);
    for (const sql of statementsOf(layouts, made)) await tx.run(sql);
    for (const [name, value] of Object.entries(notesOf(layouts))) await note(tx, name, value);
  });
}

/** Longest wait of a migration for a lock of a table, in milliseconds. */
const LOCK_MS = 500;

/** Lists the statements of the transaction that brings a schema from a layout to the latest one. */
function statementsOf(layouts: readonly Layout[], made: number): string[] {
  return layouts.slice(made).flatMap(({ sql, indexes = [] }) => [
    sql.trim(),
    ...made === 0 ? indexes.map(({ name, on }) => `create index ${name} ${on};`) : [],
  ]);
}

/** Beginning of the name of the lock that is held while a schema is changed. */
const LOCK = "edge-base ";

/** Locks a schema against others that lock it, until the transaction ends. */
export async function lockSchema(tx: Session, schema: string): Promise<void> {
  await tx.all("select pg_advisory_xact_lock(hashtextextended($1, 0))", LOCK + schema);
}

/**
 * Makes the statements that bring a schema from a layout to the latest one, for people whose app may not run them.
 *
 * @param schema The name of the schema.
 * @param user The user of the app, who gets the rights to use it.
 * @param made The number of the layout that it has; 0 if it has no tables of a store.
 * @param layouts The layouts that the program knows.
 * @returns The statements, in one transaction, and behind it the indexes that are built beside programs that write.
 */
export function migrationOf(schema: string, user: string, made = 0, layouts = LAYOUTS): string {
  const [name, grantee] = [schema, user].map(quoted);
  const statements = [
    ...made === 0 ? [`create schema if not exists ${name};`] : [],
    ...statementsOf(layouts, made),
    ...Object.entries(notesOf(layouts)).map(([note, value]) =>
      `insert into @layout values ('${note}', '${value}') on conflict (name) do update set value = excluded.value;`
    ),
  ];
  const later = made === 0 ? [] : layouts.slice(made).flatMap(({ indexes = [] }) => indexes);
  return [
    ...["begin;", statements.join("\n").replaceAll("@", `${name}.`)],
    `grant usage on schema ${name} to ${grantee};`,
    `grant select, insert, update, delete on all tables in schema ${name} to ${grantee};`,
    "commit;",
    // One that is there may be invalid, of a build that was broken off.
    ...later.flatMap(({ name: index, on }) => [
      `drop index concurrently if exists ${name}.${index};`,
      `create index concurrently ${index} ${on};`.replaceAll("@", `${name}.`),
    ]),
    "",
  ].join("\n");
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Makes the notes about the latest layout. */
function notesOf(layouts: readonly Layout[]): Readonly<Record<string, string>> {
  const { usableBy } = layouts.at(-1)!;
  return {
    layout: String(layouts.length),
    usable_by_layout: String(usableBy),
    usable_by_version: layouts[usableBy - 1]!.since,
  };
}

/** Reads a note about the schema; undefined if there is none. */
export async function noted(db: Session, name: string): Promise<string | undefined> {
  const [row] = await db.all<{ value: string }>("select value from @layout where name = $1", name);
  return row?.value;
}

/** Notes something about the schema. */
export async function note(db: Session, name: string, value: string): Promise<void> {
  await db.run(
    "insert into @layout (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value",
    ...[name, value],
  );
}
