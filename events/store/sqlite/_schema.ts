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
  payload text,
  settled_at integer,
  forget_at integer,
  version text not null,
  record text not null,
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

create table layout (
  name text primary key,
  value text not null
) without rowid;
`;

/** Version of the layout: another one cannot be used by this program, unless it says so. */
export const LAYOUT = 1;

/** The kind of files that are an event store: "edge" in ASCII, as the header of a SQLite file has it. */
export const APPLICATION_ID = 0x65646765;

/** Makes the tables of an empty file. */
export function createTables(db: Connection): void {
  for (const statement of TABLES.split(/;\n/)) {
    if (statement.trim() !== "") db.run(statement);
  }
  db.run(`pragma application_id = ${APPLICATION_ID}`);
  db.run(`pragma user_version = ${LAYOUT}`);
}
