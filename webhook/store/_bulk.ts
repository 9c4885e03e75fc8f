import { commit } from "./_commit.ts";
import { Pool } from "./_pool.ts";
import type { FoundEvent } from "./_scan.ts";
import type { Work } from "./_work.ts";

/** How many events share a commit: a remote KV takes 10 checks in one. */
const BATCH_SIZE = 10;

/**
 * How many commits are under way at the same time: a remote KV takes 47 ms for one of this size, however
 * many come at once.
 */
export const CONCURRENCY = 16;

/** What is to be done with an event. */
export interface PlannedChange {
  /** Does it by itself, with as many tries as it needs. Returns whether it was done. */
  readonly alone: () => Promise<boolean>;
  /** Adds it to a commit that checks the event's version; absent where it takes a commit of its own. */
  readonly add?: (operation: Deno.AtomicOperation) => void;
}

/** A change of many events. */
export interface BulkChange {
  /** What is to be done with an event; null if it is not meant. */
  readonly plan: (found: FoundEvent) => PlannedChange | null;
  /** Adds to a shared commit what it does once. Returns what to call if that commit fails. */
  readonly finish?: (operation: Deno.AtomicOperation) => () => void;
}

type Step = FoundEvent & PlannedChange;

/**
 * Changes events, several in one commit, until the work is ended.
 *
 * @throws What a commit throws, once those beside it are through.
 */
export async function changeAll(
  kv: Deno.Kv,
  events: AsyncIterable<FoundEvent>,
  change: BulkChange,
  work: Work,
): Promise<void> {
  const pool = new Pool(CONCURRENCY);
  let batch: Step[] = [];
  const commitBatch = async () => {
    const steps = batch;
    batch = [];
    await pool.add(() => changeTogether(kv, steps, change, work));
  };
  try {
    for await (const found of events) {
      const planned = change.plan(found);
      if (!planned) continue;
      const step = { ...found, ...planned };
      if (!step.add) await pool.add(() => changeEach([step], work));
      else if (batch.push(step) === BATCH_SIZE) await commitBatch();
    }
    if (batch.length > 0 && !work.ended) await commitBatch();
  } finally {
    await pool.done();
  }
}

async function changeTogether(
  kv: Deno.Kv,
  steps: readonly Step[],
  change: BulkChange,
  work: Work,
): Promise<void> {
  const operation = kv.atomic();
  for (const step of steps) {
    operation.check(step);
    step.add?.(operation);
  }
  const undo = change.finish?.(operation);
  const ok = await commit(operation).then((result) => result.ok, (error) => {
    undo?.();
    throw error;
  });
  if (ok) return work.hasChanged(steps.map(({ event }) => event.id));
  undo?.();
  // One that has changed since it was read fails the commit of all.
  await changeEach(steps, work);
}

async function changeEach(steps: readonly Step[], work: Work): Promise<void> {
  for (const { alone, event } of steps) {
    if (work.ended) return;
    if (await alone()) work.hasChanged([event.id]);
  }
}
