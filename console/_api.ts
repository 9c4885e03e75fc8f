/**
 * Answers of the console to programs: the data of its pages as JSON.
 *
 * A page is two functions, one that reads and one that renders. The first one is served here, under the page's name:
 * it gets the data and the parameters of the page, and returns what JSON can hold. Add it to {@linkcode READINGS}.
 * Forms need nothing: each is taken as JSON as well.
 *
 * @module
 */
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import type { Problem, ProblemList } from "../events/store/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import { hideActs, readAct, readActs, readChanged } from "./_act_pages.ts";
import { hideAct } from "./_acting.ts";
import { readDeliveries } from "./_deliveries_page.ts";
import { readDelivery } from "./_delivery_page.ts";
import { recordOf } from "./_format.ts";
import { hideLimits, readLimits } from "./_limits_page.ts";
import { hideParked, readParked } from "./_parked_page.ts";
import { type ProblemData, readProblem, readProblems } from "./_problems_page.ts";
import { type OverviewData, quotesError, readOverview, withoutErrors } from "./_overview_page.ts";
import { readRefusals, withoutSamples } from "./_refusals_page.ts";
import { nameOfError } from "./_timeline.ts";
import { hideRunning, readRunning } from "./_running_page.ts";
import { readSchedules } from "./_schedules_page.ts";
import { hideState, hideStates, readState, readStates } from "./_states_page.ts";
import { hideWaiting, readWaiting } from "./_wake_page.ts";

/** Reading of what a page shows. */
export interface Reading {
  /** Reads it. What it returns is sent as JSON; a map becomes an object. */
  read(data: ConsoleData, parameters: URLSearchParams, hidesPayloads: boolean): Promise<unknown>;
  /**
   * Takes out what an app hides that hides its payloads: what handlers and senders have written. Without it, such an
   * app does not serve the page.
   */
  hide?(found: never): unknown;
  /**
   * Tells whether it has what senders or handlers have written: the answer is not compressed then. Without it, it always
   * has.
   */
  isPrivate?(found: never): boolean;
}

/** Marks that there is nothing to hide. */
const asIs = (found: unknown): unknown => found;

/** Readings by the names of their pages. */
export const READINGS: Readonly<Record<string, Reading>> = {
  overview: {
    isPrivate: quotesError,
    read: readOverview,
    hide: (found: OverviewData) => withoutErrors(found),
  },
  refusals: {
    read: readRefusals,
    hide: withoutSamples,
  },
  deliveries: {
    read: readDeliveries,
    hide: asIs,
  },
  delivery: {
    read: readDelivery,
    hide: (found: Awaited<ReturnType<typeof readDelivery>>) => ({
      event: withoutContent(found.event),
      hung: found.hung,
      places: found.places,
      before: found.before,
      answer: found.answer && { at: found.answer.at },
      running: found.running && { ...found.running, description: undefined },
      first: found.first && withoutContent(found.first),
      steps: found.steps.map(({ name, at, isBegun }) => ({ name, at, isBegun })),
      emitted: found.emitted,
      ancestors: found.ancestors.map(({ id }) => ({ id })),
      related: new Map([...found.related].map(([id, each]) => [id, withoutContent(each)])),
    }),
  },
  problems: {
    read: readProblems,
    hide: ({ problems, ...found }: ProblemList) => ({
      ...found,
      problems: problems.map(withoutText),
    }),
  },
  problem: {
    read: readProblem,
    hide: ({ problem, query, page }: ProblemData) => ({
      problem: problem && withoutText(problem),
      query,
      page: { ...page, events: page.events.map(withoutContent) },
    }),
  },
  limits: { read: readLimits, hide: hideLimits },
  running: { read: readRunning, hide: hideRunning },
  parked: { read: readParked, hide: hideParked },
  wake: { read: readWaiting, hide: hideWaiting },
  schedules: { read: readSchedules, hide: asIs },
  states: { read: readStates, hide: hideStates },
  state: { read: readState, hide: hideState },
  acts: { read: readActs, hide: hideActs },
  progress: { read: readAct, hide: hideAct },
  changed: {
    read: readChanged,
    hide: ({ act, events, ...found }: Awaited<ReturnType<typeof readChanged>>) => ({
      ...found,
      act: hideAct(act),
      events: events.map(({ event, ...each }) => ({
        ...each,
        event: event && withoutContent(event),
      })),
    }),
  },
};

/** Takes out of a problem all but the name of its error. */
const withoutText = ({ error, ...problem }: Problem): object => ({
  ...problem,
  error: nameOfError(error),
});

/** Members of a record that hold nothing of a payload, and nothing that a handler has written. */
const SHOWN = [
  ...["id", "intake", "deliveryId", "platform", "source", "type", "action", "repository", "chat"],
  ...["requestId", "receivedAt", "state", "outcome", "run", "attempt", "dueAt", "orderingKey"],
  ...["group", "batch", "handledWith", "lease", "cancelRequestedAt", "settledAt", "causedBy"],
  ...["interrupted", "limitedBy", "traceparent", "payload", "plannedMs", "quiet"],
] as const;

/** Takes out of an event what its payload, its sender or a handler has brought. */
export function withoutContent(event: StoredEvent): object {
  const record = recordOf(event);
  if (!record) return event;
  const { attempts, putOff, waitingFor } = record;
  const shown = SHOWN.map((name) => [name, record[name]]);
  return {
    ...Object.fromEntries(shown),
    attempts: attempts.map(({ error, ...attempt }) => ({
      ...attempt,
      error: error === undefined ? undefined : nameOfError(error),
    })),
    putOff: putOff && { since: putOff.since, at: putOff.at, times: putOff.times },
    waitingFor: waitingFor && { since: waitingFor.since, until: waitingFor.until },
  } satisfies { readonly [Name in keyof EventRecord]?: unknown };
}
