import {
  type BoundedCount,
  type Bytes,
  type Counts,
  CursorError,
  type Due,
  type DuePage,
  type Engine,
  type Group,
  type ProblemCount,
  type Scan,
  type Stored,
  type Unreadable,
  type Visit,
} from "../engine.ts";
import { type EventRef, type EventState, OPEN_STATES, type PayloadRef } from "../event_record.ts";
import { textsIn } from "../sql/narrowing.ts";
import { COLUMNS, HAS_FAILED, inProblem, isForgotten } from "../sql/rows.ts";
import { textArray } from "./_arrays.ts";
import type { PgValue, Session } from "./_connections.ts";
import { eventOf, type EventRow, refOf, selectDue, selectNext } from "./_rows.ts";
import { keyText, textOfKey } from "../sql/key_texts.ts";

/** The number of events read at a time while many are. */
const PAGE = 200;

/** The number of events in which a text is looked for at a time: that takes some 5 ms. */
const LOOKED_THROUGH = 500;

/** The largest payload that is read together with an event that is due, in bytes. */
const SMALL_BYTES = 65_536;

/** The number of parts of a payload that are read at a time. */
const PARTS = 8;

/** The payload of an event in its row, if it is small. */
const SMALL_BODY = `case when octet_length(body) <= ${SMALL_BYTES} then body end as body`;

/** A row with a time alone. */
const NOTHING = [...COLUMNS.split(", "), "body"].map((name) => name === "due_at" ? name : "null")
  .join(", ");

/** The time before all others. */
const ALWAYS = "'-Infinity'::float8";

/** Finds the problems: one step in the index leads to the next. */
const ALL_PROBLEMS = `with recursive found (problem) as (
    select (select min(problem) from @event where problem > '' and ${HAS_FAILED})
    union all
    select (select min(problem) from @event where problem > found.problem and ${HAS_FAILED})
      from found where found.problem is not null
  )`;

/** The same of one problem. */
const ONE_PROBLEM = "with found (problem) as (select $3::text)";

/** Counts the events of a problem in some states, up to a number. */
const countIn = (states: readonly EventState[]) =>
  `(select count(*) from (select 1 from @event as event where event.problem = found.problem
    and state in (${states.map((state) => `'${state}'`)}) and ${HAS_FAILED}
    limit $1::float8::bigint) as counted)::float8`;

type DueOptions = Parameters<Engine["due"]>[0];
type GroupOptions = Parameters<Engine["group"]>[1];

/** A row of an event that is due: the next one, which is not due yet, has a time alone. */
interface DueRow extends EventRow {
  readonly due_at: number;
  readonly body: Bytes | null;
}

/** The methods that read events. */
export class EventReads
  implements
    Pick<Engine, "get" | "ids" | "due" | "group" | "scan" | "count" | "problems" | "payload"> {
  readonly #db: Session;
  readonly #now: () => number;

  constructor(db: Session, now: () => number) {
    this.#db = db;
    this.#now = now;
  }

  async get(events: readonly (string | EventRef)[]): Promise<(Stored | Unreadable | null)[]> {
    if (events.length === 0) return [];
    const ids = events.map((event) => typeof event === "string" ? event : event.id);
    const rows = await this.#db.all<EventRow>(
      `select ${COLUMNS} from @event where id = any($1::text[])`,
      textArray(ids.map(keyText)),
    );
    const now = this.#now();
    const found = new Map(rows.map((row) => [textOfKey(row.id), row]));
    return events.map((event, i) => {
      const row = found.get(ids[i]!);
      if (!row || isForgotten(row, now)) return null;
      return typeof event === "string" || row.received_at === event.receivedAt
        ? eventOf(row)
        : null;
    });
  }

  async ids({ before, limit }: Parameters<Engine["ids"]>[0]): Promise<string[]> {
    const rows = await this.#db.all<{ id: string }>(
      "select id from @event where $1::text is null or id < $1::text order by id desc limit $2",
      ...[before === undefined ? null : keyText(before), limit],
    );
    return rows.map(({ id }) => textOfKey(id));
  }

  async due({ until, limit, cursor }: DueOptions): Promise<DuePage> {
    if (limit === 0) {
      const [first] = await this.#db.all<{ next: number | null }>(`${selectNext(ALWAYS)} as next`);
      return { events: [], bodies: Promise.resolve([]), next: first!.next };
    }
    const [at, id] = cursor === undefined ? [-Infinity, ""] : placeIn(cursor);
    // One statement finds those that are due, and the time of the first one that is not.
    const rows = await this.#db.all<DueRow>(
      `select * from (${selectDue(`${COLUMNS}, ${SMALL_BODY}`)}) as due union all (select ${
        NOTHING.replace("due_at", `(${selectNext("$1::float8")})`)
      })`,
      ...[until, at, id, limit],
    );
    const due = rows.filter(({ record }) => record !== null);
    const events = due.map((row): Due => ({ ...refOf(row), at: row.due_at, event: eventOf(row) }));
    const last = due.length === limit ? due.at(-1) : undefined;
    return {
      events,
      bodies: this.#bodies(due),
      cursor: last && `${last.due_at}:${last.id}`,
      next: last ? undefined : rows.find(({ record }) => record === null)?.due_at ?? null,
    };
  }

  async #bodies(rows: readonly DueRow[]): Promise<(Bytes | undefined)[]> {
    const apart = rows.flatMap(({ payload }) => payload ?? []);
    const found = apart.length === 0 ? [] : await this.#db.all<{ id: string; body: Bytes }>(
      `select id, body from @payload where id = any($1::text[]) and part = 0
        and octet_length(body) <= ${SMALL_BYTES}`,
      textArray(apart),
    );
    const bodies = new Map(found.map(({ id, body }) => [id, body]));
    return rows.map(({ payload, body }) =>
      payload === null ? body ?? undefined : bodies.get(payload)
    );
  }

  async group(key: string, { from, limit, onlyPositions = false }: GroupOptions): Promise<Group> {
    type GroupRow = Readonly<{ next: number; places: number; joined_at: number | null }>;
    const [[group], rows] = await Promise.all([
      this.#db.all<GroupRow>(
        "select next, places, joined_at from @ordering_group where key = $1",
        keyText(key),
      ),
      this.#db.all<EventRow>(
        `select ${onlyPositions ? "position" : COLUMNS} from @event
        where group_key = $1 and position >= $2::float8 order by position limit $3::float8::bigint`,
        ...[keyText(key), from, Math.min(limit, Number.MAX_SAFE_INTEGER)],
      ),
    ]);
    return {
      next: group?.next ?? 0,
      places: group?.places ?? 1,
      joinedAt: group?.joined_at ?? undefined,
      members: rows.map((row) => ({
        position: row.position!,
        event: onlyPositions ? undefined : eventOf(row),
      })),
    };
  }

  scan(scan: Scan): AsyncIterableIterator<Visit> {
    return this.#scan(scan, scan.after === undefined ? undefined : placeIn(scan.after));
  }

  async *#scan(
    scan: Scan,
    after: readonly [number, string] | undefined,
  ): AsyncGenerator<Visit> {
    const { filter, isNewestFirst = false } = scan;
    const { problem } = filter;
    const problems = problem === undefined ? undefined : inProblem(scan, "$3");
    if (problems?.length === 0) return;
    const [beyond, direction] = isNewestFirst ? ["<", "desc"] : [">", "asc"];
    const order = `order by received_at ${direction}, id ${direction} limit ${PAGE}`;
    let [at, id] = after ?? (isNewestFirst ? [Infinity, ""] : [-Infinity, ""]);
    const own = problem === undefined ? [] : [problem];
    const parts = problems ?? statesOf(scan);
    const texts = problems || filter.ids || parts.length > 1 ? [] : textsIn(filter);
    if (texts.length > 0) return yield* this.#lookThrough(scan, parts[0]!, texts, [at, id]);
    const [conditions, more] = conditionsOf(filter, 3 + own.length);
    const values = [...own, ...more];
    // Those of each state, or problem, come from an index, in order.
    const selects = parts.map((part) =>
      `(select ${COLUMNS} from @event where ${part}
      and (received_at, id) ${beyond} ($1::float8, $2) ${conditions} ${order})`
    );
    const sql = selects.length === 1 ? selects[0]! : `${selects.join(" union all ")} ${order}`;
    while (true) {
      const rows = await this.#db.all<EventRow>(sql, at, id, ...values);
      for (const row of rows) {
        if (isForgotten(row, this.#now())) continue;
        const place = `${row.received_at}:${row.id}`;
        yield { event: eventOf(row), place, reachedAt: row.received_at };
      }
      if (rows.length < PAGE) return;
      [at, id] = [rows.at(-1)!.received_at, rows.at(-1)!.id];
    }
  }

  /** Looks for texts in the records of events, some at a time: a statement that finds few would look through all of them. */
  async *#lookThrough(
    { filter, isNewestFirst = false }: Scan,
    state: string,
    texts: readonly string[],
    [at, id]: [number, string],
  ): AsyncGenerator<Visit> {
    const [beyond, direction] = isNewestFirst ? ["<", "desc"] : [">", "asc"];
    const order = `order by received_at ${direction}, id ${direction}`;
    const [conditions, values] = conditionsOf(filter, 3);
    const wanted = texts.map((text) => `%${text}%`);
    // Without what is not ASCII: a database may have any encoding.
    const has = wanted.map((_, i) =>
      `encode(record, 'escape') collate "C" ilike $${3 + values.length + i}::text`
    );
    // Their number and the last of them come with those that hold the texts.
    const sql = `with looked as materialized (
      select ${COLUMNS}, row_number() over (${order}) as number from @event where ${state}
        and (received_at, id) ${beyond} ($1::float8, $2) ${conditions} ${order} limit ${LOOKED_THROUGH}
    ) select * from looked where number = ${LOOKED_THROUGH} or (${
      has.join(" and ")
    }) order by number`;
    while (true) {
      const rows = await this.#db.all<EventRow & { readonly number: number }>(
        ...[sql, at, id, ...values, ...wanted] as const,
      );
      for (const row of rows) {
        if (isForgotten(row, this.#now())) continue;
        const place = `${row.received_at}:${row.id}`;
        yield { event: eventOf(row), place, reachedAt: row.received_at };
      }
      const last = rows.at(-1);
      if (!last || Number(last.number) < LOOKED_THROUGH) return;
      [at, id] = [last.received_at, last.id];
      const passedOver = LOOKED_THROUGH - rows.length;
      yield { event: undefined, place: `${at}:${id}`, reachedAt: at, passedOver };
    }
  }

  async count(max: number, signal?: AbortSignal): Promise<Counts> {
    const of = (state: EventState) =>
      `(select count(*) from (select 1 from @event where ${
        inState(state)
      } limit $1::float8::bigint) as counted)
        as ${state}`;
    type Row = Record<Exclude<EventState, "done">, number> & { readonly next: number | null };
    const [row] = await this.#db.all<Row>(
      `select ${of("queued")}, ${of("running")}, ${of("parked")}, ${of("dead")},
        (${selectNext(ALWAYS)}) as next`,
      Math.min(max + 1, Number.MAX_SAFE_INTEGER),
    );
    const bounded = (count: number): BoundedCount => ({
      ...{ count: Math.min(count, max), isMore: count > max || signal?.aborted === true },
    });
    const { queued, running, parked, dead, next } = row!;
    return {
      ...{ queued: bounded(queued), running: bounded(running) },
      ...{ parked: bounded(parked), dead: bounded(dead) },
      oldestDueAt: next !== null && next <= this.#now() ? next : null,
    };
  }

  async problems(
    { id, max, problems }: Parameters<Engine["problems"]>[0],
  ): Promise<ProblemCount[]> {
    const rows = await this.#db.all<{ problem: string; dead: number; retrying: number }>(
      `${id === undefined ? ALL_PROBLEMS : ONE_PROBLEM} select problem, ${
        countIn(["dead"])
      } as dead,
        ${countIn(OPEN_STATES)} as retrying
        from found where problem is not null limit $2::float8::bigint`,
      ...[Math.min(max + 1, Number.MAX_SAFE_INTEGER), problems],
      ...id === undefined ? [] : [id],
    );
    const bounded = (count: number) => ({ count: Math.min(count, max), isMore: count > max });
    return rows.filter(({ dead, retrying }) => dead + retrying > 0).map((row) => ({
      ...{ id: row.problem, dead: bounded(row.dead), retrying: bounded(row.retrying) },
    }));
  }

  async payload({ id }: PayloadRef, of: EventRef): Promise<Bytes> {
    const [row] = await this.#db.all<EventRow & { readonly body: Bytes }>(
      `select ${COLUMNS}, body from @event where id = $1 and payload is null and body is not null`,
      keyText(of.id),
    );
    if (row && eventOf(row).record?.payload?.id === id) return row.body;
    return await readPayload(this.#db, id);
  }
}

/** Reads a payload that is apart from its event, or what is there of it. */
async function readPayload(db: Session, id: string): Promise<Bytes> {
  const parts: Bytes[] = [];
  while (true) {
    const rows = await db.all<{ part: number; body: Bytes }>(
      `select part, body from @payload where id = $1 and part >= $2::float8 order by part limit ${PARTS}`,
      ...[keyText(id), parts.length],
    );
    for (const { part, body } of rows) if (part === parts.length) parts.push(body);
    if (rows.length < PARTS) break;
  }
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

/** Makes the condition of a state. The index of all that are not done is used only if it is said that they are not. */
function inState(state: EventState): string {
  return state === "done" ? "state = 'done'" : `state = '${state}' and state <> 'done'`;
}

/** Makes the conditions that choose the states of a scan, one for each index that it reads. */
function statesOf({ filter: { state }, onlyOpen = false }: Scan): string[] {
  // A record that cannot be read has the state that it had.
  const isOne = state !== undefined && state !== "unreadable";
  const states = isOne ? [state] : onlyOpen ? OPEN_STATES : [];
  return states.length === 0 ? ["true"] : states.map(inState);
}

/** Makes the conditions that narrow a scan, and their values. The store looks at all of them itself. */
function conditionsOf(
  { ids, receivedAfter, receivedBefore, settledBefore }: Scan["filter"],
  from: number,
): [string, PgValue[]] {
  const conditions: string[] = [];
  const values: PgValue[] = [];
  const add = (condition: (parameter: string) => string, value: PgValue | undefined) => {
    if (value === undefined) return;
    conditions.push(`and ${condition(`$${from + values.length}`)}`);
    values.push(value);
  };
  add(
    (all) => `id = any(${all}::text[])`,
    ids && textArray(ids.filter((id) => id.isWellFormed()).map(keyText)),
  );
  add((time) => `received_at >= ${time}::float8`, receivedAfter);
  add((time) => `received_at < ${time}::float8`, receivedBefore);
  add((time) => `settled_at < ${time}::float8`, settledBefore);
  return [conditions.join(" "), values];
}

/** Reads a place that a scan or a page of due events has named: a time, and the id of the event at it. */
function placeIn(place: string): readonly [number, string] {
  const [, at, id] = /^(-?[\d.]+):(.+)$/s.exec(place) ?? [];
  if (id === undefined || /\0/.test(id)) throw new CursorError(place);
  return [Number(at), id];
}
