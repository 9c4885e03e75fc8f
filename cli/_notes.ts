import type { EventRecord, EventStore, StoredEvent, UntakenAnswer } from "../events/mod.ts";
import { isoOf } from "./_output.ts";

/** First event of a batch, and the last position that belongs to it. */
interface Head {
  readonly id: string;
  readonly from: number;
  readonly last: number;
}

/**
 * Notes on events that their own records do not tell: whether a parked one was woken already, and which event
 * a queued one is handled together with, if that is in the same list.
 */
export class EventNotes {
  readonly #store: EventStore;
  readonly #now: number;
  /** First events of batches by the keys of their groups. */
  readonly #heads = new Map<string, Head>();

  /**
   * Begins a list.
   *
   * @param store The store of the events.
   * @param now The time, milliseconds since the epoch.
   */
  constructor(store: EventStore, now: number) {
    this.#store = store;
    this.#now = now;
  }

  /** Finds the answer that a parked event gets when it is claimed; undefined for none. */
  async answerOf(event: StoredEvent): Promise<UntakenAnswer | undefined> {
    if (event.state !== "parked" || !event.waitingFor) return undefined;
    const names = [event.waitingFor.name];
    for await (const each of this.#store.answers({ names })) {
      if (each.eventId === event.id) return each;
    }
    return undefined;
  }

  /** Makes the note of an event that is more than its record tells; undefined if there is none. */
  async of(event: StoredEvent): Promise<string | undefined> {
    if (event.state === "unreadable") return undefined;
    const answer = await this.answerOf(event);
    if (answer) return `woken at ${isoOf(answer.at)}, not claimed yet`;
    return this.#together(event);
  }

  /** Tells when a queued event is due; undefined if it is due, or waits for something else. */
  dueAtOf(event: StoredEvent): string | undefined {
    if (event.state !== "queued" || event.quiet) return undefined;
    const { dueAt } = event;
    return dueAt !== null && dueAt > this.#now ? `due at ${isoOf(dueAt)}` : undefined;
  }

  #together({ id, group, batch }: EventRecord): string | undefined {
    if (!group) return undefined;
    const { key, position } = group;
    if (batch) this.#heads.set(key, { id, from: position, last: batch.last });
    const head = this.#heads.get(key);
    if (!head || position <= head.from || position > head.last) return undefined;
    return `together with ${head.id}`;
  }
}
