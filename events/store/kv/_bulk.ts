import { Pool } from "./_pool.ts";
import type { FoundEvent } from "./_scan.ts";
import type { Work } from "./_work.ts";

/** How many events are changed at the same time: so many share a commit. */
export const CONCURRENCY = 100;

/**
 * Changes events until the work is ended.
 *
 * @param events The events.
 * @param change Changes one; false if it is not meant, or not any more.
 * @param work Counts what was changed.
 * @throws What a change throws, once those beside it are through.
 */
export async function changeAll(
  events: AsyncIterable<FoundEvent>,
  change: (found: FoundEvent) => Promise<boolean>,
  work: Work,
): Promise<void> {
  const pool = new Pool(CONCURRENCY);
  try {
    for await (const found of events) {
      await pool.add(async () => {
        if (!work.ended && await change(found)) work.hasChanged([found.event.id]);
      });
    }
  } finally {
    await pool.done();
  }
}
