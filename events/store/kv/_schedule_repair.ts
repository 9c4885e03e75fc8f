import { plannedDelay, rescheduled } from "../claims.ts";
import { applyChange } from "./_apply.ts";
import type { StoreParts } from "./_parts.ts";
import type { Known } from "./_layout.ts";
import { deferEntry, type Due, dueOf, isAtEntry, readDue, type Schedule } from "./_schedule.ts";
import { Write } from "./_write.ts";

/** The number of events that are read and changed together. */
const BATCH_SIZE = 100;

/** The time by which the clocks of two machines may differ before one repairs the schedule of the other. */
const CLOCK_SLACK_MS = 1_000;

/**
 * Reschedules events that would wait for longer than was planned, because a clock was ahead.
 *
 * @param parts The store.
 * @param schedule Its schedule.
 * @returns The number of events scheduled anew.
 * @throws The error of an event that could not be repaired, once the others are.
 */
export async function repairSchedule(parts: StoreParts, schedule: Schedule): Promise<number> {
  let repaired = 0;
  let page: Due[] = [];
  let failed: PromiseRejectedResult | undefined;
  const repairPage = async () => {
    const known = await readDue(parts, page);
    const tried = await Promise.allSettled(known.map((each, i) => repair(parts, page[i]!, each)));
    repaired += tried.filter((each) => each.status === "fulfilled" && each.value).length;
    failed ??= tried.find((each) => each.status === "rejected");
    page = [];
  };
  for await (const entry of schedule.after(Date.now())) {
    const { delayMs = 0 } = entry.value;
    if (isMisplaced(Number(entry.key.at(-2)), delayMs)) page.push(...dueOf(entry));
    if (page.length >= BATCH_SIZE) await repairPage();
  }
  await repairPage();
  if (failed) throw failed.reason;
  return repaired;
}

async function repair(parts: StoreParts, due: Due, known: Known): Promise<boolean> {
  const { record, versionstamp, body } = known;
  if (!record || !isAtEntry(due.entry, known)) return await bringForward(parts, due);
  if (!isMisplaced(record.dueAt!, plannedDelay(record))) return false;
  const held = { record, versionstamp: versionstamp!, body };
  return await applyChange(parts, held, rescheduled(record, Date.now())) !== null;
}

/** Moves an entry to the time in the record of its event, which has been rescheduled. */
async function bringForward(
  { keys, commits }: StoreParts,
  { entry, isShared, ...due }: Due,
): Promise<boolean> {
  if (isShared) return false;
  const write = new Write().check(entry).delete(entry.key);
  deferEntry(write, keys, due, entry.value.delayMs ?? 0, due.group);
  return await commits.commit(write) !== null;
}

/** Checks whether an event waits for longer than was planned. */
function isMisplaced(dueAt: number, delayMs: number): boolean {
  return dueAt - Date.now() > delayMs + CLOCK_SLACK_MS;
}
