import { CLOCK_SLACK_MS } from "../../core/timeouts.ts";
import type { StoreCore } from "./store_core.ts";
import { untilDone } from "./tries.ts";
import { isLive } from "./arrival.ts";
import type { Delivery } from "./delivery.ts";
import type { CellKey } from "./engine.ts";
import { isEventId, isTime } from "./record_shape.ts";
import { UndecodableError } from "./value_codec.ts";

/**
 * Longest time that an event may be on its way into the store. An intake waits 5 s for the
 * store: after that its process has died, or the store did not take it.
 */
const PENDING_MS = 6_000;

/** The event as which a document came first. */
interface FirstSeen {
  readonly id: string;
  /** The time at which it came, milliseconds since the epoch. */
  readonly at: number;
}

/**
 * Finds the earlier event with the same document, or remembers a new document. The signature of most
 * forges covers the body alone, so a captured delivery can be sent again under a fresh id.
 *
 * @param core The store.
 * @param delivery The delivery that brings the document.
 * @param id The id of its event.
 * @param windowMs The time that the document is remembered, in milliseconds.
 * @returns The id of another event with this document that has not died; null if the document is new, or
 * comes again under its id.
 */
export async function firstIdOf(
  core: StoreCore,
  delivery: Delivery,
  id: string,
  windowMs: number,
): Promise<string | null> {
  const { engine } = core;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", delivery.body));
  const key: CellKey = ["content", delivery.intake ?? "", digest];
  return await untilDone(async () => {
    const [seen] = await engine.cells([key]);
    const { value, version } = seen!;
    if (value === undefined) {
      throw new UndecodableError("the note of a document in the replay window");
    }
    const first = isFirstSeen(value) ? value : undefined;
    const ageMs = first && engine.now() - first.at;
    // A time by a clock that was ahead does not count.
    if (first && ageMs! > -CLOCK_SLACK_MS && ageMs! < windowMs) {
      if (first.id === id) return null;
      const isStored = await hasBecomeEvent(core, first);
      if (isStored) return first.id;
      if (isStored === undefined) return undefined;
    }
    const after: FirstSeen = { id, at: engine.now() };
    const cell = { key, version, after, forMs: windowMs };
    const result = await engine.apply({ cells: [cell], urgency: "intake" });
    return result.ok ? null : undefined;
  });
}

/** Checks whether it has become an event that has not died; undefined while it may still become one. */
async function hasBecomeEvent(
  { engine }: StoreCore,
  { id, at }: FirstSeen,
): Promise<boolean | undefined> {
  const [found] = await engine.get([id]);
  if (found) return !found.record || isLive(found.record);
  return engine.now() - at < PENDING_MS ? undefined : false;
}

function isFirstSeen(value: unknown): value is FirstSeen {
  const { id, at } = Object(value);
  return isEventId(id) && isTime(at);
}
