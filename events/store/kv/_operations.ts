import { changeAll } from "./_bulk.ts";
import { cancelEvent, cancelFound } from "./_cancel.ts";
import type { StoreKeys } from "./_keys.ts";
import { lookUp } from "./_lookup.ts";
import type { StoreParts } from "./_parts.ts";
import { purgeFound } from "./_purge.ts";
import { replayAll } from "./_replay.ts";
import { findEvents } from "./_scan.ts";
import { Work } from "./_work.ts";
import type { BulkOptions, BulkResult } from "../bulk_options.ts";
import type { EventFilter, EventStats } from "../event_filter.ts";
import type { EventRecord } from "../event_record.ts";
import type { StoredEvent } from "../stored_event.ts";

/** What somebody who operates a store does with its events. */
export class Operations {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
  }

  /** Reads an event's record. */
  async get(id: string): Promise<EventRecord | null> {
    const { record, versionstamp } = await lookUp(this.#kv, this.#keys, id);
    if (record || versionstamp === null) return record ?? null;
    throw new Error(
      `Cannot read the record of event ${id}: another version wrote it, or it is damaged`,
    );
  }

  /** Looks through the events that a filter lets through. */
  async *list(filter: EventFilter): AsyncGenerator<StoredEvent> {
    for await (const { event } of findEvents(this.#kv, this.#keys, filter)) yield event;
  }

  /** Counts the events that a filter lets through, by state. */
  async stats(filter: EventFilter, options: BulkOptions): Promise<EventStats> {
    const counts = { queued: 0, running: 0, done: 0, dead: 0, unreadable: 0 };
    let oldestWaitingAt: number | null = null;
    const events = findEvents(this.#kv, this.#keys, filter, new Work(options));
    for await (const { event } of events) {
      counts[event.state]++;
      if (event.state !== "queued") continue;
      oldestWaitingAt = Math.min(oldestWaitingAt ?? event.receivedAt, event.receivedAt);
    }
    return { ...counts, oldestWaitingAt };
  }

  /** Puts dead events back, each by itself where it has to be. */
  async replayAll(
    filter: EventFilter,
    options: BulkOptions,
    replay: (id: string) => Promise<boolean>,
  ): Promise<BulkResult> {
    const work = new Work(options, filter.ids);
    await replayAll(this.#parts, filter, replay, work);
    return work.result;
  }

  /** Gives an event up that waits or runs. */
  cancel(id: string): Promise<boolean> {
    return cancelEvent(this.#parts, id);
  }

  /** Gives events up that wait or run. */
  async cancelAll(filter: EventFilter, options: BulkOptions): Promise<BulkResult> {
    const work = new Work(options, filter.ids);
    const cancel = cancelFound.bind(null, this.#parts);
    await changeAll(findEvents(this.#kv, this.#keys, filter, work), cancel, work);
    return work.result;
  }

  /** Deletes events that are settled. */
  async purge(filter: EventFilter, options: BulkOptions): Promise<BulkResult> {
    const work = new Work(options, filter.ids);
    const purge = purgeFound.bind(null, this.#parts, filter);
    await changeAll(findEvents(this.#kv, this.#keys, filter, work), purge, work);
    return work.result;
  }
}
