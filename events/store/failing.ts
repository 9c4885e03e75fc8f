/**
 * Reports of events that fail again and again, in time for somebody to act before they are dead: events like those that
 * report deaths, stored in the commit that notes the failed attempt. The record notes which reports were made in the
 * current run, so each is made once, whatever crashes.
 *
 * @module
 */
import { checkKeys, checkObject, met, numberFrom, wholeNumber } from "../../core/check_options.ts";
import { type DeadEvent, type Emission, FAILING, isReported, shortIdOf } from "./emission.ts";
import type { EventRecord } from "./event_record.ts";

/**
 * Rule by which an event that fails is reported, once in each run: after a number of attempts, or after a time. It has
 * one of them.
 *
 * @category Flows
 */
export interface FailingRule {
  /** Number of attempts that have failed, or whose process has died. */
  readonly afterAttempts?: number | undefined;
  /**
   * Time from the first failed attempt on, in milliseconds. The report comes at that time if no attempt is under way,
   * and otherwise when that has failed.
   */
  readonly afterMs?: number | undefined;
}

/**
 * Payload of an event that reports a failing one: its facts, without its payload.
 *
 * @category Flows
 */
export interface FailingEvent extends Omit<DeadEvent, "handledWith"> {
  /** Number of the attempt that has failed last. */
  readonly attempt: number;
  /** Time at which the first attempt had failed, milliseconds since the epoch. */
  readonly since: number;
  /** Time of the next attempt, milliseconds since the epoch. */
  readonly nextAttemptAt: number;
}

/** Longest time of a rule: a year, which is the longest delay of a retry and of an event. */
const MAX_MS = 365 * 86_400_000;

/** Largest number of rules: a record notes those by which its event was reported. */
const MAX_RULES = 10;

const encoder = new TextEncoder();

/**
 * Checks a rule.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param rule The rule.
 * @throws {TypeError} If it is not an object with one of the members.
 * @throws {RangeError} If that is out of range.
 */
export function checkFailingRule(doing: string, rule: FailingRule): void {
  checkObject(doing, rule, "the rule");
  const { afterAttempts, afterMs } = rule;
  if ((afterAttempts === undefined) === (afterMs === undefined)) {
    throw new TypeError(`Cannot ${doing}: give either 'afterAttempts' or 'afterMs'`);
  }
  if (afterAttempts !== undefined) wholeNumber()(doing, "afterAttempts", afterAttempts);
  else numberFrom(0, MAX_MS)(doing, "afterMs", afterMs);
}

/** Checks a list of rules: an option of that name. */
export function checkFailingRules(doing: string, name: string, rules: unknown): void {
  if (!Array.isArray(rules)) {
    throw new TypeError(`Cannot ${doing}: '${name}' must be an array of rules, got ${met(rules)}`);
  }
  checkRuleCount(doing, rules.length);
  for (const rule of rules) {
    checkObject(doing, rule, `a rule in '${name}'`);
    checkKeys(`${doing}, in '${name}'`, rule, ["afterAttempts", "afterMs"]);
    checkFailingRule(`${doing}, in '${name}'`, rule);
  }
}

/** Checks that there are not too many rules. */
export function checkRuleCount(doing: string, count: number): void {
  if (count <= MAX_RULES) return;
  throw new RangeError(
    `Cannot ${doing}: there may be up to ${MAX_RULES} rules for failing events, got ${count}`,
  );
}

/** Names a rule: the action of its reports. */
export function nameOfRule({ afterAttempts, afterMs }: FailingRule): string {
  return afterAttempts === undefined ? `after-${afterMs}ms` : `attempt-${afterAttempts}`;
}

/**
 * Finds the rules by which an event that is tried again is to be reported now.
 *
 * @param record The record after the attempt that has failed, with the time of the next one as `dueAt`.
 * @param rules All rules.
 * @param now The time, milliseconds since the epoch.
 * @returns The rules.
 */
export function dueRules(
  record: EventRecord,
  rules: readonly FailingRule[],
  now: number,
): readonly FailingRule[] {
  if (!isReported(record)) return [];
  const { attempt, failing: { reported = [] } = {} } = record;
  const next = record.dueAt ?? now;
  const since = failingSince(record, now);
  return rules.filter((rule) => {
    const { afterAttempts, afterMs = Infinity } = rule;
    const isDue = afterAttempts === undefined ? next >= since + afterMs : attempt >= afterAttempts;
    return isDue && !reported.includes(nameOfRule(rule));
  });
}

/**
 * Notes that an event fails, and makes its reports.
 *
 * @param record The record after the attempt that has failed.
 * @param rules All rules.
 * @param now The time, milliseconds since the epoch.
 * @param isBrief Set if the reports name neither repository, chat nor sender, because the whole ones are too large.
 * @returns The record, and the reports to be stored with it.
 */
export function failingIn(
  record: EventRecord,
  rules: readonly FailingRule[],
  now: number,
  isBrief = false,
): { readonly record: EventRecord; readonly reports: readonly Emission[] } {
  if (record.state !== "queued" || !isReported(record)) return { record, reports: [] };
  const due = dueRules(record, rules, now);
  const since = failingSince(record, now);
  const reported = [...record.failing?.reported ?? [], ...due.map(nameOfRule)];
  return {
    record: { ...record, failing: { since, reported } },
    reports: due.map((rule) => reportOf(record, rule, since, now, isBrief)),
  };
}

/** Finds the time at which the first attempt of the current run had failed that the record still has. */
function failingSince({ failing, attempts }: EventRecord, now: number): number {
  if (failing) return Math.min(failing.since, now);
  let [number, since] = [Infinity, now];
  for (const { attempt, endedAt } of attempts.toReversed()) {
    // An earlier run has had an attempt of a higher number.
    if (attempt >= number) break;
    [number, since] = [attempt, endedAt];
  }
  return Math.min(since, now);
}

function reportOf(
  record: EventRecord,
  rule: FailingRule,
  since: number,
  now: number,
  isBrief: boolean,
): Emission {
  const { id, intake, platform, source, type, action, repository, chat, sender } = record;
  const { receivedAt, attempt, attempts, run = 0 } = record;
  const payload: FailingEvent = {
    ...{ id, intake, platform, source, type, action },
    ...(!isBrief && { repository, chat, sender }),
    ...{ receivedAt, attempts, attempt, since, nextAttemptAt: record.dueAt ?? now },
  };
  const name = nameOfRule(rule);
  return {
    ...{ source: FAILING, type: FAILING, action: name },
    id: `${shortIdOf(id)}/${receivedAt}/${run}/${name}`,
    delayMs: Math.max(0, since + (rule.afterMs ?? 0) - now),
    body: encoder.encode(JSON.stringify(payload)),
  };
}
