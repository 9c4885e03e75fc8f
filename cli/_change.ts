import type { BulkOptions, BulkResult, EventFilter, EventStore } from "../events/mod.ts";
import type { CommandName } from "./_commands.ts";
import type { CliOptions } from "./_options.ts";
import { ProgressLine } from "./_progress.ts";
import type { CliWorld } from "./_world.ts";

/** How a command changes events. */
interface Way {
  readonly done: string;
  readonly run: (
    store: EventStore,
    filter: EventFilter,
    options: BulkOptions,
  ) => Promise<BulkResult>;
}

/** The commands that change events. */
export const WAYS = {
  replay: {
    done: "replayed",
    run: (store, filter, options) => store.replayAll(filter, options),
  },
  cancel: {
    done: "cancelled",
    run: (store, filter, options) => store.cancelAll(filter, options),
  },
  purge: {
    done: "purged",
    run: (store, filter, options) => store.purge(filter, options),
  },
} as const satisfies Partial<Record<CommandName, Way>>;

/** Ended by the one who started it. */
export class InterruptedError extends Error {}

/** Changes events, and writes how many, and which of the given ids are left. */
export async function change(
  { done, run }: Way,
  store: EventStore,
  { filter, json }: CliOptions,
  world: CliWorld,
): Promise<boolean> {
  const { out, terminal, onInterrupt } = world;
  const line = new ProgressLine(terminal, done);
  const ending = new AbortController();
  const forget = onInterrupt(() => ending.abort());
  const { signal } = ending;
  const { changed, left } = await run(store, filter, { onProgress: line.show, signal })
    .catch((error) => {
      throw new Error(`${line.changed} ${done}, then: ${messageOf(error)}`, { cause: error });
    })
    .finally(() => {
      forget();
      line.clear();
    });
  const interrupted = signal.aborted && { interrupted: true };
  if (json) out(JSON.stringify({ [done]: changed, left, ...interrupted }));
  else {
    out(`${changed} ${done}${interrupted ? ", interrupted" : ""}`);
    for (const id of left) out(`not ${done}: ${id} (${await whyLeft(store, filter, id)})`);
  }
  if (interrupted) throw new InterruptedError();
  return left.length === 0;
}

async function whyLeft(store: EventStore, filter: EventFilter, id: string): Promise<string> {
  for await (const { state } of store.list({ ...filter, ids: [id] })) return `it is ${state}`;
  for await (const _ of store.list({ ids: [id] })) return "the filter leaves it out";
  return "there is no such event";
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
