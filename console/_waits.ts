/**
 * Waits of parked events: what they wait for, and the answers that are there but that no worker has taken yet.
 *
 * @module
 */
import type { EventStore, StoredEvent, UntakenAnswer } from "../events/mod.ts";
import { questionNameOf } from "../events/store/questions.ts";
import { recordOf } from "./_format.ts";

/** Thing that an event waits for: the answer to a question, a time, or any other name. */
export type Awaited = "answer" | "time" | "name";

/** Answer that a parked event gets when it is claimed. */
export type WaitingAnswer = Pick<UntakenAnswer, "at" | "value" | "by">;

/** Tells what kind of thing a name stands for. */
export function awaitedBy(name: string): Awaited {
  if (questionNameOf(name) !== undefined) return "answer";
  return name.startsWith("sleep/") ? "time" : "name";
}

/** Names the act that ends a wait. */
export const endOf = (waitsFor: Awaited): "answer" | "wake" =>
  waitsFor === "answer" ? "answer" : "wake";

/**
 * Reads the answers that parked events get when they are claimed: until then their records say nothing of them. It
 * takes one read for all names, and one for each answer.
 *
 * @param store The store.
 * @param events The events, of all states.
 * @returns The answers, by the ids of the events.
 */
export async function readAnswers(
  store: Pick<EventStore, "answers">,
  events: readonly StoredEvent[],
): Promise<ReadonlyMap<string, WaitingAnswer>> {
  const ids = new Map(events.flatMap((event) => {
    const { state, waitingFor } = recordOf(event) ?? {};
    return state === "parked" && waitingFor ? [[waitingFor.name, event.id]] : [];
  }));
  const answers = new Map<string, WaitingAnswer>();
  if (ids.size === 0) return answers;
  for await (const { name, at, value, by, eventId } of store.answers({ names: [...ids.keys()] })) {
    const id = ids.get(name)!;
    if (eventId === id) answers.set(id, { at, value, by });
  }
  return answers;
}
