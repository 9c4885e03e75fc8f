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
import { type EventRef, type EventState, OPEN_STATES } from "../event_record.ts";
import { textsIn } from "../sql/narrowing.ts";
import { COLUMNS, type EventRow, HAS_FAILED, inProblem, isForgotten, refOf } from "../sql/rows.ts";
import type { Connection, SqlValue } from "./_connection.ts";
import { PART_BYTES } from "./_change.ts";
import { Slices } from "./_slices.ts";
import { eventOf, findRow } from "./_rows.ts";

/** The number of events read at a time while many are. */
const PAGE = 200;

/** The number of events counted at a time: that takes some 1 ms. */
const COUNTED = 10_000;

/** The number of events in which a text is looked for at a time: that takes some 2 ms. */
const LOOKED_THROUGH = 500;

/** The largest payload that is read together with an event that is due, in bytes. */
const SMALL_BYTES = 64 * 1024;

type DueOptions = Parameters<Engine["due"]>[0];
type GroupOptions = Parameters<Engine["group"]>[1];

/** Makes the methods that read events. */
export function readingEvents(
  db: Connection,
  now: () => number,
): Pick<Engine, "get" | "ids" | "due" | "group" | "scan" | "count" | "problems" | "payload"> {
  const reads = new EventReads(db, now);
  // What SQLite refuses is a rejection, as every other failure of an engine.
  return {
    // deno-lint-ignore require-await
    get: async (events) => events.map((event) => reads.get(event)),
    // deno-lint-ignore require-await
    ids: async (options) => reads.ids(options),
    // deno-lint-ignore require-await
    due: async (options) => reads.due(options),
    // deno-lint-ignore require-await
    group: async (key, options) => reads.group(key, options),
    scan: (scan) => reads.scan(scan),
    count: (max, signal) => reads.count(max, signal),
    problems: (limits) => reads.problems(limits),
    payload: async ({ id }, of) => readInRow(db, id, of) ?? await readPayload(db, id),
  };
}

/** Reads a payload that is in the row of its event. */
function readInRow(db: Connection, id: string, of: EventRef): Bytes | undefined {
  const sql =
    "select body from event where id = ? and body is not null and record ->> '$.payload.id' = ?";
  return db.one<{ body: Bytes }>(sql, of.id, id)?.body;
}

/** Reads a payload, or what is there of it. */
export async function readPayload(db: Connection, id: string): Promise<Bytes> {
  const slices = new Slices();
  const parts: Bytes[] = [];
  const sql = "select body from payload where id = ? and part = ?";
  for (let size = 0;; await slices.next()) {
    const body = db.one<{ body: Bytes }>(sql, id, parts.length)?.body;
    if (body) {
      parts.push(body);
      size += body.byteLength;
      if (body.byteLength === PART_BYTES) continue;
    }
    if (parts.length === 1) return parts[0]!;
    const whole = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.byteLength;
      await slices.next();
    }
    return whole;
  }
}

class EventReads {
  readonly #db: Connection;
  readonly #now: () => number;

  constructor(db: Connection, now: () => number) {
    this.#db = db;
    this.#now = now;
  }

  get(event: string | EventRef): Stored | Unreadable | null {
    const isRef = typeof event !== "string";
    const row = findRow(this.#db, isRef ? event.id : event, this.#now());
    return row && (!isRef || row.received_at === event.receivedAt) ? eventOf(row) : null;
  }

  ids({ before, limit }: Parameters<Engine["ids"]>[0]): string[] {
    const sql = `select id from event ${
      before === undefined ? "" : "where id < ?"
    } order by id desc limit ?`;
    const values = before === undefined ? [limit] : [before, limit];
    return this.#db.all<{ id: string }>(sql, ...values).map(({ id }) => id);
  }

  due({ until, limit, cursor }: DueOptions): DuePage {
    if (limit === 0) return { events: [], bodies: Promise.resolve([]), next: this.#nextDueAt() };
    const [at, id] = cursor === undefined ? [-Infinity, ""] : placeIn(cursor);
    const rows = this.#db.all<EventRow & { readonly body: Bytes | null }>(
      `select ${COLUMNS}, body from event where due_at <= ? and (due_at, id) > (?, ?) order by due_at, id limit ?`,
      ...[until, at, id, limit],
    );
    const events = rows.map((row): Due => ({
      ...refOf(row),
      at: row.due_at!,
      event: eventOf(row),
    }));
    const last = rows.length === limit ? rows.at(-1) : undefined;
    return {
      events,
      bodies: Promise.resolve(
        rows.map(({ body, payload }) =>
          body ?? (payload === null ? undefined : this.#small(payload))
        ),
      ),
      cursor: last && `${last.due_at}:${last.id}`,
      next: last ? undefined : this.#nextDueAt(until),
    };
  }

  #small(payload: string): Bytes | undefined {
    const sql =
      `select body from payload where id = ? and part = 0 and length(body) <= ${SMALL_BYTES}`;
    return this.#db.one<{ body: Bytes }>(sql, payload)?.body;
  }

  /** Reads the first time after another at which an event is due. */
  #nextDueAt(after = -Infinity): number | null {
    // min(due_at) without a condition would read all events: SQLite uses no index of a part of them for that.
    const sql = "select min(due_at) as at from event where due_at > ?";
    return this.#db.one<{ at: number | null }>(sql, after)!.at;
  }

  group(key: string, { from, limit, onlyPositions = false }: GroupOptions): Group {
    const group = this.#db.one<{ next: number; places: number; joined_at: number | null }>(
      "select next, places, joined_at from ordering_group where key = ?",
      key,
    );
    const rows = this.#db.all<EventRow>(
      `select ${COLUMNS} from event where group_key = ? and position >= ? order by position limit ?`,
      ...[key, from, limit],
    );
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

  async *#scan(scan: Scan, after: [number, string] | undefined): AsyncGenerator<Visit> {
    const { filter, isNewestFirst = false } = scan;
    const slices = new Slices();
    const [beyond, direction] = isNewestFirst ? ["<", "desc"] : [">", "asc"];
    const order = `order by received_at ${direction}, id ${direction} limit ${PAGE}`;
    let [at, id] = after ?? beginningOf(filter, isNewestFirst);
    const { problem } = filter;
    const problems = problem === undefined ? undefined : inProblem(scan, "?");
    if (problems?.length === 0) return;
    const parts = problems?.map((each) => `event where ${each}`) ?? statesOf(scan);
    const texts = problems || filter.ids || parts.length > 1 ? [] : textsIn(filter);
    if (texts.length > 0) return yield* this.#lookThrough(scan, parts[0]!, texts, [at, id]);
    const [conditions, values] = conditionsOf(filter);
    // Those of each state, or problem, come from an index, in order.
    const selects = parts.map((part) =>
      `select ${COLUMNS} from ${part}
      and (received_at, id) ${beyond} (?, ?) ${conditions} ${order}`
    );
    const sql = selects.length === 1
      ? selects[0]!
      : `${selects.map((select) => `select * from (${select})`).join(" union all ")} ${order}`;
    while (true) {
      // Deno 2.5 binds no numbered parameters.
      const further = [at, id, ...values];
      const rows = this.#db.all<EventRow>(
        sql,
        ...selects.flatMap(() => problem === undefined ? further : [problem, ...further]),
      );
      for (const row of rows) {
        if (isForgotten(row, this.#now())) continue;
        const place = `${row.received_at}:${row.id}`;
        yield { event: eventOf(row), place, reachedAt: row.received_at };
      }
      if (rows.length < PAGE) return;
      await slices.next();
      [at, id] = [rows.at(-1)!.received_at, rows.at(-1)!.id];
    }
  }

  /**
   * Looks for texts in the records of events, some at a time: one statement that finds few would take as long as all of
   * them.
   */
  async *#lookThrough(
    { filter, isNewestFirst = false }: Scan,
    state: string,
    texts: readonly string[],
    [at, id]: [number, string],
  ): AsyncGenerator<Visit> {
    const slices = new Slices();
    const [beyond, within, direction] = isNewestFirst ? ["<", ">=", "desc"] : [">", "<=", "asc"];
    const order = `order by received_at ${direction}, id ${direction}`;
    const [conditions, values] = conditionsOf(filter);
    const wanted = texts.map((text) => `%${text}%`);
    const rest = `from ${state} and (received_at, id) ${beyond} (?, ?) ${conditions}`;
    const lastSql = `select received_at, id ${rest} ${order} limit 1 offset ${LOOKED_THROUGH - 1}`;
    const all = `select ${COLUMNS} ${rest} ${texts.map(() => "and record like ?").join(" ")}`;
    const some = `${all} and (received_at, id) ${within} (?, ?) ${order}`;
    while (true) {
      const last = this.#db.one<Pick<EventRow, "received_at" | "id">>(lastSql, at, id, ...values);
      const own = [at, id, ...values, ...wanted];
      const rows = last
        ? this.#db.all<EventRow>(some, ...own, last.received_at, last.id)
        : this.#db.all<EventRow>(`${all} ${order}`, ...own);
      for (const row of rows) {
        if (isForgotten(row, this.#now())) continue;
        const place = `${row.received_at}:${row.id}`;
        yield { event: eventOf(row), place, reachedAt: row.received_at };
      }
      if (!last) return;
      [at, id] = [last.received_at, last.id];
      const passedOver = LOOKED_THROUGH - rows.length;
      yield { event: undefined, place: `${at}:${id}`, reachedAt: at, passedOver };
      await slices.next();
    }
  }

  async count(max: number, signal?: AbortSignal): Promise<Counts> {
    const slices = new Slices();
    const of = (state: EventState) => this.#count(inState(state), [], { max, signal, slices });
    const next = this.#nextDueAt();
    return {
      ...{ queued: await of("queued"), running: await of("running") },
      ...{ parked: await of("parked"), dead: await of("dead") },
      oldestDueAt: next !== null && next <= this.#now() ? next : null,
    };
  }

  /** Counts the events that a table and a condition choose, in the order of their index, some at a time. */
  async #count(
    chosen: string,
    values: readonly SqlValue[],
    { max, signal, slices }: Counting,
  ): Promise<BoundedCount> {
    const found = `from ${chosen} and (received_at, id) > (?, ?)`;
    const behind = `select received_at, id ${found} order by received_at, id limit 1 offset ${
      COUNTED - 1
    }`;
    let [count, at, id] = [0, -Infinity, ""];
    while (count + COUNTED <= max && !signal?.aborted) {
      const last = this.#db.one<{ received_at: number; id: string }>(behind, ...values, at, id);
      if (!last) break;
      [count, at, id] = [count + COUNTED, last.received_at, last.id];
      await slices.next();
    }
    const rest = `select count(*) as n from (select 1 ${found} limit ?)`;
    const left = Math.min(COUNTED, max - count + 1);
    count += this.#db.one<{ n: number }>(rest, ...values, at, id, left)!.n;
    return { count: Math.min(count, max), isMore: count > max || signal?.aborted === true };
  }

  /** Counts the events of a problem in a state: at once if they are few, as most are. */
  async #countInState(
    problem: string,
    state: EventState,
    max: number,
    slices: Slices,
  ): Promise<BoundedCount> {
    const few = Math.min(COUNTED, max);
    const from = `event where problem = ? and state = '${state}' and ${HAS_FAILED}`;
    const sql = `select count(*) as n from (select 1 from ${from} limit ?)`;
    const { n: count } = this.#db.one<{ n: number }>(sql, problem, few + 1)!;
    if (count <= few) return { count, isMore: false };
    return await this.#count(from, [problem], { max, slices });
  }

  async #countProblem(id: string, max: number, slices: Slices): Promise<ProblemCount> {
    const dead = await this.#countInState(id, "dead", max, slices);
    let retrying: BoundedCount = { count: 0, isMore: false };
    for (const state of OPEN_STATES) {
      const { count, isMore } = await this.#countInState(id, state, max, slices);
      const sum = retrying.count + count;
      const hasMore = retrying.isMore || isMore || sum > max;
      retrying = { count: Math.min(sum, max), isMore: hasMore };
    }
    return { id, dead, retrying };
  }

  async problems(
    { id, max, problems }: Parameters<Engine["problems"]>[0],
  ): Promise<ProblemCount[]> {
    const slices = new Slices();
    const counts: ProblemCount[] = [];
    // One step in the index leads to the next problem.
    const sql = `select min(problem) as next from event where problem > ? and ${HAS_FAILED}`;
    const nextTo = (problem: string) => this.#db.one<{ next: string | null }>(sql, problem)?.next;
    const isOne = id !== undefined;
    for (let next = isOne ? id : nextTo(""); next && counts.length < problems;) {
      const count = await this.#countProblem(next, max, slices);
      // Its last event may be done meanwhile.
      if (count.dead.count + count.retrying.count > 0) counts.push(count);
      await slices.next();
      next = isOne ? null : nextTo(next);
    }
    return counts;
  }
}

/** Limits of a count. */
interface Counting {
  readonly max: number;
  readonly signal?: AbortSignal | undefined;
  readonly slices: Slices;
}

/** Names the table and the condition of a state. Those that are done, and those that are not, have their indexes. */
function inState(state: EventState): string {
  if (state === "done") return "event indexed by event_done where state = 'done'";
  return `event indexed by event_open where state = '${state}' and state <> 'done'`;
}

/** Makes the tables and conditions that choose the states of a scan, one for each index that it reads. */
function statesOf({ filter, onlyOpen = false }: Scan): string[] {
  const { state } = filter;
  // A record that cannot be read has the state that it had.
  const isOne = state !== undefined && state !== "unreadable";
  const states = isOne ? [state] : onlyOpen ? OPEN_STATES : [];
  if (states.length > 0 && !filter.ids) return states.map(inState);
  return [`event where ${states.length > 0 ? `state in (${states.map(quoted)})` : "true"}`];
}

const quoted = (state: EventState): string => `'${state}'`;

/** Makes the conditions that narrow a scan, and their values. The store looks at all of them itself. */
function conditionsOf(
  { ids, receivedAfter, receivedBefore, settledBefore }: Scan["filter"],
): [string, SqlValue[]] {
  const conditions: string[] = [];
  const values: SqlValue[] = [];
  const add = (condition: string, value: SqlValue | undefined) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(`and ${condition}`);
  };
  add("id in (select value from json_each(?))", ids && JSON.stringify(ids));
  add("received_at >= ?", receivedAfter);
  add("received_at < ?", receivedBefore);
  add("settled_at < ?", settledBefore);
  return [conditions.join(" "), values];
}

/** Finds the place before the first event of a scan. Its own conditions would have SQLite walk to that. */
function beginningOf(
  { receivedAfter = -Infinity, receivedBefore = Infinity }: Scan["filter"],
  isNewestFirst: boolean,
): [number, string] {
  return [isNewestFirst ? receivedBefore : receivedAfter, ""];
}

/** Reads a place that a scan or a page of due events has named: a time, and the id of the event at it. */
function placeIn(place: string): [number, string] {
  const [, at, id] = /^(-?[\d.]+):(.+)$/s.exec(place) ?? [];
  if (id === undefined) throw new CursorError(place);
  return [Number(at), id];
}
