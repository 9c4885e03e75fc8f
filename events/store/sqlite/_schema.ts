import { APPLICATION_ID } from "../database_file.ts";
import { HAS_FAILED } from "../sql/rows.ts";
import type { Connection } from "./_connection.ts";

/**
 * The layout of the file.
 *
 * An event is a row: its record as JSON, the columns that the engine finds it by, and, for people, columns that SQLite
 * takes from the JSON when they are asked for. They cost nothing when a row is written.
 */
const TABLES = `
create table event (
  seq integer primary key,
  id text not null unique,
  received_at integer not null,
  state text not null,
  -- The time of the record, and another one: an event is due at the earlier.
  own_due_at integer,
  other_due_at integer,
  due_at integer as (coalesce(min(own_due_at, other_due_at), own_due_at, other_due_at)),
  group_key text,
  position integer,
  -- Its payload in the table payload, if that is too large for the row, was uploaded, or was kept.
  payload text,
  settled_at integer,
  forget_at integer,
  version text not null,
  record text not null,
  -- Its payload, if that is small.
  body blob,
  type text as (record ->> '$.type'),
  action text as (record ->> '$.action'),
  source text as (record ->> '$.source'),
  intake text as (record ->> '$.intake'),
  repository text as (record ->> '$.repository.fullName'),
  chat integer as (record ->> '$.chat.id'),
  ordering_key text as (record ->> '$.orderingKey'),
  attempts integer as (record ->> '$.attempt'),
  outcome text as (record ->> '$.outcome'),
  error text as (record ->> '$.attempts[#-1].error')
);
create index event_received on event (received_at, id);
create index event_due on event (due_at, id) where due_at is not null;
create index event_open on event (state, received_at, id) where state <> 'done';
create unique index event_group on event (group_key, position) where group_key is not null;
create index event_forget on event (forget_at) where forget_at is not null;

create table ordering_group (
  key text primary key,
  next integer not null,
  places integer not null,
  joined_at integer
) without rowid;

create table payload (
  id text not null,
  part integer not null,
  body blob not null,
  uploaded_at integer,
  unique (id, part)
);
create index payload_uploaded on payload (uploaded_at) where uploaded_at is not null;

create table cell (
  key blob primary key,
  name text not null,
  value text,
  total integer,
  forget_at integer,
  version text not null
) without rowid;
create index cell_forget on cell (forget_at) where forget_at is not null;

create view waiting as select id, type, action, source, repository, chat, ordering_key, attempts, error,
  datetime(received_at / 1000, 'unixepoch') as received, datetime(due_at / 1000, 'unixepoch') as due
  from event where state in ('queued', 'parked');
create view running as select id, type, action, source, repository, chat, ordering_key, attempts,
  record ->> '$.lease.owner' as worker, datetime(record ->> '$.lease.until' / 1000, 'unixepoch') as lease_until
  from event where state = 'running';
create view dead as select id, type, action, source, repository, chat, ordering_key, attempts, outcome, error,
  datetime(received_at / 1000, 'unixepoch') as received, datetime(settled_at / 1000, 'unixepoch') as died
  from event where state = 'dead';

-- What is noted about the file: whose events are in it, and who may use it.
create table layout (
  name text primary key,
  value text not null
) without rowid;
`;

/** A layout of the file. The first one is made of an empty file, and each other of the one before it. */
export interface Layout {
  /** The statements that make it. They must let the programs of {@linkcode Layout.usableBy} go on. */
  readonly sql: string;
  /** The number of the oldest layout whose programs may use it. Within a minor version it stays. */
  readonly usableBy: number;
  /** The version of the package that made it first, for people. */
  readonly since: string;
}

/** The columns and indexes that find the events that have failed, by their problems, and those that are done. */
const PROBLEMS = `
alter table event add column problem text;
alter table event add column problem_at integer;
create index event_problem on event (problem, state, received_at, id)
  where problem is not null and ${HAS_FAILED};
create index event_done on event (received_at, id) where state = 'done';
`;

/** The layouts, in their order: the number of the first one is 1. */
export const LAYOUTS: readonly Layout[] = [
  { sql: TABLES, usableBy: 1, since: "0.1.0" },
  { sql: PROBLEMS, usableBy: 1, since: "0.1.0" },
];

/** Names of the tables and views of the store. */
const NAMES: readonly string[] = LAYOUTS.flatMap(({ sql }) =>
  [...sql.matchAll(/create (?:table|view) (\w+)/g)].map(([, name]) => name!)
);

/** The same, as JSON. */
export const STORE_TABLES = JSON.stringify(NAMES);

/** Checks for the name of a table or view of the store: another layout may have more, whose names begin with `edge_`. */
export function isStoreTable(name: string): boolean {
  const lower = name.toLowerCase();
  return NAMES.includes(lower) || lower.startsWith("edge_");
}

/** Writes the first page of a file as it is. */
export const WRITE_HEADER = `pragma application_id = ${APPLICATION_ID}`;

/**
 * Reads the layout of a file, before anything of it is changed.
 *
 * @param db The connection.
 * @param layouts The layouts that the program knows.
 * @returns Its number; 0 for an empty file.
 * @throws {Error} If it is a database of something else, or a newer program has made it and this one may not use it.
 */
export function layoutOf(db: Connection, layouts = LAYOUTS): number {
  const { application_id: kind } = db.one<{ application_id: number }>("pragma application_id")!;
  if (kind === APPLICATION_ID) return usable(db, layouts);
  const { n } = db.one<{ n: number }>("select count(*) as n from sqlite_schema")!;
  if (kind === 0 && n === 0) return 0;
  throw new Error("it is a database of something else");
}

function usable(db: Connection, layouts: readonly Layout[]): number {
  const { user_version: number } = db.one<{ user_version: number }>("pragma user_version")!;
  if (Number(noted(db, "usable_by_layout")) <= layouts.length) return number;
  throw new Error(
    `a newer version of this package has made it, with layout ${number}: ` +
      `use version ${noted(db, "usable_by_version")} or a later one`,
  );
}

/**
 * Brings a file to the latest layout, in one transaction.
 *
 * @param db The connection.
 * @param layouts The layouts that the program knows.
 * @throws {Error} If a newer program has made it, and this one may not use it. It is left as it is.
 */
export async function bringToLayout(db: Connection, layouts = LAYOUTS): Promise<void> {
  if (layoutOf(db, layouts) >= layouts.length) return;
  await db.begin();
  try {
    const made = layoutOf(db, layouts);
    for (const { sql } of layouts.slice(made)) db.script(sql);
    if (made < layouts.length) noteLayout(db, layouts);
    db.commit();
  } catch (error) {
    db.rollback();
    throw error;
  }
}

function noteLayout(db: Connection, layouts: readonly Layout[]): void {
  const { usableBy } = layouts.at(-1)!;
  db.run(WRITE_HEADER);
  db.run(`pragma user_version = ${layouts.length}`);
  note(db, "usable_by_layout", String(usableBy));
  note(db, "usable_by_version", layouts[usableBy - 1]!.since);
}

/** Reads a note about the file; undefined if there is none. */
export function noted(db: Connection, name: string): string | undefined {
  return db.one<{ value: string }>("select value from layout where name = ?", name)?.value;
}

/** Notes something about the file. */
export function note(db: Connection, name: string, value: string): void {
  db.run("insert or replace into layout (name, value) values (?, ?)", name, value);
}
