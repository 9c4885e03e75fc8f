import { openEventStore } from "../../mod.ts";
import { memoryOf } from "../apps/_memory.ts";
import { delivery } from "../events/store/_events.ts";
import { until } from "../../dev/harness/until.ts";
import { startProcess } from "./_process.ts";

/** Number of events that are taken in at a time. */
const BATCH = 500;

/** A backlog that is not drained by then never will be. */
const DRAIN_TIMEOUT_MS = 600_000;

/**
 * Has V8 collect garbage before much of it comes together: by default it lets 60 to 70 MB of it, however
 * small the backlog, and one could not see what is held.
 */
const SMALL_YOUNG_GENERATION = "--v8-flags=--max-semi-space-size=1";

/** Figures of a drained backlog. */
export interface Drain {
  readonly eventsPerSecond: number;
  /** Memory that the process held at most beyond what it holds when idle, in megabytes. */
  readonly mostMb: number;
}

/** Stores a number of small events in a file, and has a process handle them. */
export async function drainBacklog(path: string, events: number): Promise<Drain> {
  await fill(path, events);
  await using idle = await startProcess({ kv: ":memory:" }, SMALL_YOUNG_GENERATION);
  const idleMb = (await memoryOf(idle.process)).peak;
  await using app = await startProcess({ kv: path }, SMALL_YOUNG_GENERATION);
  const ms = await until(() => app.count("end") >= events, DRAIN_TIMEOUT_MS);
  const mostMb = Math.round((await memoryOf(app.process)).peak - idleMb);
  return { eventsPerSecond: Math.round(events / (ms / 1_000)), mostMb };
}

async function fill(path: string, events: number): Promise<void> {
  using kv = await Deno.openKv(path);
  const store = await openEventStore(kv, { notifier: "watch" });
  for (let i = 0; i < events; i += BATCH) {
    const ids = Array.from({ length: Math.min(BATCH, events - i) }, (_, k) => `d${i + k}`);
    await Promise.all(ids.map((id) => store.accept(delivery(id))));
  }
}
