/**
 * Schedules: the times of cron expressions, and the events that they become.
 *
 * @module
 */
export { checkExpression, checkTimeZone, loadCron, normalized } from "./cron_expression.ts";
export { pauseSchedule, resumeSchedule } from "./pauses.ts";
export { type Schedule, Scheduler, type TimedSchedule } from "./scheduler.ts";
export { checkScheduleName, runSchedule, slotIdOf, type SlotPayload } from "./slot_event.ts";
export { type MissedSlots, readNote } from "./slots.ts";
