import type { LogRecord } from "../../../core/mod.ts";
import { loadCron, Scheduler } from "../../../events/schedules/mod.ts";
import type { SchedulerOptions } from "../../../events/schedules/scheduler.ts";
import type { MissedSlots } from "../../../events/schedules/slots.ts";

const timesOf = await loadCron();

/** Options of a scheduler with one schedule. */
export interface SchedulerOfTest {
  readonly expression?: string;
  readonly missed?: MissedSlots;
  readonly name?: string;
  readonly count?: SchedulerOptions["count"];
}

/** Makes a scheduler with one schedule, whose ticks the test makes, and the log of it. */
export function schedulerOf(
  { store }: Pick<SchedulerOptions, "store">,
  { expression = "0 * * * *", missed = "last", name = "digest", count }: SchedulerOfTest = {},
): { scheduler: Scheduler; logs: LogRecord[] } {
  const logs: LogRecord[] = [];
  const times = timesOf("test", expression, "UTC");
  const schedules = [{ name, expression, timeZone: "UTC", missed, times }];
  const log = (record: LogRecord) => void logs.push(record);
  return { scheduler: new Scheduler({ schedules, store, log, count }), logs };
}

export const HOUR_MS = 3_600_000;

/** A full hour. */
export const HOUR: number = Date.parse("2026-11-23T10:00:00Z");
