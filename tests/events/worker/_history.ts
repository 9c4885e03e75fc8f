import { assert } from "@std/assert";

/** Steps between which something took place. */
export interface Span {
  readonly from: number;
  to: number;
}

/** One run of a handler, from its call to its end. */
export interface Handling extends Span {
  readonly id: string;
  readonly key: string | undefined;
}

/** Acceptance or replay of an event, which joined the queue in one of these steps. */
export interface Join extends Span {
  readonly id: string;
  /** Number of the delivery; undefined for a replay. */
  readonly delivery?: number;
  /** True if the sender got the answer that the event is stored. */
  readonly isAcknowledged: boolean;
}

/** Cancellation or purge of an event, in one of these steps. */
export interface Intervention extends Span {
  readonly id: string;
}

/** Run of a handler that was settled as done, as its effects in the KV show. */
export interface Completion {
  readonly id: string;
  readonly key: string | undefined;
  readonly delivery: number;
  /** True if it was handled together with an earlier event, which was settled with this one. */
  readonly isMember?: boolean;
  readonly step: number;
}

/** Value that a name was woken with, or may have been. */
export interface Answer {
  readonly name: string;
  readonly value: number;
  /** Event that was woken; undefined if that is not known. */
  readonly eventId: string | undefined;
  readonly at: number;
}

/** Result of a wait, as a handler has got it. */
export interface Result {
  readonly id: string;
  readonly name: string;
  /** Value; undefined if the time had passed. */
  readonly value: number | undefined;
}

/** All that has happened. */
export interface History {
  readonly wakes: Answer[];
  readonly results: Result[];
  readonly handlings: Handling[];
  readonly joins: Join[];
  readonly cancels: Intervention[];
  readonly purges: Intervention[];
  /** Set if done events can be replayed. */
  readonly isKeeping?: boolean;
  /** The number of events of a key that are handled at a time; 1 if undefined. */
  readonly places?: number | undefined;
}

/** Outcome of a history, once nothing waits any more: the completions, and the states by id. */
export interface Outcome {
  readonly completions: readonly Completion[];
  readonly states: ReadonlyMap<string, string>;
  /** Ids of the events that were settled together with another one, and the id of that one. */
  readonly handledWith: ReadonlyMap<string, string>;
}

/**
 * Checks the guarantees.
 *
 * @param isWhole False if entries have vanished: nothing is lost, but a group has not its order for a while, and
 * an event that has lost its place in a batch is handled again.
 */
export function assertGuarantees(history: History, outcome: Outcome, isWhole = true): void {
  const all = { ...history, ...outcome };
  assertNothingLost(all);
  assertCancelled(all);
  assertAnswered(all);
  if (!isWhole) return;
  assertOnce(all);
  assertNotTwiceAtOnce(all);
  if ((history.places ?? 1) === 1) assertInOrder(all);
}

type All = History & Outcome;

/** Checks that an acknowledged event is done or was cancelled, and still exists unless it was purged. */
function assertNothingLost(all: All): void {
  const { joins, cancels, purges, completions, states, handledWith } = all;
  const has = (list: readonly { id: string }[], id: string) => list.some((each) => each.id === id);
  for (
    const id of new Set(joins.filter(({ isAcknowledged }) => isAcknowledged).map(({ id }) => id))
  ) {
    const state = states.get(id) ?? "nothing";
    assert(state === "done" || state === "dead" || has(purges, id), `${id} is lost: ${state}`);
    // Which event a purged one was cancelled with is not known any more.
    const isCancelled = has(cancels, id) || has(cancels, handledWith.get(id) ?? "") ||
      cancels.some(({ from }) => purges.some((purge) => purge.id === id && purge.to >= from));
    assert(state !== "dead" || isCancelled, `${id} died`);
    assert(state !== "done" || has(completions, id), `${id} is done without its effects`);
    assert(has(completions, id) || isCancelled, `${id} was never handled`);
  }
  for (const id of states.keys()) assert(has(joins, id), `${id} was never sent`);
}

/** A delivery has its effects once, and its id has them again only after it was forgotten or replayed. */
function assertOnce({ completions: all, cancels, purges, joins, isKeeping = false }: All): void {
  const completions = all.filter((each) => !isCancelledMember(each, cancels));
  const replays = isKeeping ? joins.filter(({ delivery }) => delivery === undefined) : [];
  for (const { id, later, earlier } of pairs(completions)) {
    if (later.id !== id) continue;
    const between = (change: Intervention) =>
      change.id === id && change.to >= earlier.step && change.from <= later.step;
    if (replays.some(between)) continue;
    assert(later.delivery !== earlier.delivery, "a delivery had its effects twice");
    assert(purges.some(between), `${id} had its effects twice`);
  }
}

/** An event that is cancelled while it is handled with others: their effects may be of that one, too. */
function isCancelledMember(
  { id, isMember = false }: Completion,
  cancels: readonly Intervention[],
): boolean {
  return isMember && cancels.some((cancel) => cancel.id === id);
}

/**
 * Two handlings of an event, or more of a key than it has places, also where one was cancelled: its handler may go on.
 */
function assertNotTwiceAtOnce({ handlings, places = 1 }: History): void {
  for (const [i, other] of handlings.entries()) {
    // Handlings are in the order in which they have begun.
    const beside = handlings.slice(0, i).filter(({ to }) => other.from <= to);
    for (const one of beside) assert(one.id !== other.id, `${other.id} was handled beside itself`);
    const ofKey = other.key === undefined ? [] : beside.filter(({ key }) => key === other.key);
    assert(ofKey.length < places, `${other.id} was handled beside ${ofKey.map(({ id }) => id)}`);
  }
}

/** Checks that a cancelled event is not done afterwards, unless it was sent again or replayed. */
function assertCancelled({ cancels, completions, joins }: All): void {
  for (const { id, from, to } of cancels) {
    const after = completions.filter((each) => each.id === id && each.step > to && !each.isMember);
    for (const completion of after) {
      const isSentAgain = joinsOf(completion, joins).some((join) => join.to >= from);
      assert(isSentAgain, `${id} was done although it was cancelled`);
    }
  }
}

/** Of two events of a key, the one that has joined first is done first. */
function assertInOrder({ completions: all, cancels, joins, results }: All): void {
  const completions = all.filter((each) => !isCancelledMember(each, cancels));
  for (const { earlier, later } of pairs(completions)) {
    if (earlier.key === undefined || earlier.key !== later.key) continue;
    // One that has waited has left its group, and joined it again.
    if (results.some(({ id }) => id === earlier.id || id === later.id)) continue;
    const [first, second] = [joinsOf(earlier, joins), joinsOf(later, joins)];
    const isInOrder = first.some(({ from }) => second.some(({ to }) => to >= from));
    assert(isInOrder, `${earlier.id} was done before ${later.id}`);
  }
}

/** A wait has one result, until its event is put back after it was cancelled, and no answer is lost. */
function assertAnswered({ wakes, results, cancels, purges }: All): void {
  const wasEnded = (id: string) => [...cancels, ...purges].some((each) => each.id === id);
  for (const { id, name, value } of results) {
    const isKnown = wakes.some((each) => each.name === name && each.value === value);
    assert(value === undefined || isKnown, `${name} was answered by nobody`);
    const others = results.filter((each) => each.name === name && each.value !== value);
    assert(others.length === 0 || wasEnded(id), `${name} has two results`);
  }
  for (const { name, value, eventId } of wakes) {
    if (eventId === undefined || wasEnded(eventId)) continue;
    const isTaken = results.some((each) => each.name === name && each.value === value);
    assert(isTaken, `the answer to ${name} is lost`);
  }
}

/**
 * Finds with which of the times that an event joined the queue it was done: with the last one, or with one
 * before, if what came after may have taken place only once it was done.
 */
function joinsOf({ id, delivery, step }: Completion, joins: readonly Join[]): Join[] {
  const its = joins.filter((join) =>
    join.id === id && join.from <= step &&
    (join.delivery === undefined || join.delivery === delivery)
  );
  assert(its.length > 0, `${id} was done and never sent`);
  const isLast = (join: Join) => !its.some(({ from, to }) => from > join.to && to <= step);
  return its.filter(isLast);
}

/** All pairs of completions, in the order of their steps. */
function* pairs(completions: readonly Completion[]) {
  const sorted = completions.toSorted((a, b) => a.step - b.step);
  for (const [i, earlier] of sorted.entries()) {
    for (const later of sorted.slice(i + 1)) yield { id: earlier.id, earlier, later };
  }
}
