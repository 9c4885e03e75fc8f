import { assertEquals } from "@std/assert";
import type { EventStore } from "../../../events/mod.ts";
import type { Completion } from "./_history.ts";
import type { SimulatedPlace, Written } from "./_simulated_place.ts";

/** Value that the settlement of an event leaves beside the store, below `effects`. */
export type Effect = Omit<Completion, "step"> & {
  /** Names of the events that were emitted by it. */
  readonly children?: readonly string[];
};

/** Value that a part of an event's handling leaves beside the store, below `parts`. */
export type Part = Required<Pick<Effect, "children">>;

const valueOf = <T>({ value }: Written) => JSON.parse(String(value)) as T;

/**
 * Checks that what settled handlers and noted parts have emitted was handled, once, and nothing else.
 *
 * @param place The place.
 * @param isWhole False if entries have vanished: an event that has lost its place in a batch is handled again.
 */
export async function assertChildren(place: SimulatedPlace, isWhole = true): Promise<void> {
  const emitting = [...await place.written("effects"), ...await place.written("parts")];
  const emitted = emitting.flatMap((each) => valueOf<Effect>(each).children ?? []);
  const children = await place.written("children");
  const counted = children.map(({ name, value }) => `${name} ${isWhole ? value : 1}`);
  assertEquals(counted.toSorted(), emitted.map((child) => `${child} 1`).toSorted());
}

/** Reads what settlements have left beside the store, with the steps in which they were committed. */
export async function completionsIn(place: SimulatedPlace): Promise<Completion[]> {
  const effects = await place.written("effects");
  // Those of one commit are in the order of their events.
  effects.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return effects.map((each) => ({ ...valueOf<Effect>(each), step: each.step }));
}

/** Reads how the events of a store stand that were sent, by their ids. */
export async function statesIn(store: EventStore): Promise<Map<string, string>> {
  const states = new Map<string, string>();
  for await (const event of store.list()) {
    if (!("causedBy" in event)) states.set(event.id, event.state);
  }
  return states;
}

/** Reads which events of a store were settled together with another one. */
export async function handledWithIn(store: EventStore): Promise<Map<string, string>> {
  const settled = new Map<string, string>();
  for await (const event of store.list()) {
    if (event.state === "unreadable" || event.handledWith === undefined) continue;
    settled.set(event.id, event.handledWith);
  }
  return settled;
}

/** The beginning of the names of states that handlers count in. */
export const COUNTING = "count/";

/** Reads how many events of each key the handlers have counted. */
export async function countsIn(store: EventStore): Promise<Record<string, number>> {
  const states = await Array.fromAsync(
    store.states({ prefix: COUNTING }),
    ({ key, value }) => [key.slice(COUNTING.length), value as number],
  );
  return Object.fromEntries(states);
}
