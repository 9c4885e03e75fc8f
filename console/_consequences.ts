import type { ActKind, State } from "./_query.ts";

/** Consequences of an act on one event, and on many. */
const CONSEQUENCES: Readonly<Record<ActKind | "goOn" | "stop", readonly [string, string]>> = {
  replay: [
    "It is put back and handled again, from its first attempt. Effects outside of the app happen again.",
    "They are put back and handled again, from their first attempts. Effects outside of the app happen again.",
  ],
  // A dead event goes on.
  goOn: [
    "It is put back with new attempts, and goes on where it failed: what is noted as done stays done, and " +
    "its idempotency keys stay the same. Only what is not noted happens again.",
    "They are put back with new attempts, and go on where they failed: what is noted as done stays done, " +
    "and their idempotency keys stay the same. Only what is not noted happens again. Those that " +
    "somebody has cancelled stay dead: replay them one by one.",
  ],
  cancel: [
    "It is not handled any further. If it runs, its handler is told to stop: what that has done by then stays done. It can be replayed.",
    "They are not handled any further. The handlers of those that run are told to stop: what they have done by then stays done. They can be replayed. " +
    "Where events are handled together, all of them are cancelled with the first one, also those that do not match.",
  ],
  // A running one ends when its handler does.
  stop: [
    "It is not tried again. Its handler is told to stop, and what that has done by then stays done. A handler that does not " +
    "heed this goes on, and keeps its place, until it returns, its time limit is over or its process is restarted. " +
    "The event can be replayed once its handler has ended.",
    "They are not tried again. Their handlers are told to stop, and what those have done by then stays done. A handler that " +
    "does not heed this goes on, and keeps its place, until it returns, its time limit is over or its process is " +
    "restarted. The events can be replayed once their handlers have ended. " +
    "Where events are handled together, all of them are cancelled with the first one, also those that do not match.",
  ],
  purge: [
    "It is deleted with its payload, for good.",
    "They are deleted with their payloads, for good.",
  ],
};

/** Says what an act does to one event in a state, or to many, for people and for programs that ask before. */
export function consequenceOf(kind: ActKind, state: State, on: "one" | "many"): string {
  const isStop = kind === "cancel" && state === "running";
  const [one, many] =
    CONSEQUENCES[kind === "replay" && state === "dead" ? "goOn" : isStop ? "stop" : kind];
  return on === "one" ? one : many;
}
