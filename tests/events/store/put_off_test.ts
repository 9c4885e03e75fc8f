import { assert, assertEquals } from "@std/assert";
import type { EventRecord } from "../../../events/mod.ts";
import { accepted, leased, replayed } from "../../../events/store/arrival.ts";
import { isEventRecord } from "../../../events/store/event_record.ts";
import {
  canBePutOff,
  MAX_PUT_OFF_MS,
  released,
  retried,
} from "../../../events/store/settlement.ts";
import { delivery } from "./_events.ts";

const NOW = 1_000_000;

const queued = accepted(delivery("d1"), "d1", { id: "p1", size: 7 }, NOW);

const putOff = (record: EventRecord, now: number, reason: unknown = "night") =>
  released(leased(record, { owner: "me", leaseMs: 1 }, now), { delayMs: 700, reason }, now);

Deno.test("released() notes why and since when an event is put off, and counts no attempt", () => {
  const twice = putOff(putOff(queued, NOW + 10), NOW + 900, "morning");
  assertEquals(twice.putOff, { since: NOW + 10, at: NOW + 900, times: 2, reason: "morning" });
  assertEquals([twice.state, twice.attempt, twice.attempts], ["queued", 0, []]);
  assertEquals([twice.dueAt, twice.delayMs], [NOW + 1_600, 700]);
  assert(isEventRecord(twice));
});

Deno.test("a record does not grow with each time that its event is put off", () => {
  let record = retried(
    leased(queued, { owner: "me", leaseMs: 1 }, NOW),
    0,
    new Error("real"),
    NOW,
  );
  for (let i = 0; i < 1_000; i++) record = putOff(record, NOW + i, "x".repeat(9_999));
  assertEquals(record.attempts.map(({ error }) => error), ["Error: real"]);
  assertEquals([record.attempt, record.putOff?.times], [1, 1_000]);
  assertEquals(record.putOff?.reason.length, 1_000);
});

Deno.test("a record with much progress keeps fewer attempts, if its event was put off", () => {
  const text = "\u{1f642}".repeat(500);
  let record: EventRecord = { ...queued, progress: ["x".repeat(36_000)] };
  const fail = (now: number) => {
    record = retried(leased(record, { owner: "me", leaseMs: 1 }, now), 0, text, now);
    return record.attempts.length;
  };
  for (let i = 0; i < 10; i++) fail(NOW + i);
  assertEquals(fail(NOW + 10), 10);
  record = putOff(record, NOW + 11, text);
  assertEquals(fail(NOW + 12), 9);
});

Deno.test("canBePutOff() ends seven days after the first time, by any clock", () => {
  const record = putOff(queued, NOW);
  assert(canBePutOff(queued, NOW + 99 * MAX_PUT_OFF_MS), "it has only waited");
  assert(canBePutOff(record, NOW + MAX_PUT_OFF_MS - 1));
  assertEquals(canBePutOff(record, NOW + MAX_PUT_OFF_MS), false);
  const ahead = putOff(putOff(queued, NOW + 99 * MAX_PUT_OFF_MS), NOW);
  assertEquals(canBePutOff(ahead, NOW + MAX_PUT_OFF_MS), false);
});

Deno.test("replayed() begins anew: the event can be put off for seven days again", () => {
  assertEquals(replayed(putOff(queued, NOW), NOW).putOff, undefined);
});

Deno.test("retried() counts the attempt of an event that one of its handlers puts off", () => {
  const running = leased(queued, { owner: "me", leaseMs: 1 }, NOW);
  const { attempt, attempts, putOff } = retried(running, 9, new Error("no"), NOW, {
    reason: "night",
  });
  assertEquals([attempt, attempts[0]?.error], [1, "Error: no"]);
  assertEquals(putOff, { since: NOW, at: NOW, times: 1, reason: "night" });
});
