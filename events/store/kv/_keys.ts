import type { EventRef } from "../event_record.ts";

/** All keys that begin alike. */
export interface Prefix {
  readonly prefix: Deno.KvKey;
}

/**
 * The keys of one store, below its namespace. The keys written for each event are in the order of time: in
 * the order of ids, which are random, an event took 1.6 times the disk's writes (34 KB against 21).
 */
export interface StoreKeys {
  /** The time at which the event of an id was received, which leads to its record. */
  id(id: string): Deno.KvKey;
  /** All ids. */
  readonly ids: Prefix;
  /** An event's record. */
  event(ref: EventRef): Deno.KvKey;
  /** The schedule entry of an event, or of several: it is due at that time. */
  due(dueAt: number, id: string): Deno.KvKey;
  /** The beginning of all schedule entries; a time is next. */
  readonly schedule: Deno.KvKey;
  /** A part of a payload. */
  chunk(payloadId: string, index: number): Deno.KvKey;
  /** All parts of a payload, in their order. */
  chunks(payloadId: string): Deno.KvListSelector;
  /** The record of an ordering group. */
  group(key: string): Deno.KvKey;
  /** A position in an ordering group. */
  position(key: string, position: number): Deno.KvKey;
  /** The beginning of all positions in a group; their numbers are next. */
  positionsIn(key: string): Deno.KvKey;
  /** All ordering groups. */
  readonly orderingGroups: Prefix;
  /** All positions in all ordering groups. */
  readonly positions: Prefix;
  /** The entry of a dead event in the index of those. */
  dead(ref: EventRef): Deno.KvKey;
  /** The beginning of the index of dead events; a time is next. */
  readonly deadIndex: Deno.KvKey;
  /** The mark that the index holds all dead events, those of the first layout among them. */
  readonly deadIndexed: Deno.KvKey;
  /** The event as which a document came to an intake first, by its digest. */
  content(intake: string, digest: Uint8Array): Deno.KvKey;
  /** The records of the events received from a time on, and before another. */
  eventsBetween(after: number, before: number): Deno.KvListSelector;
  /** The mark of a payload that is still being written. */
  upload(payloadId: string): Deno.KvKey;
  /** All marks of payloads that are still being written. */
  readonly uploads: Prefix;
}

/** Makes the keys of the store with a namespace. */
export function storeKeys(namespace: string): StoreKeys {
  return {
    id: (id) => [namespace, "id", id],
    ids: { prefix: [namespace, "id"] },
    event: ({ id, receivedAt }) => [namespace, "event", receivedAt, id],
    eventsBetween: (after, before) => ({
      start: [namespace, "event", after],
      end: [namespace, "event", before],
    }),
    due: (dueAt, id) => [namespace, "due", dueAt, id],
    schedule: [namespace, "due"],
    chunk: (payloadId, index) => [namespace, "payload", payloadId, index],
    chunks: (payloadId) => ({ prefix: [namespace, "payload", payloadId] }),
    group: (key) => [namespace, "lane", key],
    position: (key, position) => [namespace, "place", key, position],
    positionsIn: (key) => [namespace, "place", key],
    orderingGroups: { prefix: [namespace, "lane"] },
    positions: { prefix: [namespace, "place"] },
    dead: ({ id, receivedAt }) => [namespace, "dead", receivedAt, id],
    deadIndex: [namespace, "dead"],
    deadIndexed: [namespace, "indexed", "dead"],
    content: (intake, digest) => [namespace, "content", intake, digest],
    upload: (payloadId) => [namespace, "upload", payloadId],
    uploads: { prefix: [namespace, "upload"] },
  };
}
