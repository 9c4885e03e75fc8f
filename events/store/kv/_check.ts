import { isTime } from "../../../core/shape.ts";
import type { CheckedPage, Engine, Stored, StoredKind, StoreFinding } from "../engine.ts";
import { type EventRecord, isEventRef } from "../event_record.ts";
import { changeEvent } from "./_event_write.ts";
import { repairGroups } from "./_group_repair.ts";
import { eventIn, MARK, notesOf, readEvents, refOf } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import {
  type Entry,
  isGap,
  isUndecodable,
  list,
  type ListedEntry,
  nameIn,
  readAll,
} from "./_reads.ts";
import { dueOf, isShared, readableEntry } from "./_schedule.ts";
import { Write } from "./_write.ts";
import { encodeValue } from "./value_codec.ts";

/** Number of entries read at a time. A remote KV takes 45 ms for 100 records, and hardly more for 500. */
const PAGE = 500;

type CheckOptions = Parameters<Engine["check"]>[0];

/**
 * The check of a store. It reads all records, and for each open or dead event the entry that leads to it: on the
 * schedule, in its group, or in the index of dead events. An event that changes meanwhile is not reported: a suspect
 * is read again, and the commit that puts it back checks its version.
 *
 * A schedule entry may have been moved without a change of its event. So the whole schedule is read before
 * an event is put back, which happens only when there are suspects.
 */
export class StoreCheck {
  readonly #parts: StoreParts;
  readonly #options: CheckOptions;

  constructor(parts: StoreParts, options: CheckOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  /** Checks page by page. Records come last, so that they get back what they lose by a discarded value. */
  async *pages(): AsyncGenerator<CheckedPage> {
    const { keys } = this.#parts;
    const kinds: readonly (readonly [StoredKind, Deno.KvListSelector])[] = [
      ["id", keys.ids],
      ["schedule entry", keys.schedule],
      ["ordering group", keys.orderingGroups],
      ["position", keys.positions],
    ];
    for (const [kind, selector] of kinds) {
      for await (const page of this.#pages(selector)) {
        const unreadable = page.filter(isUndecodable).map((entry) => this.#unreadable(kind, entry));
        yield { read: page.length, findings: await Promise.all(unreadable) };
      }
    }
    if (this.#options.discard) await repairGroups(this.#parts);
    for await (const page of this.#pages(keys.failedIndex)) {
      await this.#deleteLeft(page);
      yield { read: page.length, findings: [] };
    }
    for await (const page of this.#pages(keys.events)) {
      yield { read: page.length, findings: await this.#checkEvents(page) };
    }
  }

  async #unreadable(kind: StoredKind, entry: ListedEntry): Promise<StoreFinding> {
    const write = new Write().check(entry).delete(entry.key);
    const isDeleted = this.#options.discard && await this.#parts.commits.commit(write) !== null;
    return { is: isDeleted ? "discarded" : "unreadable", kind, ...nameOf(entry) };
  }

  async *#pages(selector: Deno.KvListSelector): AsyncGenerator<ListedEntry[]> {
    let page: ListedEntry[] = [];
    for await (const entry of list(this.#parts.kv, selector, { batchSize: PAGE })) {
      page.push(entry);
      if (page.length < PAGE) continue;
      yield page;
      page = [];
    }
    if (page.length > 0) yield page;
  }

  async #checkEvents(page: readonly ListedEntry[]): Promise<StoreFinding[]> {
    const findings: StoreFinding[] = [];
    const open: Stored[] = [];
    for (const entry of page) {
      const event = eventIn(entry, refOf(entry.key));
      if (!event?.record) findings.push({ is: "unreadable", kind: "event", ...nameOf(entry) });
      else if (event.record.state !== "done") open.push(event);
    }
    findings.push(...await this.#nameAgain(open));
    findings.push(...await this.#countAgain(open));
    const suspects = await this.#unnamed(open);
    if (suspects.length === 0) return findings;
    const scheduled = await this.#scheduled();
    for (const suspect of suspects) {
      const { id: eventId, state } = suspect.record;
      if (state !== "dead" && scheduled.has(eventId)) continue;
      if (await this.#putBack(suspect)) findings.push({ is: "put_back", eventId });
    }
    return findings;
  }

  /** Writes the entries of ids again that are kept as long as their events, and are missing. */
  async #nameAgain(events: readonly Stored[]): Promise<StoreFinding[]> {
    const { kv, keys, commits } = this.#parts;
    const kept = events.filter(({ record }) => notesOf(record).idKept);
    const entries = await readAll(kv, kept.map(({ record }) => keys.id(record.id)));
    const missing = kept.filter((_, i) => entries[i]!.versionstamp === null);
    const written = await Promise.all(missing.map(async ({ record, version }) => {
      const id = keys.id(record.id);
      const write = new Write().check({ key: keys.event(record), versionstamp: version })
        .check({ key: id, versionstamp: null });
      return await commits.commit(write.set(id, encodeValue(record.receivedAt))) !== null;
    }));
    const isWritten = (_: unknown, i: number) => written[i]!;
    return missing.filter(isWritten).map(({ record: { id } }) => ({ is: "put_back", eventId: id }));
  }

  /** Deletes the entries of problems whose events have not failed by them any more: an older version left them. */
  async #deleteLeft(page: readonly ListedEntry[]): Promise<void> {
    const { keys, commits } = this.#parts;
    const entries = page.filter((entry) => !isGap(entry) && entry.key.length === FAILED_KEY);
    const events = await readEvents(this.#parts, entries.map(({ key }) => refOf(key)));
    await Promise.all(entries.map(async (entry, i) => {
      const event = events[i];
      if (event && (!event.record || isFailedBy(event.record, String(entry.key.at(-3))))) return;
      const key = keys.event(refOf(entry.key));
      const write = new Write().check({ key, versionstamp: event?.version ?? null });
      await commits.commit(write.delete(entry.key));
    }));
  }

  /** Writes the entries of events in the index of their problems again that are missing. */
  async #countAgain(events: readonly Stored[]): Promise<StoreFinding[]> {
    const { kv, keys, commits } = this.#parts;
    const failed = events.filter(({ record }) => record.problem !== undefined);
    const names = failed.map(({ record }) => keys.failed(record.problem!, record));
    const entries = await readAll(kv, names);
    const isMissing = ({ record }: Stored, i: number) =>
      entries[i]!.value !== (record.state === "dead");
    const written = await Promise.all(failed.map(async (event, i) => {
      if (!isMissing(event, i)) return false;
      const { record, version } = event;
      const write = new Write().check({ key: keys.event(record), versionstamp: version });
      return await commits.commit(write.set(names[i]!, encodeValue(record.state === "dead"))) !==
        null;
    }));
    return failed.flatMap(({ record: { id } }, i) =>
      written[i] ? [{ is: "put_back", eventId: id } as const] : []
    );
  }

  /** Finds the events whose own entries do not lead to them. */
  async #unnamed(events: readonly Stored[]): Promise<Stored[]> {
    const entries = await readAll(this.#parts.kv, events.map(({ record }) => this.#leadTo(record)));
    return events.filter(({ record }, i) => !isNamed(record, entries[i]!));
  }

  /** Makes the key of the entry that leads to an event; for an event without a place, a key that is not one. */
  #leadTo(record: EventRecord): Deno.KvKey {
    const { keys } = this.#parts;
    const { id, state, dueAt, group } = record;
    if (state === "dead") return keys.dead(record);
    if (dueAt !== null) return keys.due(dueAt, notesOf(record).sharedEntry ?? id);
    return group ? keys.position(group.key, group.position) : keys.id(id);
  }

  /** Reads the ids of all events that the schedule names. */
  async #scheduled(): Promise<Set<string>> {
    const { kv, keys } = this.#parts;
    const ids = new Set<string>();
    for await (const entry of list(kv, keys.schedule, { batchSize: PAGE })) {
      const due = readableEntry(entry);
      // An entry of its own names its event by its key.
      if (due && isShared(due.value)) { for (const { id } of dueOf(due)) ids.add(id); }
      else if (isTime(entry.key.at(-2))) ids.add(refOf(entry.key).id);
    }
    return ids;
  }

  /** Puts an event back, unless it has changed since. */
  async #putBack({ record: seen, version }: Stored): Promise<boolean> {
    const { keys, commits } = this.#parts;
    const [event] = await readEvents(this.#parts, [seen]);
    if (!event?.record || event.version !== version) return false;
    if (seen.state === "dead") {
      const write = new Write().check({ key: keys.event(seen), versionstamp: version });
      return await commits.commit(write.set(keys.dead(seen), MARK)) !== null;
    }
    return await changeEvent(this.#parts, event, this.#options.foundAgain);
  }
}

/** Number of parts of the key of an entry in the index of problems. */
const FAILED_KEY = 5;

function isFailedBy({ problem, state }: EventRecord, id: string): boolean {
  return problem === id && state !== "done";
}

/** Checks whether an entry leads to an event. */
function isNamed(record: EventRecord, entry: Entry): boolean {
  const { id, state, dueAt, group } = record;
  if (entry.versionstamp === null) return false;
  if (state === "dead") return true;
  if (dueAt === null) return group !== null && isEventRef(entry.value) && entry.value.id === id;
  if (notesOf(record).sharedEntry === undefined) return true;
  const due = readableEntry(entry as ListedEntry);
  return due !== undefined && dueOf(due).some((each) => each.id === id);
}

function nameOf(entry: ListedEntry): { readonly name: string; readonly at: Deno.KvKey } {
  const { key: at } = entry;
  return { name: isGap(entry) ? nameIn(entry) : at.slice(2).join("/"), at };
}
