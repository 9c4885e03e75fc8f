/** Steps that are noted at a store, as a worker does. */
import { assertEquals } from "@std/assert";
import type {
  CommitEffects,
  EventRecord,
  EventStore,
  Lease,
  NoteOptions,
} from "../../../events/mod.ts";
import { later } from "./_events.ts";
import type { Place } from "./engines/_engine.ts";

/** Notes a step with its result, as JSON. */
export const noteStep = (
  store: EventStore,
  lease: Lease,
  name: string,
  json: string | undefined = "1",
  effects?: CommitEffects,
  options?: NoteOptions,
): Promise<Lease | null> => store.note(lease, { is: "step", name, json }, effects, options);

/** Notes a handler that is done. */
export const noteHandler = (
  store: EventStore,
  lease: Lease,
  name: string,
  effects?: CommitEffects,
  options?: NoteOptions,
): Promise<Lease | null> => store.note(lease, { is: "handler", name }, effects, options);

/** The names of the steps of an event. */
export const stepsOf = ({ record }: { readonly record: EventRecord }): string[] =>
  (record.steps ?? []).map(({ name }) => name);

/** Checks that no result of a step is left: they are deleted soon after their event has settled. */
export async function assertNoResults({ place }: { readonly place: Place }): Promise<void> {
  const deadline = performance.now() + 5_000;
  while ((await place.contents()).results > 0 && performance.now() < deadline) await later(5);
  assertEquals((await place.contents()).results, 0);
}
