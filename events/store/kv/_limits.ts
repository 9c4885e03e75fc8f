import { Buffer } from "node:buffer";
import type { Limits, SettlementRoom } from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import { BRIEF_BYTES, jsonBytes } from "../settlement.ts";
import { MAX_PAYLOAD_BYTES, notesOf, partsOf, type StoreKeys } from "./_layout.ts";
import { MAX_BODY_BYTES } from "./_payload.ts";

/**
 * The number of bytes that the records of events and the reports of their deaths take, at most: the commit in which
 * they die holds 819,200, with the first one's record and report of 64 KiB each.
 */
const MAX_DYING_BYTES = 480_000;

/** Bytes of the record of an event that reports a death, beside the first event's id, and of the rest of a report. */
const REPORT_BYTES = 1_400;

/** Number of places with the id of the first event: a member's record, its report, and that one's record. */
const FIRST_IDS = 3;

/** Bytes of an id of a report. It is in three keys. */
const REPORT_ID_BYTES = 96;

/** Bytes of the id of a problem. */
const PROBLEM_ID_BYTES = 16;

/** The bytes that the keys of several events may take: a commit holds 81,920, with the keys of the settlement. */
const MAX_KEY_BYTES = 79_000;

/** Number of keys that have the id of a new event. */
const ID_KEYS = 3;

/** Room beside the settlement of an event: a commit holds 1,000 mutations and 819,200 bytes, and a remote KV 10 checks. */
const ROOM: SettlementRoom = {
  events: 200,
  eventBytes: 600_000,
  idBytes: Math.floor(MAX_KEY_BYTES / ID_KEYS),
  states: 3,
  // A value holds 65,536.
  stateBytes: 65_000,
  wakes: 3,
};

/** A time, as long as any. */
const NOW = 1e12;

/** Tells what a KV can hold. */
export function limitsOf(keys: StoreKeys): Limits {
  return {
    payloadBytes: MAX_PAYLOAD_BYTES,
    bodyBytes: MAX_BODY_BYTES,
    room: ROOM,
    together: (events) => together(keys, events),
  };
}

/** Returns the number of the first ones of some events that fit the commit in which they are settled. */
export function together(keys: StoreKeys, [first, ...behind]: readonly EventRecord[]): number {
  if (!first) return 0;
  let [count, dyingBytes] = [1, 0];
  let keyBytes = keyBytesOf(keys, first);
  for (const record of behind) {
    // Settling another one takes neither a look at its id nor more than its own parts.
    const { idKept, holdsPayload } = notesOf(record);
    if (!idKept || !record.payload || holdsPayload) break;
    dyingBytes += dyingBytesOf(record, first);
    keyBytes += keyBytesOf(keys, record);
    if (dyingBytes > MAX_DYING_BYTES || keyBytes > MAX_KEY_BYTES) break;
    count++;
  }
  return count;
}

/** Calculates the bytes that an event takes at most that dies with the first one of its batch, and is reported. */
function dyingBytesOf({ progress: _, ...record }: EventRecord, first: EventRecord): number {
  // Its report has the same facts, and the same error. Its progress is counted when it dies.
  return 2 * (jsonBytes(record) + BRIEF_BYTES) + FIRST_IDS * jsonBytes(first.id) + REPORT_BYTES;
}

/** Calculates the bytes of the keys that settling an event takes at most, as done or dead. */
function keyBytesOf(keys: StoreKeys, { id, receivedAt, group, payload }: EventRecord): number {
  const own = [keys.event({ id, receivedAt }), keys.id(id)];
  if (group) own.push(keys.position(group.key, NOW));
  const report = { id: "x".repeat(REPORT_ID_BYTES), receivedAt };
  const dead = [keys.dead({ id, receivedAt }), keys.event(report), keys.id(report.id)];
  dead.push(keys.failed("x".repeat(PROBLEM_ID_BYTES), { id, receivedAt }));
  // Of the payload each part is deleted, or its entry written if it is kept.
  const parts = payload ? partsOf(payload.size) * bytesOfKey(keys.part(payload.id, 0)) : 0;
  const doneBytes = parts + bytesOfKey(keys.cell(["kept", NOW, id]));
  const deadBytes = bytesOf([...dead, keys.due(NOW, report.id)]);
  return bytesOf(own) + Math.max(doneBytes, deadBytes);
}

function bytesOf(keys: readonly Deno.KvKey[]): number {
  return keys.reduce((sum, key) => sum + bytesOfKey(key), 0);
}

/** Calculates the bytes of a key: each of its parts has a mark before and behind it. */
function bytesOfKey(key: Deno.KvKey): number {
  return key.reduce<number>(
    (sum, part) => sum + (typeof part === "string" ? Buffer.byteLength(part) + 2 : 10),
    0,
  );
}
