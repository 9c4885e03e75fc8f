import { CursorError, type Engine, type Scan, type Tidying, type Visit } from "../engine.ts";
import { StoreCheck } from "./_check.ts";
import { countEvents } from "./_counts.ts";
import { readDuePage } from "./_due.ts";
import { eventOf, findEvents, refOf } from "./_layout.ts";
import { limitsOf } from "./_limits.ts";
import { placeIn, textOfPlace } from "./_open_events.ts";
import { readPart, repairGroups } from "./_ordering_groups.ts";
import { placeOf, type StoreParts } from "./_parts.ts";
import { deleteStaleUploads, loadPayload, upload } from "./_payload.ts";
import { isGap, list } from "./_reads.ts";
import { EventScan, type Place } from "./_scan.ts";
import { Schedule } from "./_schedule.ts";
import { ScheduleRepair } from "./_schedule_repair.ts";

/** The part of the engine that reads, and that keeps what it reads in order. */
type Reading = Omit<
  Engine<Deno.AtomicOperation, Deno.Kv>,
  "apply" | "cells" | "list"
>;

/** Makes the part of a KV engine that reads. */
export function readingOf(parts: StoreParts): Reading {
  const { kv, keys, reader, notifier } = parts;
  const [namespace] = keys.namespaces;
  const schedule = new Schedule(parts);
  const repair = new ScheduleRepair(parts, schedule);
  const events = new EventScan(parts);
  return {
    name: "kv",
    notifier: notifier.kind,
    limits: limitsOf(keys),
    reader,
    place: placeOf(kv, namespace!),
    now: () => Date.now(),
    get: (ids) => findEvents(parts, ids),
    ids: (options) => lastIds(parts, options),
    due: (options) => readDuePage(parts, schedule, options),
    group: (key, options) => readPart(parts, key, options),
    scan: (scan) => visitsOf(events, scan, placeAt(scan.after)),
    count: (max, signal) => countEvents(parts, max, signal),
    upload: (ref, body) => upload(parts, ref, body),
    payload: (ref, of) => loadPayload(parts, ref, of),
    tidy: (what) => tidy(parts, repair, what),
    check: (options) => new StoreCheck(parts, options).pages(),
    listen: (wake) => notifier.listen(wake),
  };
}

async function lastIds(
  { kv, keys }: StoreParts,
  { before, limit }: Parameters<Engine["ids"]>[0],
): ReturnType<Engine["ids"]> {
  const selector = before === undefined ? keys.ids : { ...keys.ids, end: keys.id(before) };
  const ids: string[] = [];
  for await (const entry of list(kv, selector, { reverse: true, batchSize: limit })) {
    if (!isGap(entry) && ids.push(refOf(entry.key).id) >= limit) break;
  }
  return ids;
}

async function* visitsOf(
  events: EventScan,
  { filter, isNewestFirst, onlyOpen, isLimited }: Scan,
  after: Place | undefined,
): AsyncGenerator<Visit> {
  const way = { isNewestFirst, onlyOpen, isLimited, after };
  for await (const { entry, place } of events.visits(filter, way)) {
    yield {
      event: entry && eventOf(entry),
      place: textOf(place),
      reachedAt: "id" in place ? place.receivedAt : undefined,
    };
  }
}

/** Writes a place as a text. */
function textOf(place: Place): string {
  return "id" in place ? `${place.receivedAt}:${place.id}` : textOfPlace(place);
}

/** Reads a place from a text: an event that it names may be gone. */
function placeAt(text: string | undefined): Place | undefined {
  if (text === undefined) return undefined;
  const [, time, id] = /^(-?\d{1,16}(?:\.\d{1,16})?):(.*)$/s.exec(text) ?? [];
  if (id !== undefined) return { id, receivedAt: Number(time) };
  const place = placeIn(text);
  if (place) return place;
  throw new CursorError(text);
}

async function tidy(
  parts: StoreParts,
  repair: ScheduleRepair,
  { times, groups = false, uploadsOlderThanMs }: Tidying,
): ReturnType<Engine["tidy"]> {
  return {
    times: times ? await repair.run(times) : 0,
    groups: groups ? await repairGroups(parts) : 0,
    uploads: uploadsOlderThanMs === undefined
      ? 0
      : await deleteStaleUploads(parts, Date.now() - uploadsOlderThanMs),
  };
}
