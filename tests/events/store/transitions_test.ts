import { assert, assertEquals, assertThrows } from "@std/assert";
import type { EventRecord } from "../../../events/mod.ts";
import {
  accepted,
  imported,
  joined,
  joinedLate,
  leased,
  movedUp,
  plannedDelay,
  redelivered,
  renewed,
  replayed,
  rescheduled,
} from "../../../events/store/arrival.ts";
import { isEventRecord } from "../../../events/store/event_record.ts";
import {
  buried,
  cancelled,
  cancelRequested,
  completed,
  hasBegun,
  isCancelRequested,
  progressed,
  released,
  retried,
} from "../../../events/store/settlement.ts";
import { delivery } from "./_events.ts";

const NOW = 5_000;
const PAYLOAD = { id: "p1", size: 7 };
const GROUP = { key: "key", position: 3 };

const queued = accepted(delivery("d1"), "d1", PAYLOAD, 1_000);
const running = leased(queued, { owner: "me", leaseMs: 500 }, 2_000);
const flagged = cancelRequested(running, 2_100);
const dead = buried(running, new Error("no"), 3_000);

/** Checks what all records of a state have in common, and that the store accepts the record's shape. */
function assertState(record: EventRecord, state: string): void {
  assertEquals(record.state, state);
  assertEquals(record.lease !== null, state === "running");
  assertEquals(record.settledAt !== null, state === "done" || state === "dead");
  assertEquals(record.outcome !== undefined, record.settledAt !== null);
  if (record.settledAt !== null) assertEquals([record.dueAt, record.group], [null, null]);
  assert(isEventRecord(record));
}

Deno.test("accepted() makes a queued event that is due at once", () => {
  assertState(queued, "queued");
  assertEquals([queued.dueAt, queued.receivedAt, queued.attempt], [1_000, 1_000, 0]);
  assertEquals(queued.payload, PAYLOAD);
});

Deno.test("joined() puts only the first event of a group on the schedule", () => {
  assertEquals(joined(queued, "key", GROUP, true).dueAt, 1_000);
  const second = joined(queued, "key", GROUP, false);
  assertState(second, "queued");
  assertEquals([second.dueAt, second.group, second.orderingKey], [null, GROUP, "key"]);
});

Deno.test("joinedLate() keeps an event due only if it is the first of its group", () => {
  const later: EventRecord = { ...queued, orderingKey: "key", joinsLater: true, delayMs: 500 };
  const first = joinedLate(later, GROUP, true, NOW);
  assertState(first, "queued");
  assertEquals([first.dueAt, first.group, first.joinsLater], [1_000, GROUP, undefined]);
  const second = joinedLate(later, GROUP, false, NOW);
  assertState(second, "queued");
  assertEquals([second.dueAt, second.group, second.orderingKey], [null, GROUP, "key"]);
  assertEquals(plannedDelay(second), 0);
});

Deno.test("joinedLate() has an event wait for others if it is handled together with them", () => {
  const late = accepted({ ...delivery("d1"), quietMs: 100 }, "d1", PAYLOAD, 1_000);
  const first = joinedLate({ ...late, joinsLater: true }, GROUP, true, NOW);
  assertState(first, "queued");
  // From the time at which it became due.
  const quiet = { quietMs: 100, maxWaitMs: 1_000, since: 1_000, waitedMs: 100, next: 4 };
  assertEquals([first.dueAt, first.delayMs, first.quiet], [1_100, 100, quiet]);
  const second = joinedLate({ ...late, joinsLater: true }, GROUP, false, NOW);
  assertEquals([second.dueAt, second.quiet?.since, second.quiet?.waitedMs], [null, 1_000, 0]);
  // It has lost its position: its batch was determined before.
  const batch = { last: 3, events: 1 };
  assertEquals(joinedLate({ ...late, batch }, GROUP, true, NOW).dueAt, 1_000);
});

Deno.test("movedUp() makes the next event of a group due", () => {
  const next = movedUp(joined(queued, "key", GROUP, false), 4_000, {
    isFirst: true,
  })!;
  assertState(next, "queued");
  assertEquals([next.dueAt, plannedDelay(next)], [4_000, 0]);
});

Deno.test("leased() begins an attempt", () => {
  assertState(running, "running");
  assertEquals([running.attempt, running.dueAt, running.attempts], [1, 2_500, []]);
  assertEquals(running.lease, { owner: "me", until: 2_500, ms: 500, startedAt: 2_000 });
});

Deno.test("leased() ends the attempt before whose lease has expired", () => {
  const again = leased(running, { owner: "other", leaseMs: 500 }, 2_600);
  assertState(again, "running");
  const [{ error, ...expired }] = again.attempts as [EventRecord["attempts"][number]];
  assertEquals(expired, { attempt: 1, startedAt: 2_000, endedAt: 2_600, outcome: "expired" });
  assertEquals([again.attempt, error?.split(":")[0]], [2, "Lease expired"]);
});

Deno.test("renewed() lengthens a lease, and keeps the start of its attempt", () => {
  const longer = renewed(running, 900, 2_400);
  assertState(longer, "running");
  assertEquals(longer.lease, { owner: "me", until: 3_300, ms: 900, startedAt: 2_000 });
  assertEquals(longer.dueAt, 3_300);
});

Deno.test("progressed() adds a handler", () => {
  assertEquals(progressed(progressed(running, "a"), "b").progress, ["a", "b"]);
});

Deno.test("progressed() refuses a handler of a cancelled event", () => {
  assertThrows(() => progressed(flagged, "a"), Error, "the event was cancelled");
});

Deno.test("completed() settles an event, whose payload is needed no more", () => {
  const done = completed(running, 3_000);
  assertState(done, "done");
  assertEquals([done.outcome, done.payload, done.settledAt], ["handled", null, 3_000]);
  assertEquals(done.attempts, [
    { attempt: 1, startedAt: 2_000, endedAt: 3_000, outcome: "handled" },
  ]);
});

Deno.test("retried() gives an event back after a delay, with its error", () => {
  const later = retried(running, 700, new TypeError("no luck"), 3_000);
  assertState(later, "queued");
  assertEquals([later.dueAt, later.delayMs, later.attempt], [3_700, 700, 1]);
  assertEquals(later.attempts[0]?.error, "TypeError: no luck");
});

Deno.test("released() gives an event back, and its attempt does not count", () => {
  const again = released(running, {}, 3_000);
  assertState(again, "queued");
  assertEquals([again.dueAt, again.attempt, again.attempts], [3_000, 0, []]);
});

Deno.test("buried() gives an event up, with its payload and error", () => {
  assertState(dead, "dead");
  assertEquals([dead.outcome, dead.payload], ["failed", PAYLOAD]);
  assertEquals(dead.attempts[0]?.error, "Error: no");
});

Deno.test("cancelled() settles an event, and ends its attempt if it runs", () => {
  assertState(cancelled(queued, 3_000), "dead");
  assertEquals(cancelled(queued, 3_000).attempts, []);
  const ended = cancelled(running, 3_000);
  assertState(ended, "dead");
  assertEquals([ended.outcome, ended.attempts[0]?.outcome], ["cancelled", "cancelled"]);
});

Deno.test("cancelRequested() flags a running event, and changes nothing else", () => {
  const { cancelRequestedAt, ...rest } = flagged;
  assertEquals([cancelRequestedAt, { ...rest }], [2_100, { ...running }]);
  assert(isCancelRequested(flagged));
});

const ENDS: Readonly<Record<string, (record: EventRecord) => EventRecord>> = {
  completed: (record) => completed(record, 3_000),
  retried: (record) => retried(record, 0, "no", 3_000),
  released: (record) => released(record, {}, 3_000),
  buried: (record) => buried(record, "no", 3_000),
};

for (const [name, end] of Object.entries(ENDS)) {
  Deno.test(`${name}() cancels an event that was flagged`, () => {
    for (const record of [flagged, renewed(flagged, 500, 2_200)]) {
      const ended = end(record);
      assertState(ended, "dead");
      assertEquals([ended.outcome, ended.payload], ["cancelled", PAYLOAD]);
    }
  });
}

Deno.test("replayed() puts a dead event back as if it had just been received", () => {
  for (const record of [dead, cancelled(flagged, 3_000)]) {
    const again = replayed(record, 5_000);
    assertState(again, "queued");
    assertEquals([again.dueAt, again.attempt, again.run], [5_000, 0, 1]);
    assertEquals(again.attempts.length, 1);
    assertEquals(completed(leased(again, { owner: "me", leaseMs: 1 }, 6_000), 7_000).state, "done");
  }
});

Deno.test("replayed() has an event that was to join later join its group at once", () => {
  const later = cancelled({ ...queued, orderingKey: "key", joinsLater: true }, 3_000);
  assertEquals(replayed(later, 5_000).joinsLater, undefined);
});

Deno.test("replayed() begins a done event anew, with a run of its own for its keys", () => {
  const begun = { ...running, progress: ["part"], isBegun: true, run: 2 };
  const done = completed(begun, 3_000);
  const again = replayed(done, 5_000, { payload: PAYLOAD });
  const { state, run, keyRun, progress, isBegun, payload, attempt, outcome, settledAt } = again;
  assertEquals(
    { state, run, keyRun, progress, isBegun, payload, attempt, outcome, settledAt },
    {
      ...{ state: "queued", run: 3, keyRun: 3, progress: undefined, isBegun: undefined },
      ...{ payload: PAYLOAD, attempt: 0, outcome: undefined, settledAt: null },
    },
  );
  assertEquals(hasBegun(again), false);
  assertEquals(
    hasBegun(retried(leased(again, { owner: "me", leaseMs: 1 }, 6_000), 0, "no", 6_001)),
    true,
  );
});

Deno.test("replayed() of a dead event and redelivered() keep the run of its keys", () => {
  const dead = buried({ ...running, run: 4, keyRun: 2 }, "no", 3_000);
  assertEquals(replayed(dead, 5_000).keyRun, 2);
  assertEquals(redelivered(accepted(delivery("d1"), "d1", PAYLOAD, 9_000), dead).keyRun, 2);
});

Deno.test("redelivered() keeps the progress of the dead event, and nothing else", () => {
  const before = { ...dead, progress: ["a"], run: 2 };
  const again = redelivered(accepted(delivery("d1"), "d1", PAYLOAD, 9_000), before);
  assertState(again, "queued");
  assertEquals([again.receivedAt, again.progress, again.run], [9_000, ["a"], 3]);
  assertEquals(again.attempts, []);
});

const heard = accepted(
  { ...delivery("d1"), newer: "interrupt", interrupt: { steps: "drop" } },
  "d1",
  PAYLOAD,
  1_000,
);

Deno.test("accepted() notes the rule for newer events, and that its event interrupts", () => {
  assertState(heard, "queued");
  assertEquals(heard.newer, { mode: "interrupt", steps: "drop", maxInterrupts: 10 });
  assertEquals([heard.interrupts, heard.quiet?.quietMs, heard.quiet?.together], [true, 0, "all"]);
  const steered = accepted({ ...delivery("d1"), newer: "steer" }, "d1", PAYLOAD, 1_000);
  assertEquals([steered.newer, steered.interrupts], [{ mode: "steer" }, undefined]);
});

Deno.test("accepted() notes nothing of newer events that wait", () => {
  const plain = JSON.parse(JSON.stringify(accepted(delivery("d1"), "d1", PAYLOAD, 1_000)));
  const waits = accepted({ ...delivery("d1"), newer: "wait" }, "d1", PAYLOAD, 1_000);
  assertEquals(JSON.parse(JSON.stringify(waits)), plain);
  assert(!("newer" in plain) && !("interrupts" in plain) && !("quiet" in plain));
});

Deno.test("an event that comes back interrupts no other one, and can be interrupted", () => {
  const dead = buried(leased(heard, { owner: "me", leaseMs: 500 }, 2_000), "no", 3_000);
  const again = replayed({ ...dead, interrupted: { times: 3, by: "d2", at: 2_500 } }, 5_000);
  assertEquals([again.interrupts, again.interrupted, again.newer], [
    undefined,
    undefined,
    heard.newer,
  ]);
  assertEquals(imported(heard, PAYLOAD, 5_000).interrupts, undefined);
  assertEquals(redelivered(heard, dead).interrupts, true);
});

Deno.test("rescheduled() has an event wait for its planned delay from now on", () => {
  const retriedAhead = retried(running, 700, "no", 1e9);
  assertEquals(rescheduled(retriedAhead, 4_000).dueAt, 4_700);
  const leasedAhead = rescheduled(leased(queued, { owner: "me", leaseMs: 500 }, 1e9), 4_000);
  assertState(leasedAhead, "running");
  assertEquals([leasedAhead.dueAt, leasedAhead.lease?.until], [4_500, 4_500]);
});

Deno.test("a record keeps the last ten attempts", () => {
  let record: EventRecord = queued;
  for (let i = 0; i < 12; i++) {
    record = retried(leased(record, { owner: "me", leaseMs: 1 }, i), 0, "no", i);
  }
  assertEquals(record.attempts.map(({ attempt }) => attempt), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
});

Deno.test("imported() makes a running event queued, and a flagged one dead", () => {
  const given = imported(running, PAYLOAD, 5_000);
  assertState(given, "queued");
  assertEquals([given.attempt, given.dueAt, given.isBegun], [0, 5_000, true]);
  const ended = imported(flagged, PAYLOAD, 5_000);
  assertState(ended, "dead");
  assertEquals([ended.outcome, ended.payload], ["cancelled", PAYLOAD]);
});

Deno.test("imported() keeps a delay, and leaves the ordering group", () => {
  const retriedThen = retried(running, 4_000, new Error("once"), 3_000);
  assertEquals(imported(retriedThen, PAYLOAD, 5_000).dueAt, 7_000);
  assertEquals(imported(retriedThen, PAYLOAD, 9_000).dueAt, 9_000);
  assertEquals(imported(retriedThen, PAYLOAD, 1_000).dueAt, 5_000);
  const waiting = joined(queued, "key", GROUP, false);
  const given = imported(waiting, PAYLOAD, 5_000);
  assertEquals([given.group, given.orderingKey, given.dueAt], [null, "key", 5_000]);
});

Deno.test("imported() leaves settled events as they are", () => {
  for (const record of [dead, completed(running, 3_000)]) {
    assertEquals(imported(record, record.payload, 9_000), record);
  }
});
