import { encodeCellKey } from "../cell_key.ts";
import type {
  Applied,
  Bytes,
  CellChange,
  Change,
  Due,
  LeavingMember,
  Move,
  Put,
  Stored,
  SumChange,
  Unreadable,
  Version,
} from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import { forgetAt } from "./_rows.ts";
import { keyText, textOfKey } from "./_texts.ts";
import {
  AgainError,
  type Needs,
  PART_BYTES,
  type SetEvent,
  type WorkingSet,
} from "./_working_set.ts";

/** Outcome of a change that is refused. */
export type Refused = Extract<Applied, { readonly ok: false }>;

/** Thrown if a change is refused of which a part is written. */
export class RefusedError extends Error {
  constructor(readonly refused: Refused) {
    super(refused.why);
  }
}

/** The rest of a put, of which its row follows. */
type Writing = Pick<Put, "before" | "body" | "keeps" | "forMs" | "joins" | "via">;

/** An event of a change: its put, and the event before; undefined for a new one. */
interface Putting {
  readonly put: Put;
  readonly event: SetEvent | undefined;
}

/** Rows that a try before has met. */
export interface Met {
  /** Groups that must be locked, encoded. */
  readonly groups: Set<string>;
  /** Payloads that are not there. */
  readonly lost: Set<string>;
}

/**
 * Finds what changes need.
 *
 * @param changes The changes.
 * @param met What an earlier try has met.
 * @returns The rows that are read before the changes are made.
 */
export function needsOf(changes: readonly Change[], met: Met): Needs {
  const needs: Needs = {
    ...{ ids: new Set(), groups: new Map(), cells: new Map(), payloads: new Set() },
  };
  for (const key of met.groups) needGroup(needs, key, {});
  for (const { puts = [], unchanged = [], moves = [], cells = [], leave } of changes) {
    for (const put of puts) {
      const { before, joins, body, keeps } = put;
      if (!("must" in before && before.must === "free")) needs.ids.add(keyText(idOf(before)));
      if (joins !== undefined) needGroup(needs, keyText(joins), {});
      if ("must" in before) {
        if (!body && keeps) needs.payloads.add(keyText(keeps.id));
      } else if (leave && before.record?.group) {
        needGroup(needs, keyText(before.record.group.key), { ...leave, leaving: 1 });
      }
    }
    for (const { record } of unchanged) needs.ids.add(keyText(record.id));
    for (const { event } of moves) needs.ids.add(keyText(event.id));
    for (const { key, version } of cells) {
      // Others are written over, whatever they are.
      if (version === undefined) continue;
      const bytes = encodeCellKey(key);
      needs.cells.set(bytes.toHex(), bytes);
    }
  }
  // Whatever else is among them, at most as many leave as there are events that are changed.
  for (const key of met.groups) needs.groups.get(key)!.leaving += needs.ids.size;
  return needs;
}

function needGroup(
  { groups }: Needs,
  key: string,
  { through = -Infinity, leaving = 0 }: {
    readonly through?: number | undefined;
    readonly leaving?: number;
  },
): void {
  const group = groups.get(key) ?? { through: -Infinity, leaving: 0 };
  group.through = Math.max(group.through, through);
  group.leaving += leaving;
  groups.set(key, group);
}

/** A change, while it is made of rows that were read. */
export class ChangeMaking {
  readonly #set: WorkingSet;
  readonly #change: Change;
  readonly #version: Version;
  readonly #lost: ReadonlySet<string>;
  /** The events of the puts; null for one that is left out. */
  readonly #puttings: (Putting | null)[] = [];
  /** The groups that events leave, and whether their first one does. */
  #left: Map<string, boolean> | undefined;

  constructor(set: WorkingSet, change: Change, version: Version, lost: ReadonlySet<string>) {
    this.#set = set;
    this.#change = change;
    this.#version = version;
    this.#lost = lost;
  }

  /** Checks all that the change depends on. Returns the reason for which it is refused. */
  check(): Refused | undefined {
    const { puts = [], unchanged = [], cells = [], moves = [] } = this.#change;
    for (const put of puts) {
      const refused = this.#checkPut(put);
      if (refused) return refused;
    }
    for (const { record, version } of unchanged) {
      const found = this.#set.event(record.id)?.event;
      if (found?.version !== version) return { ok: false, why: "event", found };
    }
    for (const { event, via } of moves) {
      if (via && !leadsTo(this.#set.event(event.id), via)) return { ok: false, why: "via" };
    }
    const isAsExpected = ({ key, version }: CellChange) =>
      version === undefined || this.#set.versionOf(encodeCellKey(key)) === version;
    return cells.every(isAsExpected) ? undefined : { ok: false, why: "cell" };
  }

  /** Writes the change into the rows. */
  write(): Applied {
    const { moves = [], cells = [], sums = [], drops = [] } = this.#change;
    const written: (Stored | null)[] = this.#puttings.map((putting, i) =>
      putting && putting.put.joins === undefined ? this.#put(putting, i === 0) : null
    );
    for (const move of moves) this.#leaveByMove(move);
    const head = this.#moveUp();
    // An event that joins comes last: whether it is the first one depends on those that leave.
    for (const [i, putting] of this.#puttings.entries()) {
      if (putting?.put.joins !== undefined) written[i] = this.#join(putting, putting.put.joins);
    }
    for (const move of moves) this.#move(move);
    this.#writeCells(cells);
    this.#addToSums(sums);
    for (const { id } of drops) this.#set.deletePayload(id);
    return { ok: true, version: this.#version, written, head };
  }

  #checkPut(put: Put, isAgain = false): Refused | undefined {
    const { before, via } = put;
    if ("must" in before) return this.#checkNew(put, before);
    const event = this.#set.event(idOf(before));
    if (event?.event.version !== before.version) {
      const found = event?.event;
      const again = found?.record && this.#puttings.length === 0 && !isAgain
        ? this.#change.turn?.again?.(found)
        : undefined;
      return again ? this.#checkPut(again, true) : { ok: false, why: "event", found };
    }
    if (via && !leadsTo(event, via)) return { ok: false, why: "via" };
    this.#puttings.push({ put, event });
    return undefined;
  }

  #checkNew(
    put: Put,
    { id, must }: Extract<Put["before"], { readonly must: unknown }>,
  ): Refused | undefined {
    const event = must === "free" ? undefined : this.#set.event(id);
    if (event && must !== "skip") return { ok: false, why: "id", found: event.event };
    const payload = put.body ? undefined : put.keeps;
    if (payload && !this.#set.hasPayload(keyText(payload.id))) return { ok: false, why: "payload" };
    this.#puttings.push(event ? null : { put, event: undefined });
    return undefined;
  }

  /** Makes a put that joins no group. Returns its event; null if it was deleted, or its id is known by now. */
  #put({ put, event }: Putting, isFirst: boolean): Stored | null {
    if (!event && this.#isKnownByNow(put)) return null;
    const after = put.after?.({ now: this.#set.now }) ?? null;
    if (event && leaves(event, after)) this.#leave(event, isFirst);
    return this.#write(put, event, after);
  }

  /** Checks whether an earlier put of the same change has the id. */
  #isKnownByNow({ before }: Put): boolean {
    return this.#puttings.length > 1 && this.#set.event(idOf(before)) !== undefined;
  }

  /** Makes a put that joins a group. */
  #join({ put, event }: Putting, joined: string): Stored | null {
    if (!event && this.#isKnownByNow(put)) return null;
    const key = keyText(joined);
    const isFirst = !this.#set.isOccupied(key);
    const position = this.#set.nextPosition(key);
    const after = put.after!({ now: this.#set.now, group: { key: joined, position }, isFirst });
    if (after.quiet) this.#set.noteJoined(key, after.quiet.since);
    return this.#write(put, event, after);
  }

  /** Writes an event, and what follows for its payload. */
  #write(
    put: Writing,
    event: SetEvent | undefined,
    after: EventRecord | null,
    mayBeKnown = false,
  ): Stored | null {
    const body = this.#placePayload(put, event, after);
    if (!after) {
      if (event) this.#set.delete(event);
      return null;
    }
    const { via, joins, forMs } = put;
    const { now } = this.#set;
    const isOther = via !== undefined && event !== undefined && event.other_due_at !== null &&
      event.other_due_at <= via.at;
    // A record may name a position that a move has taken from it: only joining gives one.
    const isIn = joins !== undefined || event !== undefined && !leaves(event, after);
    const { key, position } = joins === undefined ? inGroup(event) : after.group!;
    const columns = {
      version: this.#version,
      own_due_at: after.dueAt,
      other_due_at: isOther ? null : event?.other_due_at ?? null,
      group_key: isIn && key !== null ? keyText(key) : null,
      position: isIn ? position : null,
      payload: body === null && after.payload ? keyText(after.payload.id) : null,
      forget_at: forgetAt(after, now, forMs),
    };
    // A payload that stays where it is stays in the row.
    this.#set.put(event, after, columns, event ? body : body ?? null, mayBeKnown);
    return { record: after, version: this.#version };
  }

  /** Puts a payload into its place. Returns what the row gets: undefined if it has its payload already, null for none. */
  #placePayload(
    { body, keeps }: Writing,
    event: SetEvent | undefined,
    after: EventRecord | null,
  ): Bytes | null | undefined {
    const { id } = after?.payload ?? keeps ?? {};
    const before = event?.payload === null || event === undefined ? null : textOfKey(event.payload);
    if (before !== null && before !== id) this.#set.deletePayload(before);
    if (id === undefined || id === before) return null;
    if (body) {
      if (after?.payload && body.byteLength <= PART_BYTES) return body;
      this.#set.addPayload(id, body);
    } else if (event && before === null && event.event.record?.payload?.id === id) {
      if (after?.payload) return undefined;
      this.#set.takeOut(id, event.seq!);
    } else if (after) this.#takeUpload(id);
    return null;
  }

  #takeUpload(id: string): void {
    if (this.#lost.has(id)) throw new RefusedError({ ok: false, why: "payload" });
    this.#set.takeUpload(id);
  }

  /**
   * Notes that an event leaves its group. Those that leave together with it, if it is the first one, are written here.
   * Only once all of a change have left is the next one of a group looked for.
   */
  #leave(event: SetEvent, isFirstPut: boolean): void {
    const { through, member } = this.#change.leave ?? {};
    const key = event.group_key!;
    const members = this.#membersOf(key);
    const isFirst = members[0]!.id === event.id;
    this.#notice(key, isFirst);
    if (!isFirstPut || through === undefined || !member || !isFirst) return;
    for (const each of members.slice(1)) {
      const { record } = each.event;
      // One that cannot be read stays, and holds the group.
      if (each.position! <= through && record) this.#writeMember(each, member(record));
    }
  }

  #writeMember(event: SetEvent, { after, puts, cells, sums, ...rest }: LeavingMember): void {
    this.#write({ before: { id: event.id, must: "free" }, ...rest }, event, after);
    if (cells) this.#writeCells(cells);
    if (sums) this.#addToSums(sums);
    if (!puts) return;
    for (const put of puts) {
      if ("must" in put.before && !this.#set.event(put.before.id)) {
        this.#write(put, undefined, put.after!({ now: this.#set.now }), true);
      }
    }
  }

  #notice(key: string, isFirst: boolean): void {
    const left = this.#left ??= new Map();
    left.set(key, isFirst || left.get(key) === true);
  }

  /** Makes the next event of each group due that its first one has left. Returns that of the first put's group. */
  #moveUp(): Stored | undefined {
    let head: Stored | undefined;
    if (!this.#left) return undefined;
    const firstKey = this.#puttings[0]?.event?.group_key;
    for (const [key, hasFirstLeft] of this.#left) {
      const next = this.#set.membersOf(key)[0];
      if (!next || !hasFirstLeft) continue;
      const moved = this.#makeDue(next);
      if (key === firstKey) head = moved;
    }
    return head;
  }

  /** Makes the next event of a group due. One that cannot be read is due as it is, and holds the group. */
  #makeDue(event: SetEvent): Stored | undefined {
    const { record, version } = event.event;
    const { now } = this.#set;
    if (!record) {
      this.#set.set(event, { other_due_at: now });
      return undefined;
    }
    if (record.dueAt !== null) return undefined;
    const after = this.#change.leave!.head(record, now);
    return this.#write({ before: { record, version } }, event, after)!;
  }

  #leaveByMove({ event: { id }, leavesGroup }: Move): void {
    const event = leavesGroup ? this.#set.event(id) : undefined;
    if (!event || event.group_key === null) return;
    const key = event.group_key;
    this.#notice(key, this.#membersOf(key)[0]?.id === id);
    this.#set.set(event, { group_key: null, position: null });
  }

  #move({ event: { id, receivedAt }, afterMs, via }: Move): void {
    const event = this.#set.event(id);
    if (!event || event.receivedAt !== receivedAt) return;
    const without = (time: number | null) => via && time === via.at ? null : time;
    this.#set.set(event, {
      own_due_at: without(event.own_due_at),
      other_due_at: afterMs === null ? without(event.other_due_at) : this.#set.now + afterMs,
    });
  }

  #writeCells(cells: readonly CellChange[]): void {
    const { now } = this.#set;
    for (const { key, after, forMs, version } of cells) {
      if (after === undefined) continue;
      this.#set.writeCell(key, encodeCellKey(key), {
        value: after === null ? null : JSON.stringify(after),
        forgetAt: forMs === undefined ? null : now + forMs,
        version: this.#version,
        mustBeNew: version === null,
      });
    }
  }

  #addToSums(sums: readonly SumChange[]): void {
    for (const change of sums) {
      const isSet = "to" in change;
      const value = isSet ? change.to : change.by;
      const bytes = encodeCellKey(change.key);
      this.#set.addToSum({ key: change.key, bytes, value, isSet, version: this.#version });
    }
  }

  /** Returns the members of a group that is locked. */
  #membersOf(key: string): readonly SetEvent[] {
    if (!this.#set.hasGroup(key)) throw new AgainError({ group: key });
    return this.#set.membersOf(key);
  }
}

function inGroup(event: SetEvent | undefined): {
  readonly key: string | null;
  readonly position: number | null;
} {
  const key = event?.group_key ?? null;
  return { key: key === null ? null : textOfKey(key), position: event?.position ?? null };
}

/** Checks whether an event leaves its group if it gets a record. */
function leaves({ group_key, position }: SetEvent, after: EventRecord | null): boolean {
  if (group_key === null) return false;
  return after?.group?.key !== textOfKey(group_key) || after.group.position !== position;
}

/** Checks whether an entry of the schedule leads to an event as it did when it was found. */
function leadsTo(found: SetEvent | undefined, { at, event }: Due): boolean {
  if (!found) return event === undefined;
  return found.own_due_at === at || found.other_due_at === at;
}

function idOf(before: Put["before"]): string {
  return "must" in before ? before.id : before.record?.id ?? (before as Unreadable).id;
}
