import type {
  BulkOptions,
  BulkResult,
  EventFilter,
  EventStore,
  StoredEvent,
} from "../events/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import type { CliRun, CommandName } from "./_commands.ts";
import { isBeingCancelled, withProgress } from "./_output.ts";
import { changeWith, InterruptedError, UsageError } from "./_world.ts";

/** Commands that change events. */
const WAYS: Readonly<Partial<Record<CommandName, Way>>> = {
  replay: {
    done: "replayed",
    question: (count, { state }) =>
      state === "done"
        ? `Replay ${count}, whose work is done again?`
        : `Replay ${count}, to be handled again?`,
    whyDone: "its payload is not kept",
    run: (store, filter, options) => store.replayAll(filter, options),
  },
  cancel: {
    done: "cancelled",
    question: (count) => `Cancel ${count}?`,
    isUnderWay: isBeingCancelled,
    run: (store, filter, options) => store.cancelAll(filter, options),
  },
  purge: {
    done: "purged",
    question: (count) => `Delete ${count} for good?`,
    run: (store, filter, options) => store.purge(filter, options),
  },
};

/** Change that a command makes. */
interface Way {
  readonly done: string;
  /** Makes the question that is asked before. */
  readonly question: (count: string, filter: EventFilter) => string;
  /** Reason why an event is left that is done, and was meant as such. */
  readonly whyDone?: string;
  /** Tells whether an event needs no change, since an earlier command has begun it. */
  readonly isUnderWay?: (event: StoredEvent) => boolean;
  readonly run: (
    store: EventStore,
    filter: EventFilter,
    options: BulkOptions,
  ) => Promise<BulkResult>;
}

/** Changes events, and writes their number and the given ids that are left. */
export async function change(
  { store, command, values, filter, asks, world }: CliRun,
): Promise<boolean> {
  const { done: verb, question, run, whyDone, isUnderWay = () => false } = WAYS[command]!;
  const isDry = values["dry-run"] === true;
  const made = await changeWith(
    {
      run: (dryRun, signal) =>
        withProgress(
          world.terminal,
          dryRun ? "" : verb,
          ({ show }) => run(store, filter, { signal, dryRun, onProgress: show }),
        ),
      what: "event",
      question: (count) => question(count, filter),
      none: { changed: 0, left: [] },
    },
    { isDry, asks },
    world,
  );
  if (made === undefined) return false;
  const { result: { changed, left: unchanged }, isInterrupted } = made;
  const underWay = await idsOf(store, { ...filter, ids: unchanged }, isUnderWay);
  const left = unchanged.filter((id) => !underWay.includes(id));
  const notes = { ...isDry && { dryRun: true }, ...isInterrupted && { interrupted: true } };
  const being = underWay.length > 0 && { beingCancelled: underWay };
  const { out } = world;
  if (values.json) out(JSON.stringify({ [verb]: changed, left, ...being, ...notes }));
  else {
    out(`${changed} ${isDry ? `would be ${verb}` : verb}${isInterrupted ? ", interrupted" : ""}`);
    for (const id of underWay) out(`being ${verb}: ${id} (its handler still runs)`);
    for (const id of left) out(`not ${verb}: ${id} (${await whyLeft(store, filter, id, whyDone)})`);
  }
  if (isInterrupted) throw new InterruptedError();
  return left.length === 0;
}

async function idsOf(
  store: EventStore,
  filter: EventFilter & { readonly ids: readonly string[] },
  isMeant: (event: StoredEvent) => boolean,
): Promise<string[]> {
  const ids: string[] = [];
  if (filter.ids.length === 0) return ids;
  for await (const event of store.list(filter)) if (isMeant(event)) ids.push(event.id);
  return ids;
}

async function whyLeft(
  store: EventStore,
  filter: EventFilter,
  id: string,
  whyDone = "it is done",
): Promise<string> {
  for await (const { state } of store.list({ ...filter, ids: [id] })) {
    return state === "done" && filter.state === "done" ? whyDone : `it is ${state}`;
  }
  for await (const _ of store.list({ ids: [id] })) return "the filter leaves it out";
  return "there is no such event";
}

/**
 * Finds the events of delivery ids. An event's id begins with the name of its intake, which the platforms'
 * pages do not show.
 *
 * @returns The filter, with the ids of events instead of delivery ids.
 * @throws {UsageError} If an id is that of several events.
 */
export async function withEventIds(
  store: EventStore,
  inspector: Pick<StoreInspector, "withDeliveryId">,
  filter: EventFilter,
): Promise<EventFilter> {
  const { ids } = filter;
  if (!ids) return filter;
  const known = new Set<string>();
  for await (const { id } of store.list({ ids })) known.add(id);
  const meant = ids.map(async (id) =>
    known.has(id) ? id : eventIdOf(id, await inspector.withDeliveryId(id))
  );
  return { ...filter, ids: await Promise.all(meant) };
}

/** Finds the id of the event. An id without an event is kept, and is reported later. */
function eventIdOf(id: string, found: readonly string[]): string {
  if (found.length > 1) {
    throw new UsageError(`${id} is the delivery id of several events: ${found.join(", ")}`);
  }
  return found[0] ?? id;
}
