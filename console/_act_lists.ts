/**
 * The lists of the events that acts on many have changed, which are kept beside the records of the acts: a list is
 * written before its events are changed, so it is there also if the process dies meanwhile.
 *
 * @module
 */
import { isCount, isOneOf, isText, listOf, shape } from "../core/shape.ts";
import type { EventStore, StoredEvent } from "../events/store/mod.ts";
import type {
  ConsoleRecordKey,
  ConsoleRecords,
  NewConsoleRecord,
} from "../events/store/own_cells.ts";
import { type Act, KEPT_MS } from "./_act_record.ts";
import { recordOf } from "./_format.ts";
import { askedAtOf } from "./_query.ts";

/** Most ids of a list, and most bytes that they take as JSON: a record of a KV has 65,536. */
const IDS_OF_LIST = 25;
const MAX_BYTES = 60_000;

/** Most bytes that UTF-8 takes for a unit of a text's length. */
const MAX_UTF8_BYTES = 3;

/** Most lists of an act: 100,000 events, of which the ids take some 5 MB. */
const MAX_LISTS = 4_000;

/** Lists of a part, which a page shows. */
const LISTS_OF_PART = 4;

/** List of events. */
interface ChangeList {
  /** Number of the first list of its step: the events of a step are changed together. */
  readonly step: number;
  /** Ids of the events that were changed, or are being changed. */
  readonly ids: readonly string[];
  /** Ids of those that were found, and had changed before their turn. */
  readonly left: readonly string[];
}

/** Event of an act. */
export interface ActedEvent {
  /** Id. */
  readonly id: string;
  /** Fate: the act changed the event, left it since it had changed before, or is at it. */
  readonly fate: "changed" | "left" | "underway";
  /** Event as it is now; undefined if it is gone. */
  readonly event?: StoredEvent | undefined;
}

/** Part of the events of an act. */
export interface ActedEvents {
  /** Act. */
  readonly act: Act;
  /** Events, in the order in which they were changed, at most 100. */
  readonly events: readonly ActedEvent[];
  /** Number of the part, from 1. */
  readonly part: number;
  /** Number of parts. */
  readonly parts: number;
  /** True if the act has changed more events than are listed. */
  readonly isCut: boolean;
}

const isList = shape({
  ...{ v: isOneOf([1]), step: isCount, ids: listOf(isText), left: listOf(isText) },
});

/** Lists of acts. */
export class ActLists {
  readonly #store: EventStore;
  readonly #records: ConsoleRecords;

  constructor(store: EventStore) {
    this.#store = store;
    this.#records = store.consoleRecords;
  }

  /**
   * Makes the records of a step's lists.
   *
   * @param act The act, with the number of the lists before.
   * @param ids The ids of the events.
   * @param left The ids of those that were not changed.
   * @returns The records; none if there are as many as are kept.
   */
  of(
    { id, lists = 0 }: Act,
    ids: readonly string[],
    left: readonly string[] = [],
  ): NewConsoleRecord[] {
    const all = listsOf(ids);
    if (lists + all.length > MAX_LISTS) return [];
    const wereLeft = new Set(left);
    return all.map((own, i) => {
      const value = {
        ...{ v: 1, step: lists, ids: own.filter((each) => !wereLeft.has(each)) },
        left: own.filter((each) => wereLeft.has(each)),
      };
      return { ...keyOf(id, lists + i), value, forMs: KEPT_MS };
    });
  }

  /**
   * Finds out how far an act had come that did not end its last step: from what has become of the events of that.
   *
   * @param act The act.
   * @returns The act, with the number of the events that it has changed, and the lists of the step without the others.
   * The act as it was, and none, if the step is not listed.
   */
  async settled(act: Act): Promise<{ readonly act: Act; readonly lists: NewConsoleRecord[] }> {
    const step = act.underway > 0 && !act.isCut ? await this.#lastStep(act) : [];
    const ids = step.flatMap((list) => list.ids);
    if (ids.length === 0) return { act, lists: [] };
    const now = await this.#eventsOf(ids);
    const made = ids.filter((id) => wasChanged(act, now.get(id)));
    // It may have noted a part of the step.
    const changed = act.changed + act.underway - (ids.length - made.length);
    const { step: before } = step[0]!;
    const lists = this.of({ ...act, lists: before }, made);
    return { act: { ...act, changed, underway: 0, lists: before + lists.length }, lists };
  }

  /** Reads a part of the events of an act, and how they stand now. */
  async part(act: Act, isOver: boolean, part: number): Promise<ActedEvents> {
    const { lists = 0 } = act;
    const parts = Math.max(1, Math.ceil(lists / LISTS_OF_PART));
    const first = (part - 1) * LISTS_OF_PART;
    const found = await this.#read(act.id, first, Math.min(lists, first + LISTS_OF_PART));
    const last = act.underway > 0 && !act.isCut ? await this.#lastStep(act) : [];
    const open = last[0]?.step ?? Infinity;
    const now = await this.#eventsOf(found.flatMap(({ ids, left }) => [...ids, ...left]));
    const isReached = (step: number, id: string) =>
      step < open || !isOver || wasChanged(act, now.get(id));
    const acted = (fate: ActedEvent["fate"]) => (id: string) => ({ id, fate, event: now.get(id) });
    const events = found.flatMap(({ step, ids, left }) => [
      ...ids.filter((id) => isReached(step, id))
        .map(acted(step < open || isOver ? "changed" : "underway")),
      ...left.map(acted("left")),
    ]);
    return { act, events, part, parts, isCut: act.isCut ?? false };
  }

  async #lastStep({ id, lists = 0 }: Act): Promise<readonly ChangeList[]> {
    const [last] = await this.#read(id, lists - 1, lists);
    return last ? await this.#read(id, last.step, lists) : [];
  }

  /** Reads lists, those that can be read. */
  async #read(id: string, from: number, before: number): Promise<ChangeList[]> {
    const numbers = Array.from({ length: Math.max(0, before - from) }, (_, i) => from + i);
    const values = await Promise.all(numbers.map((each) => this.#records.read(keyOf(id, each))));
    return values.filter((value) => isList(value)) as ChangeList[];
  }

  async #eventsOf(ids: readonly string[]): Promise<ReadonlyMap<string, StoredEvent>> {
    const found = ids.length === 0 ? [] : await Array.fromAsync(this.#store.list({ ids }));
    return new Map(found.map((event) => [event.id, event]));
  }
}

/** Divides ids into lists. */
function listsOf(ids: readonly string[]): string[][] {
  const lists: string[][] = [];
  let bytes = Infinity;
  for (const id of ids) {
    const size = MAX_UTF8_BYTES * JSON.stringify(id).length;
    if (bytes + size > MAX_BYTES || lists.at(-1)!.length === IDS_OF_LIST) {
      lists.push([]);
      bytes = 0;
    }
    lists.at(-1)!.push(id);
    bytes += size;
  }
  return lists;
}

/** Finds the place of a list. */
function keyOf(id: string, number: number): ConsoleRecordKey {
  return { kind: "changed", number: askedAtOf(id)!, id: `${id}-${number}` };
}

/** Tells whether an act has changed an event, by what has become of that. */
function wasChanged({ kind, id, at, query }: Act, event: StoredEvent | undefined): boolean {
  if (kind === "purge") return event === undefined;
  const record = event && recordOf(event);
  if (!record) return false;
  const { state, outcome, settledAt, cancelRequestedAt } = record;
  if (kind === "cancel") {
    const cancelledAt = cancelRequestedAt ?? (outcome === "cancelled" ? settledAt : null);
    return cancelledAt !== null && cancelledAt >= at;
  }
  return state !== query?.state || (settledAt ?? 0) > askedAtOf(id)!;
}
