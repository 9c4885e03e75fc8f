/**
 * Schedules: the times of cron expressions, and the events that they become.
 *
 * @module
 */
export { checkExpression, checkTimeZone, loadCron, normalized } from "./cron_expression.ts";
export { type Schedule, Scheduler, type TimedSchedule } from "./scheduler.ts";
export { checkScheduleName, runSchedule, type SlotPayload } from "./slot_event.ts";
export type { MissedSlots } from "./slots.ts";
