import { assert, assertEquals, assertLess, assertThrows } from "@std/assert";
import { loadCron } from "../../../events/schedules/mod.ts";
import {
  type MissedSlots,
  nextStep,
  type Situation,
  type SlotNote,
  type Step,
} from "../../../events/schedules/slots.ts";

const timesOf = await loadCron();
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Ten minutes past an hour. */
const NOW = Date.parse("2026-11-23T10:10:00Z");
const HOUR = NOW - 600_000;

/** Decides about an hourly schedule. */
function decide(
  note: unknown,
  { expression = "0 * * * *", ...rest }: Partial<Situation> & { expression?: string } = {},
): Step {
  return nextStep(note, {
    ...{ plan: "hourly", times: timesOf("test", expression, "UTC"), missed: "last", now: NOW },
    ...{ since: undefined, owner: "me", retentionMs: 7 * DAY_MS },
    ...rest,
  });
}

function noteAt(at: number, making?: Partial<SlotNote["making"]>): SlotNote {
  const full = { owner: "other", until: HOUR, since: NOW, firstTriedAt: NOW, ...making };
  return { plan: "hourly", at, ...(making && { making: full }) };
}

/** The slots to make, as hours before the last one, and how many are left out. */
function made(step: Step): [number[], number] | string {
  if (step.is !== "make") return step.is;
  return [step.slots.map((slot) => (HOUR - slot) / HOUR_MS), step.left];
}

Deno.test("a new schedule begins now", () => {
  assertEquals(decide(undefined), { is: "begin", note: { plan: "hourly", at: NOW } });
});

Deno.test("a slot is due once, at its minute", () => {
  assertEquals(made(decide(noteAt(HOUR - HOUR_MS), { now: HOUR })), [[0], 0]);
  assertEquals(made(decide(noteAt(HOUR - HOUR_MS), { now: HOUR - 1 })), "nothing");
  assertEquals(made(decide(noteAt(HOUR))), "nothing");
});

Deno.test("missed slots are made up as asked", () => {
  const missed = (missed: MissedSlots, hours: number, now = NOW) =>
    made(decide(noteAt(HOUR - hours * HOUR_MS), { missed, now }));
  assertEquals(missed("last", 3), [[0], 2]);
  assertEquals(missed("none", 3), [[], 3]);
  assertEquals(missed("none", 3, HOUR + 60_000), [[0], 2]);
  assertEquals(missed("all", 3), [[2, 1, 0], 0]);
  assertEquals(missed("all", 130), [[99, 98, 97, 96, 95, 94, 93, 92, 91, 90], 30]);
});

Deno.test("years of missed minutes are not counted one by one", () => {
  const start = performance.now();
  const note = noteAt(NOW - 3_650 * DAY_MS);
  const step = decide(note, { expression: "* * * * *", missed: "all" });
  assert(step.is === "make");
  assertEquals([step.slots.length, step.left, step.hasMore], [10, 1_000, true]);
  assertEquals([step.slots[0], step.made.at], [NOW - 99 * 60_000, NOW - 90 * 60_000]);
  assertLess(performance.now() - start, 2_000);
});

Deno.test("a schedule whose expression has changed begins now, and one beside another version goes on", () => {
  const note = { ...noteAt(HOUR - 5 * HOUR_MS), plan: "daily" };
  assertEquals(decide(note).is, "begin");
  assertEquals(made(decide(note, { since: HOUR - 1 })), [[0], 0]);
  assertEquals(decide(note, { since: HOUR }).is, "nothing");
});

Deno.test("a note that cannot be read stops the schedule", () => {
  for (
    const note of [null, 5, {}, { plan: 5, at: 0 }, { ...noteAt(0), at: NaN }, {
      ...noteAt(0),
      latest: 5,
    }]
  ) {
    for (const since of [undefined, HOUR - 1]) {
      assertThrows(() => decide(note, { since }), Error, "Cannot read the note of the schedule");
    }
  }
});

Deno.test("a clock that is a little ahead stops nothing, and one that is far ahead begins anew", () => {
  assertEquals(decide(noteAt(NOW + 290_000)).is, "nothing");
  const step = decide(noteAt(NOW + 365 * DAY_MS));
  assert(step.is === "begin");
  assertEquals([step.note.at, step.ahead], [NOW, NOW + 365 * DAY_MS]);
});

Deno.test("slots that another instance makes are left to it for ten seconds", () => {
  const step = (since: number, owner = "other") =>
    decide(noteAt(HOUR - HOUR_MS, { since, owner })).is;
  assertEquals(step(NOW - 9_000), "wait");
  assertEquals(step(NOW - 11_000), "make");
  // Of a clock that is ahead.
  assertEquals(step(NOW + DAY_MS), "make");
  assertEquals(step(NOW, "me"), "make");
});

Deno.test("a slot that may have been made longer ago than ids are known is not made again", () => {
  const tried = (firstTriedAt: number) => {
    const making = { since: NOW - 60_000, firstTriedAt, until: HOUR - HOUR_MS };
    return made(
      decide(noteAt(HOUR - 3 * HOUR_MS, making), { missed: "all", retentionMs: HOUR_MS }),
    );
  };
  assertEquals(tried(NOW - HOUR_MS + 1), [[2, 1, 0], 0]);
  assertEquals(tried(NOW - HOUR_MS), [[0], 2]);
});

Deno.test("a further try keeps the time of the first", () => {
  const firstTriedAt = NOW - DAY_MS;
  const step = decide(noteAt(HOUR - HOUR_MS, { since: NOW - 60_000, firstTriedAt }));
  assert(step.is === "make");
  assertEquals(step.making.making, { owner: "me", until: HOUR, since: NOW, firstTriedAt });
  assertEquals(step.made, { plan: "hourly", at: HOUR, latest: [HOUR] });
});
