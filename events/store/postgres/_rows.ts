import type { Bytes, Stored, Unreadable, Version } from "../engine.ts";
import type { EventRecord, EventRef } from "../event_record.ts";
import type { PutColumns } from "../sql/change_making.ts";
import { type EventRow as SharedRow, problemAt, recordIn } from "../sql/rows.ts";
import { bytesArray, numberArray, textArray, utf8Array } from "./_arrays.ts";
import { keyText, textOfKey } from "../sql/key_texts.ts";
import { shownText } from "./_texts.ts";

/** The columns of an event that the engine works with. Ids and keys are encoded, see `_texts.ts`. */
export type EventRow = SharedRow<Bytes>;

/** Condition of the events that run. The index of those that are not done is used only if it is said that they are not. */
const RUNNING = "state = 'running' and state <> 'done'";

/**
 * Makes a query of the events that are due up to `$1`, behind the time `$2` and the id `$3`, in their order, up to `$4`. Those
 * that run are few, and are read from the index of their state.
 *
 * @param columns The columns. `due_at` and `id` are among them.
 */
export function selectDue(columns: string): string {
  const part = (condition: string, at: string) =>
    `(select ${columns} from @event where ${condition} and ${at} <= $1::float8
      and (${at}, id) > ($2::float8, $3) order by ${at}, id limit $4)`;
  return `${part("scheduled_at = due_at", "scheduled_at")} union all
    ${
    part(`${RUNNING} and scheduled_at is distinct from due_at`, "due_at")
  } order by due_at, id limit $4`;
}

/** Makes a query of the first time behind another one at which an event is due. */
export function selectNext(after: string): string {
  return `select least(
    (select scheduled_at from @event where scheduled_at > ${after} order by scheduled_at limit 1),
    (select min(due_at) from @event where ${RUNNING} and due_at > ${after}))`;
}

/** Events that are written: what becomes of their rows, except for their payloads. */
export interface EventWrite extends PutColumns {
  readonly record: EventRecord;
}

/** A column, its type, and its values in rows that are written. */
type Column = readonly [
  name: string,
  type: "text" | "bytea" | "float8",
  values: (rows: readonly EventWrite[]) => Bytes,
];

const texts = (name: string, of: (row: EventWrite) => string | null): Column => [
  ...[name, "text", (rows: readonly EventWrite[]) => textArray(rows.map(of))] as const,
];

const numbers = (name: string, of: (row: EventWrite) => number | null | undefined): Column => [
  ...[
    name,
    "float8",
    (rows: readonly EventWrite[]) => numberArray(rows.map((row) => of(row) ?? null)),
  ] as const,
];

/** The columns that any change of an event may change. */
const CHANGING: readonly Column[] = [
  texts("state", ({ record }) => record.state),
  numbers("own_due_at", ({ own_due_at }) => own_due_at),
  numbers("settled_at", ({ record }) => record.settledAt),
  numbers("forget_at", ({ forget_at }) => forget_at),
  texts("version", ({ version }) => version),
  numbers("attempts", ({ record }) => record.attempt),
  texts("outcome", ({ record }) => record.outcome ?? null),
  texts("error", ({ record }) => shownText(record.attempts.at(-1)?.error)),
  ["record", "bytea", (rows) => utf8Array(rows.map(({ record }) => JSON.stringify(record)))],
];

/** The other ones, without the id and the payload. */
const OTHERS: readonly Column[] = [
  numbers("received_at", ({ record }) => record.receivedAt),
  numbers("other_due_at", ({ other_due_at }) => other_due_at),
  texts("group_key", ({ group_key }) => group_key && keyText(group_key)),
  numbers("position", ({ position }) => position),
  texts("payload", ({ payload }) => payload && keyText(payload)),
  texts("type", ({ record }) => shownText(record.type)),
  texts("action", ({ record }) => shownText(record.action)),
  texts("source", ({ record }) => shownText(record.source)),
  texts("intake", ({ record }) => shownText(record.intake)),
  texts("repository", ({ record }) => shownText(record.repository?.fullName)),
  numbers("chat", ({ record }) => record.chat?.id),
  texts("ordering_key", ({ record }) => shownText(record.orderingKey ?? undefined)),
];

const ALL: readonly Column[] = [...CHANGING, ...OTHERS];

/** The same of an event that is there: what is taken in has not failed. */
const ALL_OF_KNOWN: readonly Column[] = [
  ...ALL,
  texts("problem", ({ record }) => record.problem ?? null),
  numbers("problem_at", ({ record }) => problemAt(record)),
];

const nameOf = ([name]: Column) => name;

/** Makes the arrays that rows come from, as `unnest` takes them, from a parameter on. */
function unnest(columns: readonly Column[], from: number): string {
  return columns.map(([, type], i) => `$${from + i}::${type}[]`).join(", ");
}

const INSERTED = ["id", "body", ...ALL.map(nameOf)];

/** Adds events. One whose id an event has is left out, unless that is forgotten. Returns the ids that were added. */
export const INSERT_EVENTS = `insert into @event as known (${INSERTED})
  select * from unnest($2::text[], $3::bytea[], ${unnest(ALL, 4)})
  on conflict (id) do update set problem = null, ${
  INSERTED.map((name) => `${name} = excluded.${name}`)
}
  where known.forget_at <= $1 returning id`;

/** Adds events, except for those whose ids are known. Returns the ids that were added. */
export const INSERT_NEW_EVENTS = `insert into @event (${INSERTED})
  select * from unnest($1::text[], $2::bytea[], ${
  unnest(ALL, 3)
}) on conflict (id) do nothing returning id`;

/** Deletes events that are forgotten, so that others can have their ids. */
export const DELETE_FORGOTTEN =
  "delete from @event where forget_at <= $1::float8 and id = any($2::text[])";

/** Values of {@linkcode INSERT_EVENTS}, and behind the first one of {@linkcode INSERT_NEW_EVENTS}. */
export function insertedValues(
  now: number,
  rows: readonly (EventWrite & { readonly body: Bytes | null })[],
): (number | Bytes)[] {
  return [
    now,
    textArray(rows.map(({ record }) => keyText(record.id))),
    bytesArray(rows.map(({ body }) => body)),
    ...ALL.map(([, , values]) => values(rows)),
  ];
}

/**
 * Changes events, by their numbers: those whose rows are locked, and others if they have the versions that they must have.
 * The payload in a row goes if it is among the second ones.
 */
export const UPDATE_EVENTS = `update @event as known
  set ${ALL_OF_KNOWN.map(([name]) => `${name} = changed.${name}`)},
    body = case when known.seq = any($2::float8[]) then null else known.body end
  from unnest($1::float8[], $3::text[], ${unnest(ALL_OF_KNOWN, 4)}) as changed (seq, expected, ${
  ALL_OF_KNOWN.map(nameOf)
})
  where known.seq = changed.seq::bigint and known.version = coalesce(changed.expected, known.version)`;

/** Values of {@linkcode UPDATE_EVENTS}. */
export function updatedValues(
  rows: readonly (EventWrite & { readonly seq: number })[],
  withoutBody: readonly number[],
  expected: ReadonlyMap<number, Version>,
): Bytes[] {
  return [
    ...[numberArray(rows.map(({ seq }) => seq)), numberArray(withoutBody)],
    textArray(rows.map(({ seq }) => expected.get(seq) ?? null)),
    ...ALL_OF_KNOWN.map(([, , values]) => values(rows)),
  ];
}

/** A change of an event that is in no group, and has its payload in its row. */
export interface LoneWrite extends EventWrite {
  /** The version that it must have. */
  readonly expected: Version;
  /** The time at which it must be due, by which it was found; null if it does not matter. */
  readonly via: number | null;
}

/**
 * Changes events that are in no group and have their payloads in their rows, if they have the versions that they must
 * have. Returns the ids of those that were changed. The rows are locked in the order of their ids, so that no two of these
 * statements wait for each other.
 */
export const UPDATE_LONE_EVENTS = `with changed as materialized (
    select * from unnest($1::text[], $2::text[], $3::float8[], $4::float8[], ${unnest(CHANGING, 5)})
      as changed (id, expected, via, has_payload, ${CHANGING.map(([name]) => `new_${name}`)})
  ), locked as materialized (
    select seq from @event where id = any($1::text[]) order by id for update
  )
  update @event as known
  set ${CHANGING.map(([name]) => `${name} = changed.new_${name}`)},
    other_due_at = case when other_due_at <= changed.via then null else other_due_at end,
    body = case when has_payload = 0 then null else known.body end
  from changed, (select count(*) from locked) as all_locked
  where known.id = changed.id and version = changed.expected and payload is null and group_key is null
    and (changed.via is null or changed.via in (own_due_at, other_due_at))
  returning known.id`;

/** Values of {@linkcode UPDATE_LONE_EVENTS}. */
export function loneValues(rows: readonly LoneWrite[]): Bytes[] {
  return [
    textArray(rows.map(({ record }) => keyText(record.id))),
    textArray(rows.map(({ expected }) => expected)),
    numberArray(rows.map(({ via }) => via)),
    numberArray(rows.map(({ record }) => record.payload ? 1 : 0)),
    ...CHANGING.map(([, , values]) => values(rows)),
  ];
}

/** Reads the event of a row. */
export function eventOf(row: EventRow): Stored | Unreadable {
  const { version } = row;
  const record = recordOf(row.record);
  return record ? { record, version } : { ...refOf(row), version };
}

/** Returns the id of an event, and the time at which it came. */
export function refOf(
  { id, received_at: receivedAt }: Pick<EventRow, "id" | "received_at">,
): EventRef {
  return { id: textOfKey(id), receivedAt };
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function recordOf(bytes: Bytes): EventRecord | undefined {
  try {
    return recordIn(decoder.decode(bytes));
  } catch {
    return undefined;
  }
}
