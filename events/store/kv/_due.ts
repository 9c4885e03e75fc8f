import type { DuePage, Engine } from "../engine.ts";
import { readEvents } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { readSmallPayloads } from "./_payload.ts";
import {
  backBefore,
  type DueEntry,
  dueOf,
  type FoundDue,
  isAtEntry,
  isShared,
  payloadReaderOf,
  readerOf,
  type Schedule,
  setOwn,
} from "./_schedule.ts";
import { Write } from "./_write.ts";

const NO_EVENTS: DuePage = { events: [], bodies: Promise.resolve([]) };

/**
 * Reads events that are due.
 *
 * A shared entry that is due names events of a process that has died: nobody has settled them or renewed a lease. It
 * is taken apart first, so that each of them is found, and moved, by an entry of its own.
 */
export async function readDuePage(
  parts: StoreParts,
  schedule: Schedule,
  options: Parameters<Engine["due"]>[0],
): Promise<DuePage> {
  if (options.limit === 0) return { ...NO_EVENTS, next: await schedule.first() };
  for (let { cursor: from } = options;;) {
    const { entries, cursor, next } = await schedule.page({ ...options, cursor: from });
    const shared = entries.filter(({ value }) => isShared(value));
    if (shared.length === 0) return { ...await readNamed(parts, entries), cursor, next };
    for (const entry of shared) await takeApart(parts, entry);
    // The entries of their own are in the order of the events' ids.
    from = backBefore(from, shared[0]!);
  }
}

/** Reads the events that entries name, each its own, and meanwhile their small payloads. */
async function readNamed(
  parts: StoreParts,
  entries: readonly DueEntry[],
): Promise<Omit<DuePage, "cursor">> {
  const { kv, keys } = parts;
  const due = entries.flatMap(dueOf);
  const found = await readEvents(parts, due, readerOf(due));
  const records = found.map((event) => event?.record);
  const bodies = readSmallPayloads(kv, keys, records, payloadReaderOf(due))
    .catch(() => [])
    .then((read) => found.map((event, i) => event?.record && event.body || read[i]));
  const events = due.map(({ id, receivedAt, entry }, i) => {
    const event = found[i];
    const at = Number(entry.key.at(-2));
    return { id, receivedAt, at, event, entry } satisfies FoundDue;
  });
  return { events, bodies };
}

/** Gives the events that are left of a shared entry entries of their own, unless another process is faster. */
async function takeApart(parts: StoreParts, entry: DueEntry): Promise<void> {
  const { keys, commits } = parts;
  const events = dueOf(entry);
  const found = await readEvents(parts, events, readerOf(events));
  const write = new Write().check(entry).delete(entry.key);
  for (const [i, ref] of events.entries()) {
    const event = found[i];
    if (event && (!event.record || isAtEntry(entry, event))) setOwn(write, keys, entry, ref);
  }
  await commits.commit(write);
}
