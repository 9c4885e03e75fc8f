/**
 * The sum of the first page: all events that have come are somewhere.
 *
 * @module
 */
import type { Activity, Period } from "../watch/activity.ts";
import type { TypeNumbers } from "../watch/tally.ts";
import type { StateCounts } from "./_counts.ts";
import { type Html, number } from "./_format.ts";
import { tag } from "./_layout.ts";

/**
 * Sum of the events of a period: `received` + `emitted` + `others` = `handled` + `ignored` + `dead` + `cancelled` +
 * `queued` + `running` + `parked`. All numbers are of the same time.
 */
export interface Balance extends
  Pick<
    TypeNumbers,
    "received" | "emitted" | "handled" | "ignored" | "dead" | "cancelled"
  > {
  /** Time that it is of, milliseconds since the epoch. */
  readonly at: number;
  /**
   * Number of events that are in the sum and have not come in the period, as far as that was counted: they were open
   * before it, were put back, or were stored by a process that counts nothing, such as the tool. Below 0 if more events
   * have left it: those that such a process has ended. What a process counted in the minute before it was killed is
   * lost, so it is in here as well.
   */
  readonly others: number;
  /** Numbers of open events, by state. */
  readonly queued: number;
  readonly running: number;
  readonly parked: number;
}

/** Parts of the first page that the sum is made of. */
interface Counted
  extends Partial<{ readonly [Name in keyof StateCounts]: StateCounts[Name] | null }> {
  readonly activity: Activity | null;
  readonly period: Period;
}

/** Makes the sum; null while something was not counted, or there are more open events than are counted. */
export function balanceOf(
  { counts, countedAt, totals, activity, period }: Counted,
): Balance | null {
  // What was counted at the time of the counts: what has come since is in none of them.
  const total = totals?.[period] ?? activity?.total;
  const open = counts && [counts.queued, counts.running, counts.parked];
  if (!total || !open || open.some(({ isMore }) => isMore)) return null;
  const [queued, running, parked] = open.map(({ count }) => count) as [number, number, number];
  const { received, emitted, handled, ignored, dead, cancelled } = total;
  const others = handled + ignored + dead + cancelled + queued + running + parked - received -
    emitted;
  return {
    ...{ at: countedAt ?? Date.now(), received, emitted, others },
    ...{ handled, ignored, dead, cancelled, queued, running, parked },
  };
}

/** Shows the sum, and what the attempts of a period came to. */
export function balanceLine(sum: Balance | null, period: Period, { total }: Activity): Html {
  const span = period === "hour" ? "last hour" : "last 24 hours";
  const { attempts, failed, parked, putOff } = total;
  const tried = `${number(attempts)} attempts have ended, and ${number(failed)} of them ` +
    `${failed === 1 ? "has" : "have"} failed; ${number(parked)} ${parked === 1 ? "has" : "have"} ` +
    `parked ${parked === 1 ? "its event" : "their events"}, and ${number(putOff)} put ` +
    `${putOff === 1 ? "it" : "theirs"} off.`;
  return tag(
    "p.dim",
    sum ? `Events of the ${span}: ${sumText(sum)} ${tried}` : `In the ${span} ${tried}`,
  );
}

function sumText(sum: Balance): string {
  const { received, emitted, others, handled, ignored, dead, cancelled } = sum;
  const { queued, running, parked } = sum;
  const more = others > 0
    ? ` + ${number(others)} that were open before, put back, stored by hand, ${LOST}`
    : others < 0
    ? ` − ${number(-others)} that were ended by hand, ${LOST}`
    : "";
  return `${number(received)} received + ${number(emitted)} of its own${more} = ` +
    `${number(handled)} handled + ${number(ignored)} ignored + ${number(dead)} dead + ` +
    `${number(cancelled)} cancelled + ${number(queued + running + parked)} open ` +
    `(${number(queued)} queued, ${number(running)} running, ${number(parked)} parked).`;
}

/** Says why a sum may not add up: a process that is killed loses the counts of its last minute. */
const LOST = "or not counted because a process was killed";
