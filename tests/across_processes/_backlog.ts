import type { EventStore } from "../../mod.ts";
import { memoryOf } from "../apps/_memory.ts";
import { delivery } from "../events/store/_events.ts";
import { until } from "../../dev/harness/until.ts";
import type { EngineUnderTest, Place, StoreAddress } from "../events/store/engines/_engine.ts";
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

/** Stores a number of small events, and has a process handle them. */
export async function drainBacklog(engine: EngineUnderTest, events: number): Promise<Drain> {
  await using empty = await engine.shared.open();
  await using place = await engine.shared.open();
  await fill(await place.open(), events);
  place.close();
  const addressOf = ({ address }: Place): StoreAddress => ({
    engine: engine.name,
    address: address!,
  });
  await using idle = await startProcess({ at: addressOf(empty) }, SMALL_YOUNG_GENERATION);
  const idleMb = (await memoryOf(idle.process)).peak;
  await using app = await startProcess({ at: addressOf(place) }, SMALL_YOUNG_GENERATION);
  const ms = await until(() => app.count("end") >= events, DRAIN_TIMEOUT_MS);
  const mostMb = Math.round((await memoryOf(app.process)).peak - idleMb);
  return { eventsPerSecond: Math.round(events / (ms / 1_000)), mostMb };
}

async function fill(store: EventStore, events: number): Promise<void> {
  for (let i = 0; i < events; i += BATCH) {
    const ids = Array.from({ length: Math.min(BATCH, events - i) }, (_, k) => `d${i + k}`);
    await Promise.all(ids.map((id) => store.accept(delivery(id))));
  }
}
