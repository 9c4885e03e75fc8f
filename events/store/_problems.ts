/**
 * The problems by which attempts fail: what is noted beside the events, and the list of those that still have events.
 *
 * Which events belong to a problem is in their records, and engines count them by an index. Beside that each problem has
 * a cell with its first error and the versions that have met it, and sums: of its failed attempts by hours, and the time
 * of the last one. The sums are changed by the commit that ends an attempt.
 *
 * A problem is over once no event is dead or tried again because of it, and no attempt has failed by it for an hour. When
 * it comes up, or comes back after it was over, a cell for two hours has its id by the time of that: so those that are new
 * are found without a look at all others.
 *
 * @module
 */
import { untilDone } from "../../core/tries.ts";
import { isText, isTime, listOf, orNone, shape } from "../../core/shape.ts";
import type { BoundedCount, Cell, CellChange, CellKey, ProblemCount, SumChange } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import type { RecentProblem } from "./own_cells.ts";
import { isProblemId } from "./problem.ts";
import type { PortableRecord } from "./portable_event.ts";
import type { StoreCore } from "./store_core.ts";

const HOUR_MS = 3_600_000;

/** The number of hours for which the failed attempts of a problem are kept. */
const KEPT_HOURS = 72;

/** The time after which a problem without events is forgotten, in milliseconds. */
const KEPT_MS = 7 * 24 * HOUR_MS;

/** The largest number of versions that are kept of a problem: the latest ones. */
const MAX_VERSIONS = 5;

/** The largest number of problems that a process remembers to have noted. */
const MAX_NOTED = 1_000;

/** The largest number of problems that are counted: if there are more, errors have no pattern. */
const MAX_PROBLEMS = 1_000;

/** The numbers of cells that are deleted together, and that are read at a time. */
const [DELETED, AT_ONCE] = [100, 500] as const;

/** The number of problems whose hours are read one by one. */
const FEW = 2;

/** The largest number of hours that are listed, of whatever problems: errors without a pattern have one each. */
const MAX_LISTED = 5_000;

/** The largest number of characters of a text that a cell keeps. A KV's holds 65,536 bytes. */
const MAX_TEXT = 1_000;

/** The time for which a problem is new, and the time without a failed attempt after which it may be over. */
const [NEW_MS, OVER_MS] = [HOUR_MS, HOUR_MS] as const;

/** The time for which a cell names a new problem: longer than it is new, since clocks differ. */
const NAMED_MS = 2 * HOUR_MS;

/** The largest number of events that are counted of a recent problem, and of such problems that are read at a time. */
const [MAX_COUNTED, READ_TOGETHER] = [100, 50] as const;

/** The kinds of the cells: the notes, those that are new, the failed attempts of an hour, the times of the last ones. */
const [NOTE, NEW, HOUR, LAST] = ["problem", "problemNew", "problemHour", "problemLast"] as const;

/**
 * Problem: errors of one handler that differ by ids, numbers and what is quoted.
 *
 * @category Event store and worker
 */
export interface Problem {
  /** Its id. */
  readonly id: string;
  /** The number of its dead events. */
  readonly dead: BoundedCount;
  /** The number of its events that are tried again. */
  readonly retrying: BoundedCount;
  /** The text of an error of it. */
  readonly error: string;
  /** The handler, or the type of its events if that is not known. */
  readonly handler: string;
  /** The intake of its events, or their source. */
  readonly source: string;
  /** The time at which an attempt has failed by it first, milliseconds since the epoch. */
  readonly firstAt: number;
  /** The time at which an attempt has failed by it last, milliseconds since the epoch. */
  readonly lastAt: number;
  /** The versions of the code that have met it, the latest last; none if apps have no version. */
  readonly versions: readonly string[];
  /** The numbers of attempts that have failed by it in the last hours, the current one last. */
  readonly hours: readonly number[];
}

/**
 * Problems that have events.
 *
 * @category Event store and worker
 */
export interface ProblemList {
  /** The first ones, those with the most events first. */
  readonly problems: readonly Problem[];
  /** The number of all of them. */
  readonly count: BoundedCount;
}

/**
 * Choice of problems.
 *
 * @category Event store and worker
 */
export interface ProblemOptions {
  /** The id of the only one that is meant. */
  readonly id?: string | undefined;
  /** The largest number of them. */
  readonly limit?: number | undefined;
  /** The largest number of events that is counted of each. */
  readonly max?: number | undefined;
  /** The number of hours of which attempts are told: up to 72. */
  readonly hours?: number | undefined;
}

/** Parts of a problem that a cell keeps. */
interface Note extends Pick<Problem, "error" | "handler" | "source" | "firstAt" | "versions"> {
  /** The version of the cell's form. */
  readonly v: 1;
  /** The time at which it has come back last, after it was over; undefined if it has not. */
  readonly backAt?: number | undefined;
}

const isNote = shape<Note>({
  v: (value) => value === 1,
  error: isText,
  handler: isText,
  source: isText,
  firstAt: isTime,
  versions: listOf(isText),
  backAt: orNone(isTime),
});

/** The part of a change that notes a failed attempt. */
export interface NotedAttempt {
  readonly sums: readonly SumChange[];
}

/** The problems of a store. */
export class Problems {
  readonly #core: StoreCore;
  /** The hours in which this process has noted problems last, by their ids. */
  readonly #noted = new Map<string, number>();
  /** Notes that are being written, by the ids of their problems: many attempts may fail at the same time. */
  readonly #noting = new Map<string, Promise<void>>();

  constructor(core: StoreCore) {
    this.#core = core;
  }

  /**
   * Notes the problem of an attempt that has failed, once in an hour, and makes the part of the change that notes the
   * attempt.
   *
   * @param after The record of its event after the attempt.
   * @param handler The handler that has failed; undefined if it is not known.
   * @returns The part; undefined if the attempt has not failed by a problem, since its event was cancelled.
   */
  async attempt(after: EventRecord, handler?: string): Promise<NotedAttempt | undefined> {
    const { problem: id, attempts } = after;
    const at = attempts.at(-1)?.endedAt;
    if (id === undefined || at === undefined) return undefined;
    await this.note(after, handler);
    return { sums: [{ key: hourKey(id, hourOf(at)), by: 1 }, { key: [LAST, id], to: at }] };
  }

  /**
   * Notes the problem of an event that has failed, here or in another store, unless this process has done so in the hour of
   * its last attempt.
   *
   * @param record The record of the event.
   * @param handler The handler that has failed; undefined if it is not known.
   */
  async note(record: EventRecord | PortableRecord, handler?: string): Promise<void> {
    const { problem: id, attempts, intake, source, type, receivedAt } = record;
    if (id === undefined) return;
    const { error = "", endedAt: firstAt = receivedAt } = attempts.at(-1) ?? {};
    const hour = hourOf(firstAt);
    if (this.#noted.get(id) === hour) return;
    const origin = { source: intake ?? source, handler: cut(handler ?? type) };
    const noting = this.#noting.get(id) ??
      this.#note(id, { v: 1, error: cut(error), ...origin, firstAt, versions: [] }).finally(() => {
        this.#noting.delete(id);
      });
    this.#noting.set(id, noting);
    await noting;
    if (this.#noted.size >= MAX_NOTED) this.#noted.clear();
    this.#noted.set(id, hour);
  }

  /** Notes a problem, that this version has met it, or that it has come back. */
  async #note(id: string, first: Note): Promise<void> {
    const { engine, local } = this.#core;
    const version = local.listener?.version;
    const key: CellKey = [NOTE, id];
    const at = first.firstAt;
    await untilDone(async () => {
      const [{ value, version: before }, last] = await engine.cells([key, [LAST, id]]) as [
        Cell,
        Cell,
      ];
      // Another version has written it, and it is left as it is.
      if (before !== null && !isNote(value)) return true;
      const note = isNote(value) ? value : first;
      const lastAt = Math.max(numberIn(last.value), sinceOf(note));
      const isBack = before !== null && await this.#isOver(id, lastAt, at);
      const versions = withVersion(note.versions, version);
      if (before !== null && versions === note.versions && !isBack) return true;
      const after = { ...note, versions, ...(isBack && { backAt: at }) };
      const cells: CellChange[] = [{ key, version: before, after }];
      if (before === null || isBack) {
        cells.push({ key: [NEW, at, id], after: true, forMs: NAMED_MS });
      }
      return (await engine.apply({ cells, urgency: "work" })).ok || undefined;
    });
  }

  /** Checks whether a problem is over, by the time of the last attempt that has failed. */
  async #isOver(id: string, lastAt: number, now: number): Promise<boolean> {
    if (now - lastAt < OVER_MS) return false;
    return (await this.#core.engine.problems({ id, max: 1, problems: 1 })).length === 0;
  }

  /**
   * Reads the problems that are new, and those of some that are not over.
   *
   * @param told The ids of these.
   * @returns The problems.
   */
  async recent(told: readonly string[]): Promise<RecentProblem[]> {
    const { engine } = this.#core;
    const now = engine.now();
    const ids = new Set(told);
    const named = engine.list([NEW], { from: [NEW, now - NEW_MS], isReverse: true });
    for await (const { key: [, , id] } of named) {
      if (ids.add(String(id)).size >= told.length + MAX_PROBLEMS) break;
    }
    const all = [...ids];
    const found: RecentProblem[] = [];
    for (let i = 0; i < all.length; i += READ_TOGETHER) {
      found.push(...await this.#recent(all.slice(i, i + READ_TOGETHER), new Set(told), now));
    }
    return found;
  }

  async #recent(
    ids: readonly string[],
    told: ReadonlySet<string>,
    now: number,
  ): Promise<RecentProblem[]> {
    const { engine } = this.#core;
    const [cells, ...counts] = await Promise.all([
      engine.cells(ids.flatMap((id) => [[NOTE, id], [LAST, id], ...hourKeys(id, now)])),
      ...ids.map((id) => engine.problems({ id, max: MAX_COUNTED, problems: 1 })),
    ]);
    const width = cells.length / ids.length;
    return ids.flatMap((id, i) => {
      const [note, last, ...hours] = cells.slice(i * width, (i + 1) * width) as [
        Cell,
        Cell,
        ...Cell[],
      ];
      const [count] = counts[i]!;
      const known = isNote(note.value) ? note.value : undefined;
      const since = known ? sinceOf(known) : 0;
      const isNew = now - since < NEW_MS;
      // The time of a note is before that of its attempt.
      const isOver = !count && now - Math.max(numberIn(last.value), since) >= OVER_MS;
      if (told.has(id) ? isOver : !count || !isNew) return [];
      // Those of hours before are of an earlier time.
      const failed = hours.filter(({ key: [, hour] }) => Number(hour) >= hourOf(since))
        .reduce((sum, { value }) => sum + numberIn(value), 0);
      const { error = "", handler = "" } = known ?? {};
      const hasDead = (count?.dead.count ?? 0) > 0;
      return {
        id,
        error,
        handler,
        since,
        isBack: known?.backAt !== undefined,
        isNew,
        hasDead,
        failed,
      };
    });
  }

  /** Lists the problems that have events, those with the most first. */
  async list(
    { id, limit = 50, max = 100_000, hours = 24 }: ProblemOptions = {},
  ): Promise<ProblemList> {
    const { engine } = this.#core;
    const counts = id === undefined || isProblemId(id)
      ? await engine.problems({ id, max, problems: MAX_PROBLEMS + 1 })
      : [];
    const worst = [...counts].sort((a, b) => eventsOf(b) - eventsOf(a) || (a.id < b.id ? -1 : 1))
      .slice(0, limit);
    const [problems, isMore] = [await this.#told(worst, hours), counts.length > MAX_PROBLEMS];
    return { problems, count: { count: Math.min(counts.length, MAX_PROBLEMS), isMore } };
  }

  /** Reads what is noted of problems. */
  async #told(counts: readonly ProblemCount[], hours: number): Promise<Problem[]> {
    const { engine } = this.#core;
    const ids = counts.map(({ id }) => id);
    const [attempts, cells] = await Promise.all([
      this.#attemptsOf(ids, hours),
      engine.cells(ids.flatMap((id): CellKey[] => [[NOTE, id], [LAST, id]])),
    ]);
    return await Promise.all(counts.map(async (count, i) => {
      const [note, last] = [cells[2 * i]!.value, cells[2 * i + 1]!.value];
      const known = isNote(note) ? note : await this.#found(count.id);
      const { error, handler, source, firstAt, versions } = known;
      const about = { error, handler, source, firstAt, versions, hours: attempts[i]! };
      return { ...count, ...about, lastAt: Math.max(numberIn(last), firstAt) };
    }));
  }

  /** Reads how many attempts have failed by problems in the last hours, the current one last. */
  async #attemptsOf(ids: readonly string[], hours: number): Promise<number[][]> {
    const { engine } = this.#core;
    const first = hourOf(engine.now()) - hours + 1;
    const attempts = new Map(ids.map((id) => [id, new Array<number>(hours).fill(0)]));
    // Those of a few problems one by one, and otherwise those of all, unless these are too many.
    const listed = ids.length > FEW &&
      await allOf(engine.list([HOUR], { from: [HOUR, first], atOnce: AT_ONCE }), MAX_LISTED);
    const cells = listed || await engine.cells(
      ids.flatMap((id) => attempts.get(id)!.map((_, i) => hourKey(id, first + i))),
    );
    for (const { key: [, hour, id], value } of cells) {
      const of = attempts.get(String(id));
      const at = Number(hour) - first;
      // A clock may be ahead.
      if (of && at in of) of[at] = numberIn(value);
    }
    return ids.map((id) => attempts.get(id)!);
  }

  /** Takes what is told of a problem without a note from its latest event: it was imported, say. */
  async #found(id: string): Promise<Note> {
    const scan = this.#core.engine.scan({ filter: { problem: id }, isNewestFirst: true });
    for await (const { event } of scan) {
      const record = event?.record;
      if (record?.problem !== id) continue;
      const { intake, source, type, receivedAt, attempts } = record;
      const { error = "", endedAt: firstAt = receivedAt } = attempts.at(-1) ?? {};
      return { v: 1, error, handler: type, source: intake ?? source, firstAt, versions: [] };
    }
    return { v: 1, error: "", handler: "", source: "", firstAt: 0, versions: [] };
  }

  /** Forgets what is too old: hours, and problems without events. Returns the number of problems. */
  async tidy(): Promise<number> {
    const { engine } = this.#core;
    const now = engine.now();
    await this.#delete(engine.list([HOUR], { before: [HOUR, hourOf(now) - KEPT_HOURS] }));
    const deleted = await this.#delete(engine.list([NOTE]), (notes) => this.#over(notes, now));
    // Each with the time of its last attempt.
    return deleted / 2;
  }

  /** Finds those of some notes whose problems have had no events for long, and the times of their last attempts. */
  async #over(notes: readonly Cell[], now: number): Promise<Cell[]> {
    const { engine } = this.#core;
    const lasts = await engine.cells(notes.map(({ key }) => [LAST, String(key.at(-1))]));
    const over: Cell[] = [];
    for (const [i, note] of notes.entries()) {
      if (note.value === undefined || numberIn(lasts[i]!.value) > now - KEPT_MS) continue;
      const limits = { id: String(note.key.at(-1)), max: 1, problems: 1 };
      if ((await engine.problems(limits)).length === 0) over.push(note, lasts[i]!);
    }
    return over;
  }

  /** Deletes cells, or those that are meant by them. Returns their number. */
  async #delete(
    cells: AsyncIterable<Cell>,
    meantOf: (some: readonly Cell[]) => readonly Cell[] | Promise<readonly Cell[]> = (some) => some,
  ): Promise<number> {
    const { engine } = this.#core;
    let deleted = 0;
    let some: Cell[] = [];
    const end = async () => {
      const changes = (await meantOf(some)).map(({ key }) => ({ key, after: null }));
      if (changes.length > 0) await engine.apply({ cells: changes, urgency: "work" });
      deleted += changes.length;
      some = [];
    };
    for await (const cell of cells) {
      if (some.push(cell) >= DELETED) await end();
    }
    await end();
    return deleted;
  }
}

/** Reads cells; undefined if they are more than a number. */
async function allOf(cells: AsyncIterable<Cell>, max: number): Promise<Cell[] | undefined> {
  const read: Cell[] = [];
  for await (const cell of cells) {
    if (read.push(cell) > max) return undefined;
  }
  return read;
}

function cut(text: string): string {
  return text.slice(0, MAX_TEXT);
}

function hourOf(time: number): number {
  return Math.floor(time / HOUR_MS);
}

function hourKey(id: string, hour: number): CellKey {
  return [HOUR, hour, id];
}

/** Makes the keys of the last two hours. */
function hourKeys(id: string, now: number): CellKey[] {
  return [hourKey(id, hourOf(now) - 1), hourKey(id, hourOf(now))];
}

/** Finds the time at which a problem has come up, or come back. */
function sinceOf({ firstAt, backAt = firstAt }: Note): number {
  return backAt;
}

function eventsOf({ dead, retrying }: ProblemCount): number {
  return dead.count + retrying.count;
}

function numberIn(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** Adds a version to those that have met a problem. Returns the same list if it is the last one already. */
function withVersion(versions: readonly string[], version: string | undefined): readonly string[] {
  if (version === undefined || versions.at(-1) === version) return versions;
  return [...versions.filter((each) => each !== version), version].slice(-MAX_VERSIONS);
}
