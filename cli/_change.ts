import type { BulkOptions, BulkResult, EventFilter, EventStore } from "../events/mod.ts";
import type { CliRun } from "./_commands.ts";
import { isBeingCancelled, withProgress } from "./_output.ts";
import { confirmed, InterruptedError, interruptible, UsageError } from "./_world.ts";

/** Change that a command makes. */
export interface Change {
  /** Verb of the result, such as `purged`. */
  readonly verb: string;
  /** Name of one of the things that are changed. */
  readonly what: string;
  /** Makes the question to ask before, from their number and name. */
  readonly question: (count: string) => string;
  /** Makes the change until a signal, or only counts. */
  readonly run: (options: { signal: AbortSignal; dryRun: boolean }) => Promise<BulkResult>;
  /** Says why a named one was left. */
  readonly whyLeft: (name: string) => string | Promise<string>;
  /** Finds the named ones that an earlier command is still changing. */
  readonly underWay?: (names: readonly string[]) => Promise<readonly string[]>;
}

/** Makes a change once the user agrees. Writes how many were changed, and which of the named ones were left. */
export async function change(
  { verb, what, question, run, whyLeft, underWay = () => Promise.resolve([]) }: Change,
  { values: { json, "dry-run": dryRun = false }, asks, world }: CliRun,
): Promise<boolean> {
  const { out } = world;
  const made = await interruptible(world, async (signal) => {
    let result = await run({ signal, dryRun: dryRun || asks });
    if (asks && signal.aborted) result = { changed: 0, left: [] };
    const count = `${result.changed} ${what}${result.changed === 1 ? "" : "s"}`;
    if (asks && result.changed > 0) {
      if (!await confirmed(question(count), world, signal)) return undefined;
      result = await run({ signal, dryRun: false });
    }
    return { ...result, interrupted: signal.aborted && { interrupted: true } };
  });
  if (made === undefined) return false;
  const { changed, interrupted } = made;
  const begun = await underWay(made.left);
  const left = made.left.filter((name) => !begun.includes(name));
  if (json) {
    const being = begun.length > 0 && { beingCancelled: begun };
    out(
      JSON.stringify({ [verb]: changed, left, ...being, ...dryRun && { dryRun }, ...interrupted }),
    );
  } else {
    out(`${changed} ${dryRun ? `would be ${verb}` : verb}${interrupted ? ", interrupted" : ""}`);
    for (const name of begun) out(`being ${verb}: ${name} (its handler still runs)`);
    for (const name of left) out(`not ${verb}: ${name} (${await whyLeft(name)})`);
  }
  if (interrupted) throw new InterruptedError();
  return left.length === 0;
}

/** Name of the tool in the records of events that it changes. */
export const TOOL = "the events tool";

/** Puts events back. */
export function replay(run: CliRun): Promise<boolean> {
  const how = run.filter.state === "done" ? "whose work is done again" : "to be handled again";
  return changeEvents(run, {
    verb: "replayed",
    question: (count) => `Replay ${count}, ${how}?`,
    run: (store, filter, options) =>
      store.replayAll(filter, { ...options, fresh: run.values.fresh, by: TOOL }),
    whyDone: "its payload is not kept",
  });
}

/** Cancels events. */
export function cancel(run: CliRun): Promise<boolean> {
  return changeEvents(run, {
    verb: "cancelled",
    question: (count) => `Cancel ${count}?`,
    run: (store, filter, options) => store.cancelAll(filter, { ...options, by: TOOL }),
    underWay: async (ids) => {
      const begun: string[] = [];
      if (ids.length === 0) return begun;
      for await (const event of run.store.list({ ...run.filter, ids })) {
        if (isBeingCancelled(event)) begun.push(event.id);
      }
      return begun;
    },
  });
}

/** Deletes events. */
export function purge(run: CliRun): Promise<boolean> {
  return changeEvents(run, {
    verb: "purged",
    question: (count) => `Delete ${count} for good?`,
    run: (store, filter, options) => store.purge(filter, options),
  });
}

/** Change of events. */
interface EventChange extends Pick<Change, "verb" | "question" | "underWay"> {
  readonly run: (
    store: EventStore,
    filter: EventFilter,
    options: BulkOptions,
  ) => Promise<BulkResult>;
  /** Reason for leaving a done event that `--state done` asked for. */
  readonly whyDone?: string;
}

function changeEvents(
  command: CliRun,
  { run, whyDone = "it is done", ...rest }: EventChange,
): Promise<boolean> {
  const { store, filter, world: { terminal } } = command;
  return change({
    ...rest,
    what: "event",
    run: (options) =>
      withProgress(
        terminal,
        options.dryRun ? "" : rest.verb,
        ({ show }) => run(store, filter, { ...options, onProgress: show }),
      ),
    whyLeft: async (id) => {
      for await (const { state } of store.list({ ...filter, ids: [id] })) {
        return state === "done" && filter.state === "done" ? whyDone : `it is ${state}`;
      }
      for await (const _ of store.list({ ids: [id] })) return "the filter leaves it out";
      return "there is no such event";
    },
  }, command);
}

/**
 * Replaces delivery ids with event ids. A platform's page shows the delivery id; in the event's id the name of
 * the intake comes before it.
 *
 * @returns The filter, with the ids of events instead of delivery ids.
 * @throws {UsageError} If several events have the same delivery id.
 */
export async function withEventIds(
  store: EventStore,
  filter: EventFilter,
): Promise<EventFilter> {
  const { ids } = filter;
  if (!ids) return filter;
  const known = new Set<string>();
  for await (const { id } of store.list({ ids })) known.add(id);
  const meant = ids.map(async (id) =>
    known.has(id) ? id : eventIdOf(id, await store.inspect.withDeliveryId(id))
  );
  return { ...filter, ids: await Promise.all(meant) };
}

/** Finds the id of the event. An id without an event stays, and is reported later. */
function eventIdOf(id: string, found: readonly string[]): string {
  if (found.length > 1) {
    throw new UsageError(`${id} is the delivery id of several events: ${found.join(", ")}`);
  }
  return found[0] ?? id;
}
