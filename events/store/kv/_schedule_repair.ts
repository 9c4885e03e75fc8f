import type { Stored, Tidying, Unreadable } from "../engine.ts";
import { CLOCK_SLACK_MS } from "../../../core/timeouts.ts";
import { changeEvent } from "./_event_write.ts";
import { readEvents } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { deferEntry, type Due, dueOf, isAtEntry, readerOf, type Schedule } from "./_schedule.ts";
import { Write } from "./_write.ts";

/** The number of events that are read and changed together. */
const BATCH_SIZE = 100;

type Times = NonNullable<Tidying["times"]>;

/**
 * Reschedules events that would wait for longer than was planned, because a clock was ahead.
 *
 * Only an entry itself tells whether it is right, and an app may have any number of events that are due in
 * days. So a repair can be limited: it then reads some entries, from where the last one ended, and the first ones
 * again after the last. If it finds a wrong one it goes on to the end, since a clock is seldom wrong once.
 */
export class ScheduleRepair {
  readonly #parts: StoreParts;
  readonly #schedule: Schedule;
  /** The time of the entries that come next; those up to now are not looked at. */
  #next = -Infinity;

  constructor(parts: StoreParts, schedule: Schedule) {
    this.#parts = parts;
    this.#schedule = schedule;
  }

  /**
   * Repairs a part of the schedule, or the rest of it.
   *
   * @param times The largest number of entries read, more of which may have the time of the last one; if it is
   * `Infinity`, all are read. And what corrects the record of an event.
   * @returns The number of events scheduled anew.
   * @throws The error of an event that could not be repaired, once the others are.
   */
  async run({ reads: maxReads, corrected }: Times): Promise<number> {
    const now = Date.now();
    const from = maxReads === Infinity ? now : Math.max(now, Math.floor(this.#next) - 1);
    let [left, last] = [maxReads, -Infinity];
    const page: Due[] = [];
    const repaired: PromiseSettledResult<boolean>[] = [];
    const flush = async () => {
      repaired.push(...await repairAll(this.#parts, page.splice(0), corrected));
    };
    this.#next = -Infinity;
    for await (const entry of this.#schedule.after(from)) {
      const dueAt = Number(entry.key.at(-2));
      // Only at a change of time: a page goes on from a time, and not from an entry.
      if (left-- <= 0 && dueAt !== last) {
        await flush();
        if (!repaired.some(isRepaired)) {
          this.#next = dueAt;
          break;
        }
      }
      last = dueAt;
      if (isMisplaced(dueAt, entry.value.delayMs)) page.push(...dueOf(entry));
      if (page.length >= BATCH_SIZE) await flush();
    }
    await flush();
    const failed = repaired.find((each) => each.status === "rejected");
    if (failed) throw failed.reason;
    return repaired.filter(isRepaired).length;
  }
}

/** Repairs events. One that fails does not fail the others. */
async function repairAll(
  parts: StoreParts,
  events: readonly Due[],
  corrected: Times["corrected"],
): Promise<PromiseSettledResult<boolean>[]> {
  const found = await readEvents(parts, events, readerOf(events));
  return await Promise.allSettled(
    found.map((each, i) => repair(parts, events[i]!, each, corrected)),
  );
}

function isRepaired(result: PromiseSettledResult<boolean>): boolean {
  return result.status === "fulfilled" && result.value;
}

async function repair(
  parts: StoreParts,
  due: Due,
  event: Stored | Unreadable | undefined,
  corrected: Times["corrected"],
): Promise<boolean> {
  if (!event?.record || !isAtEntry(due.entry, event)) return await bringForward(parts, due);
  const after = corrected(event.record, Date.now());
  return after !== null && await changeEvent(parts, event, () => after);
}

/** Moves an entry to the time in the record of its event: that was rescheduled. */
async function bringForward(
  { keys, commits }: StoreParts,
  { entry, isShared, ...due }: Due,
): Promise<boolean> {
  if (isShared) return false;
  const write = new Write().check(entry).delete(entry.key);
  deferEntry(write, keys, due, entry.value.delayMs ?? 0, due.group);
  return await commits.commit(write) !== null;
}

/** Checks whether an entry says that its event waits for longer than was planned. */
function isMisplaced(dueAt: number, delayMs = 0): boolean {
  return dueAt - Date.now() > delayMs + CLOCK_SLACK_MS;
}
