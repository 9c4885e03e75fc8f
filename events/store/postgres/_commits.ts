import {
  type Applied,
  type Change,
  NoTurnError,
  type Put,
  type Stored,
  type Version,
} from "../engine.ts";
import { type EventRecord, isOpen } from "../event_record.ts";
import { textArray } from "./_arrays.ts";
import { ChangeMaking, type Refused, RefusedError } from "../sql/change_making.ts";
import { forgetAt } from "../sql/rows.ts";
import {
  type Connections,
  FREE_MS,
  isPassing,
  isTooLong,
  LostTransactionError,
  type Session,
  sqlStateOf,
  type Transaction,
} from "./_connections.ts";
import { Lane } from "./_lanes.ts";
import {
  DELETE_FORGOTTEN,
  INSERT_EVENTS,
  INSERT_NEW_EVENTS,
  insertedValues,
  loneValues,
  type LoneWrite,
  UPDATE_LONE_EVENTS,
} from "./_rows.ts";
import { type Met, needsOf } from "./_needs.ts";
import { keyText } from "../sql/key_texts.ts";
import { HandlersTransaction, type PostgresTx } from "./_tx.ts";
import { AgainError, PART_BYTES, WorkingSet } from "./_working_set.ts";

/** The number of tries of a transaction that meets others. */
const MAX_TRIES = 20;

/**
 * Time after which a lease may have been renewed while its change has waited for a connection, and after which nobody
 * may wait for the change any more, in milliseconds: opening a connection takes some time.
 */
const [WAITED_MS, LATE_MS] = [50, 1_000] as const;

/** Longest time that the effects of an event take, in milliseconds: those that never end would keep their connection. */
const EFFECTS_MS = 30_000;

/** A change, and the version of what it writes. */
interface Making {
  readonly change: Change;
  readonly version: Version;
}

/** Parts of {@linkcode Commits}. */
interface CommitsParts {
  readonly db: Connections;
  readonly now: () => number;
  readonly newVersion: () => Version;
  /** Called after each change that should wake workers of other processes. */
  readonly announced: () => void;
}

/**
 * The commits of an engine. Most changes are of one event alone, outside of ordering groups: those share a statement that
 * checks by itself what they depend on. Others share a transaction, which locks and reads what they need, and writes
 * what has become of it. A handler's transaction is its own.
 */
export class Commits {
  readonly #db: Connections;
  readonly #now: () => number;
  readonly #newVersion: () => Version;
  readonly #announced: () => void;
  readonly #inserts = new Lane<Put, Applied | undefined>((puts) => this.#insertAll(puts));
  // An id of one's own may be that of an event in a transaction which is not committed: then it is waited for.
  readonly #emissions = new Lane<Put, Applied | undefined>((puts) => this.#insertAll(puts));
  readonly #updates = new Lane<Put, Applied | undefined>((puts) => this.#updateAll(puts));
  readonly #intake = new Lane<Making, Applied>((all, waitedMs) => this.#makeAll(all, waitedMs));
  readonly #work = new Lane<Making, Applied>((all, waitedMs) => this.#makeAll(all, waitedMs));

  constructor({ db, now, newVersion, announced }: CommitsParts) {
    this.#announced = announced;
    this.#db = db;
    this.#now = now;
    this.#newVersion = newVersion;
  }

  /** Makes a change, see `Engine.apply`. */
  async apply(change: Change<PostgresTx>): Promise<Applied> {
    const applied = await this.#apply(change as Change, change.effects);
    if (change.announce && applied.ok) this.#announced();
    return applied;
  }

  /** Makes a change of which a function writes a part itself, see `Engine.transact`. */
  async transact(make: (tx: PostgresTx) => Change | Promise<Change>): Promise<Applied> {
    let made: Change | undefined;
    const applied = await this.#inTransaction(async (tx) => made = await make(tx));
    if (made?.announce && applied.ok) this.#announced();
    return applied;
  }

  async #apply(
    change: Change,
    effects: ((tx: PostgresTx) => unknown) | undefined,
  ): Promise<Applied> {
    const { withinMs, urgency } = change;
    if (effects) return await this.#withEffects(change, effects);
    const put = onlyPutOf(change);
    // It may wait, and nothing that shares a transaction with others may.
    if (!put && change.puts?.some(isChosen)) {
      return await this.#inTransaction(() => change, change, false);
    }
    if (put) {
      const inserts = urgency === "intake" ? this.#inserts : this.#emissions;
      const lane = "must" in put.before ? inserts : this.#updates;
      const applied = await lane.add(put, { withinMs, bytes: put.body?.byteLength ?? 0 });
      if (applied) return applied;
    }
    const lane = urgency === "intake" ? this.#intake : this.#work;
    const bytes = change.puts?.reduce((sum, { body }) => sum + (body?.byteLength ?? 0), 0);
    return await lane.add({ change, version: this.#newVersion() }, { withinMs, bytes });
  }

  /** Stores new events whose payloads fit their rows. Of one whose id is known the result is undefined. */
  async #insertAll(puts: readonly Put[]): Promise<(() => Applied | undefined)[]> {
    const now = this.#now();
    const rows = this.#newRows(puts, now);
    return await this.#writeAll(rows, (written, isAgain) =>
      // A forgotten event that has the id by now may be the one that the first statement has stored.
      this.#db.all(INSERT_EVENTS, ...insertedValues(isAgain ? -Infinity : now, written)));
  }

  /**
   * Stores new events in somebody else's transaction, see `Engine.insertIn`. It locks no event that has an id already: all
   * that changes the event would wait until the transaction ends.
   */
  async insertIn(tx: PostgresTx, puts: readonly Put[]): Promise<(Stored | null)[]> {
    const now = this.#now();
    const rows = this.#newRows(puts, now).filter((row) => row !== undefined);
    const sql = this.#db.statement(INSERT_NEW_EVENTS);
    const values = insertedValues(now, rows).slice(1);
    const insert = async () => (await tx.query<{ id: string }>(sql, values)).rows;
    const added = await insert();
    if (added.length < rows.length) {
      const forgotten = this.#db.statement(DELETE_FORGOTTEN);
      const { rowCount } = await tx.query(forgotten, [
        now,
        textArray(rows.map(({ record }) => keyText(record.id))),
      ]);
      if (rowCount) added.push(...await insert());
    }
    const ids = new Set(added.map(({ id }) => id));
    return rows.map(({ record, version }) =>
      ids.has(keyText(record.id)) ? { record, version } : null
    );
  }

  /** Makes the rows of new events; undefined for one that is not among them, since its payload or its id is elsewhere. */
  #newRows(puts: readonly Put[], now: number) {
    const ids = new Set<string>();
    return puts.map((put) => {
      const record = put.after!({ now });
      if (!record.payload || record.problem !== undefined || ids.has(record.id)) return undefined;
      ids.add(record.id);
      return { ...columnsOf(record, put, now, this.#newVersion()), body: put.body! };
    });
  }

  /** Changes events that are in no group. Of one that has another version, say, the result is undefined. */
  async #updateAll(puts: readonly Put[]): Promise<(() => Applied | undefined)[]> {
    const now = this.#now();
    const ids = new Set<string>();
    const rows = puts.map((put): LoneWrite | undefined => {
      const { record: before, version: expected } = put.before as {
        record: EventRecord;
        version: Version;
      };
      const record = put.after!({ now });
      const isMore = record.group || record.receivedAt !== before.receivedAt ||
        record.payload && record.payload.id !== before.payload?.id ||
        record.problem !== before.problem;
      if (isMore || ids.has(record.id)) return undefined;
      ids.add(record.id);
      const columns = columnsOf(record, put, now, this.#newVersion());
      return { ...columns, expected, via: put.via?.at ?? null };
    });
    return await this.#writeAll(
      rows,
      (written) => this.#db.all(UPDATE_LONE_EVENTS, ...loneValues(written)),
    );
  }

  /**
   * Writes events by one statement, and leaves out those that are undefined or that it has refused.
   *
   * If it is not answered, it is run again. It waits for the first one then, should that still run, and writes what that one
   * has not written. What neither seems to have written, the first one has if the version is there. Otherwise somebody
   * may have changed the event since, and it is not known.
   */
  async #writeAll<TRow extends { readonly record: EventRecord; readonly version: Version }>(
    rows: readonly (TRow | undefined)[],
    run: (written: TRow[], isAgain: boolean) => Promise<{ readonly id: string }[]>,
  ): Promise<(() => Applied | undefined)[]> {
    const written = rows.filter((row) => row !== undefined);
    if (written.length === 0) return outcomes(rows, []);
    return await this.#db.repeatable(
      async () => outcomes(rows, await this.#again(() => run(written, false))),
      async (lost) => {
        const again = await this.#again(() => run(written, true));
        return outcomes(rows, [...again, ...await this.#found(written)], lost);
      },
    );
  }

  /** Finds the ids of events that have the versions which were written. */
  async #found(
    rows: readonly { readonly record: EventRecord; readonly version: Version }[],
  ): Promise<{ readonly id: string }[]> {
    return await this.#db.all(
      "select id from @event where id = any($1::text[]) and version = any($2::text[])",
      textArray(rows.map(({ record }) => keyText(record.id))),
      textArray(rows.map(({ version }) => version)),
    );
  }

  /** Makes changes in one transaction. If it fails, each is made alone. */
  async #makeAll(
    makings: readonly Making[],
    waitedMs: readonly number[],
  ): Promise<(() => Applied)[]> {
    const isInTime = makings.map(({ change }, i) => !hasNoTurn(change, waitedMs[i]!));
    const inTime = makings.filter((_, i) => isInTime[i]);
    const results = await this.#makeTogether(inTime);
    return isInTime.map((isIn) => isIn ? results.shift()! : throwing(new NoTurnError(LATE)));
  }

  async #makeTogether(makings: readonly Making[]): Promise<(() => Applied)[]> {
    if (makings.length === 0) return [];
    try {
      const made = await this.#make(makings);
      return made.map((applied) => () => applied);
    } catch (error) {
      if (makings.length === 1 || sqlStateOf(error) === undefined) {
        return makings.map(() => throwing(error));
      }
      const results: (() => Applied)[] = [];
      for (const making of makings) results.push(...await this.#makeTogether([making]));
      return results;
    }
  }

  async #make(makings: readonly Making[]): Promise<Applied[]> {
    const trying = new Trying(makings);
    return await this.#again(
      // One statement needs no transaction around it.
      () =>
        makings.length === 1 && isOfOneCell(makings[0]!.change)
          ? trying.make(this.#db, this.#now())
          : this.#db.transaction((tx) => trying.make(tx, this.#now())),
      trying,
    );
  }

  /** Tries again while others are in the way. */
  async #again<T>(make: () => Promise<T>, trying?: Trying): Promise<T> {
    for (let tries = 1;; tries++) {
      try {
        return await make();
      } catch (error) {
        const met = error instanceof RefusedError ? error.refused.error : error;
        if (tries >= MAX_TRIES || !(isPassing(met) || trying?.hasMet(error))) throw error;
      }
    }
  }

  async #withEffects(
    change: Change,
    effects: (tx: PostgresTx) => unknown,
  ): Promise<Applied> {
    return await this.#inTransaction(async (tx) => {
      await inTime(effects(tx));
      return change;
    }, change);
  }

  /**
   * Makes a change in the transaction of a handler. Its statements come first, while nobody else waits for what they
   * lock, except for others of the handler's kind. The event is locked last.
   */
  async #inTransaction(
    make: (tx: PostgresTx) => Change | Promise<Change>,
    known?: Change,
    hasEffects = true,
  ): Promise<Applied> {
    const start = performance.now();
    let waitedMs = 0;
    const checkTurn = () => {
      waitedMs = performance.now() - start;
      const isLate = known && waitedMs > LATE_MS && hasNoTurn(known, waitedMs);
      if (isLate) throw new NoTurnError(LATE);
    };
    try {
      return await this.#again(() =>
        this.#db.transaction(async (tx) => {
          if (known && hasEffects) await this.#checkBefore(tx, known, waitedMs);
          const change = await HandlersTransaction.call(tx, make);
          const early = earlyOf(change);
          const stored = await this.#insertEarly(tx, early);
          const puts = change.puts?.filter((put) => !early.includes(put));
          const applied = await this.#makeLast(tx, { ...change, puts });
          return inOrder(change, applied, new Map(early.map((put, i) => [put, stored[i]!])));
        }, { isHandlers: true, checkTurn, freeMs: known ? undefined : FREE_MS })
      );
    } catch (error) {
      if (error instanceof RefusedError) return error.refused;
      // A deferred constraint, say, fails the commit. So do statements that nobody has waited for.
      if (isOfHandler(error)) return { ok: false, why: "effects", error };
      throw error;
    }
  }

  /** Refuses a change before its effects are called, if it would be refused after them anyway. */
  async #checkBefore(tx: Transaction, change: Change, waitedMs: number): Promise<void> {
    const needs = needsOf([change], noneMet());
    const set = await WorkingSet.read(tx, needs, { now: this.#now(), isLocking: false });
    // Only while it waits, or its effects run, may the event change.
    const turn = waitedMs > WAITED_MS ? change.turn : undefined;
    const refused = new ChangeMaking(set, { ...change, turn }, "").check();
    if (refused) throw new RefusedError(refused);
  }

  /** Stores events, of which one may have to wait: nothing is locked before. */
  async #insertEarly(tx: Transaction, puts: readonly Put[]): Promise<(Stored | null)[]> {
    if (puts.length === 0) return [];
    const query = (text: string, values: unknown) => tx.client.query({ text, values });
    return await this.insertIn({ query } as PostgresTx, puts);
  }

  async #makeLast(tx: Transaction, change: Change): Promise<Applied> {
    const trying = new Trying([{ change, version: this.#newVersion() }]);
    await tx.run("savepoint handled");
    const [applied] = await this.#again(async () => {
      try {
        return await trying.make(tx, this.#now());
      } catch (error) {
        if (error instanceof AgainError || isPassing(error)) await tx.run("rollback to handled");
        throw error;
      }
    }, trying);
    if (!applied!.ok) throw new RefusedError(applied!);
    return applied!;
  }
}

/** Changes of which a transaction is made, and what the tries so far have met. */
class Trying {
  readonly #makings: readonly Making[];
  readonly #met = noneMet();
  readonly #refused = new Map<Making, Refused>();

  constructor(makings: readonly Making[]) {
    this.#makings = makings;
  }

  /** Makes the changes. Returns their outcomes: of those that are refused nothing is written. */
  async make(tx: Session, now: number): Promise<Applied[]> {
    const changes = this.#makings.map(({ change }) => change);
    const { lost } = this.#met;
    const set = await WorkingSet.read(tx, needsOf(changes, this.#met), { now, lost });
    const applied = this.#makings.map((making) => this.#makeOne(set, making));
    await set.write(tx);
    return applied;
  }

  #makeOne(set: WorkingSet, making: Making): Applied {
    const known = this.#refused.get(making);
    if (known) return known;
    const one = new ChangeMaking(set, making.change, making.version);
    const refused = one.check();
    if (refused) return refused;
    try {
      return one.write();
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      // A part of it is among the rows already.
      this.#refused.set(making, error.refused);
      throw new AgainError();
    }
  }

  /** Notes what a try has met. Returns true if another one may succeed. */
  hasMet(error: unknown): boolean {
    if (!(error instanceof AgainError)) return false;
    const { group, lost = [] } = error.met;
    if (group !== undefined) this.#met.groups.add(group);
    for (const id of lost) this.#met.lost.add(id);
    return true;
  }
}

const LATE = "other changes were before it";

function noneMet(): Met {
  return { groups: new Set(), lost: new Set() };
}

/** Finds the put of a change that has nothing else, and that a statement can make which checks by itself. */
function onlyPutOf(change: Change): Put | undefined {
  const { puts, unchanged, moves, cells, sums, drops } = change;
  const put = puts?.length === 1 ? puts[0]! : undefined;
  if (!put?.after || put.joins !== undefined || put.keeps) return undefined;
  if ([unchanged, moves, cells, sums, drops].some((part) => part?.length)) return undefined;
  const { before, body } = put;
  if ("must" in before) return body && body.byteLength <= PART_BYTES ? put : undefined;
  return before.record && isOpen(before.record) && !before.record.group && !body ? put : undefined;
}

/** Checks for a new event that is left out if another one has its id. */
function isChosen({ before }: Put): boolean {
  return "must" in before && before.must === "skip";
}

/**
 * Finds the new events of a change that are stored before the rest, if one has an id of one's own: an open transaction of
 * somebody else may have that. The others are stored with it, so that all are due at the same time.
 */
function earlyOf({ puts = [] }: Change): readonly Put[] {
  if (!puts.some(isChosen)) return [];
  return puts.filter((put) =>
    isChosen(put) || ("must" in put.before && put.before.must === "free")
  );
}

/** Puts events that were stored before the rest of a change among what that has written, in the order of all puts. */
function inOrder(
  { puts = [] }: Change,
  applied: Applied,
  early: ReadonlyMap<Put, Stored | null>,
): Applied {
  if (!applied.ok || early.size === 0) return applied;
  const others = applied.written.values();
  const written = puts.map((put) => early.has(put) ? early.get(put)! : others.next().value ?? null);
  return { ...applied, written };
}

/** Checks for a change of a cell that depends on nothing, such as the note of a process. */
function isOfOneCell({ puts, unchanged, moves, cells, sums, drops }: Change): boolean {
  if (cells?.length !== 1 || cells[0]!.version !== undefined) return false;
  return ![puts, unchanged, moves, sums, drops].some((part) => part?.length);
}

function columnsOf(record: EventRecord, { forMs }: Put, now: number, version: Version) {
  return {
    ...{ record, version, own_due_at: record.dueAt, other_due_at: null, group_key: null },
    ...{ position: null, payload: null, forget_at: forgetAt(record, now, forMs) },
  };
}

function outcomes(
  rows: readonly ({ readonly record: EventRecord; readonly version: Version } | undefined)[],
  written: readonly { readonly id: string }[],
  lost?: unknown,
): (() => Applied | undefined)[] {
  const ids = new Set(written.map(({ id }) => id));
  return rows.map((row) => () => {
    if (!row) return undefined;
    if (!ids.has(keyText(row.record.id))) {
      if (lost) throw lost;
      return undefined;
    }
    const { record, version } = row;
    return { ok: true, version, written: [{ record, version }] };
  });
}

/** Checks for a change that has waited for its turn for too long. */
function hasNoTurn({ turn }: Change, waitedMs: number): boolean {
  return turn !== undefined && ((turn.signal?.aborted ?? false) || waitedMs > turn.withinMs);
}

function throwing(error: unknown): () => never {
  return () => {
    throw error;
  };
}

/** Checks for an error that is the fault of a handler's statements, and not of the database. */
function isOfHandler(error: unknown): boolean {
  if (error instanceof LostTransactionError) return isTooLong(error);
  const code = sqlStateOf(error);
  return code !== undefined && /^(?:2[0-9]|4[024]|P0)/.test(code);
}

/** Waits for the effects of an event, but not for ever. */
async function inTime(effects: unknown): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new Error(`What settleWith() does has not ended within ${EFFECTS_MS / 1_000} s`);
    timer = setTimeout(reject, EFFECTS_MS, error);
  });
  try {
    await Promise.race([effects, late]);
  } finally {
    clearTimeout(timer);
  }
}
