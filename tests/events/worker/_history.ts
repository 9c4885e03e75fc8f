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
  readonly step: number;
}

/** All that has happened. */
export interface History {
  readonly handlings: Handling[];
  readonly joins: Join[];
  readonly cancels: Intervention[];
  readonly purges: Intervention[];
}

/** Outcome of a history, once nothing waits any more: the completions, and the states by id. */
export interface Outcome {
  readonly completions: readonly Completion[];
  readonly states: ReadonlyMap<string, string>;
}

/** Checks the guarantees. */
export function assertGuarantees(history: History, outcome: Outcome): void {
  const all = { ...history, ...outcome };
  assertNothingLost(all);
  assertOnce(all);
  assertNotTwiceAtOnce(all);
  assertCancelled(all);
  assertInOrder(all);
}

type All = History & Outcome;

/** Checks that an acknowledged event is done or was cancelled, and still exists unless it was purged. */
function assertNothingLost(all: All): void {
  const { joins, cancels, purges, completions, states } = all;
  const has = (list: readonly { id: string }[], id: string) => list.some((each) => each.id === id);
  for (
    const id of new Set(joins.filter(({ isAcknowledged }) => isAcknowledged).map(({ id }) => id))
  ) {
    const state = states.get(id) ?? "nothing";
    assert(state === "done" || state === "dead" || has(purges, id), `${id} is lost: ${state}`);
    assert(state !== "dead" || has(cancels, id), `${id} died`);
    assert(state !== "done" || has(completions, id), `${id} is done without its effects`);
    assert(has(completions, id) || has(cancels, id), `${id} was never handled`);
  }
  for (const id of states.keys()) assert(has(joins, id), `${id} was never sent`);
}

/** A delivery has its effects once, and its id has them again only after it was forgotten. */
function assertOnce({ completions, purges }: All): void {
  const deliveries = new Set(completions.map(({ delivery }) => delivery));
  assert(deliveries.size === completions.length, "a delivery had its effects twice");
  for (const { id, later, earlier } of pairs(completions)) {
    if (later.id !== id) continue;
    const between = (purge: Intervention) =>
      purge.id === id && purge.to >= earlier.step && purge.from <= later.step;
    assert(purges.some(between), `${id} had its effects twice`);
  }
}

/** Two handlings of an event, or of a key, also where the first was cancelled: its handler may go on. */
function assertNotTwiceAtOnce({ handlings }: History): void {
  for (const [i, one] of handlings.entries()) {
    for (const other of handlings.slice(i + 1).filter(({ from }) => from <= one.to)) {
      const same = one.id === other.id || (one.key !== undefined && one.key === other.key);
      assert(!same, `${other.id} was handled beside ${one.id}`);
    }
  }
}

/** Checks that a cancelled event is not done afterwards, unless it was sent again or replayed. */
function assertCancelled({ cancels, completions, joins }: All): void {
  for (const { id, from, to } of cancels) {
    for (const completion of completions.filter((each) => each.id === id && each.step > to)) {
      assert(joinOf(completion, joins).to >= from, `${id} was done although it was cancelled`);
    }
  }
}

/** Of two events of a key, the one that has joined first is done first. */
function assertInOrder({ completions, joins }: All): void {
  for (const { earlier, later } of pairs(completions)) {
    if (earlier.key === undefined || earlier.key !== later.key) continue;
    const [first, second] = [joinOf(earlier, joins), joinOf(later, joins)];
    assert(second.to >= first.from, `${earlier.id} was done before ${later.id}`);
  }
}

/** Finds the last time that an event joined the queue before it was done. */
function joinOf({ id, delivery, step }: Completion, joins: readonly Join[]): Join {
  const its = joins.filter((join) =>
    join.id === id && join.from <= step &&
    (join.delivery === undefined || join.delivery === delivery)
  );
  assert(its.length > 0, `${id} was done and never sent`);
  return its.reduce((last, join) => join.from > last.from ? join : last);
}

/** All pairs of completions, in the order of their steps. */
function* pairs(completions: readonly Completion[]) {
  const sorted = completions.toSorted((a, b) => a.step - b.step);
  for (const [i, earlier] of sorted.entries()) {
    for (const later of sorted.slice(i + 1)) yield { id: earlier.id, earlier, later };
  }
}
