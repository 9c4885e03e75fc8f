import type { Delivery } from "../delivery.ts";
import { isEventId, isTime } from "../record_shape.ts";
import type { StoreParts } from "./_parts.ts";
import { isUndecodable, read } from "./_reads.ts";
import { lookUp, UndecodableError } from "./_layout.ts";
import { encodeValue } from "../value_codec.ts";
import { untilDone } from "./_write.ts";

/** The event as which a document came first. */
interface FirstSeen {
  readonly id: string;
  /** The time at which it came, milliseconds since the epoch. */
  readonly at: number;
}

/**
 * The time for which an event that is not there may still be on its way into the store, which an intake
 * gives 5 s: after that its process has died, or the store did not take it.
 */
const PENDING_MS = 6_000;

/** The time by which the clocks of two machines may differ. */
const CLOCK_SLACK_MS = 1_000;

/**
 * Finds the earlier event with the same document, or remembers a new document. The signature of most
 * forges covers the body alone, so a captured delivery can be sent again under a fresh id.
 *
 * @param parts The store.
 * @param delivery The delivery that brings the document.
 * @param id The id of its event.
 * @param windowMs The time for which the document is remembered, in milliseconds.
 * @returns The id of another event with this document that has not died; null if the document is new, or
 * comes again under its id.
 */
export async function firstIdOf(
  parts: StoreParts,
  delivery: Delivery,
  id: string,
  windowMs: number,
): Promise<string | null> {
  const { kv, keys, marks } = parts;
  const key = keys.content(delivery.intake ?? "", await digestOf(delivery.body));
  return await untilDone(async () => {
    const seen = await read(kv, key);
    if (isUndecodable(seen)) {
      throw new UndecodableError("the note of a document in the replay window");
    }
    const first = isFirstSeen(seen.value) ? seen.value : undefined;
    const ageMs = first && Date.now() - first.at;
    // A time by a clock that was ahead does not count.
    if (first && ageMs! > -CLOCK_SLACK_MS && ageMs! < windowMs) {
      if (first.id === id) return null;
      const isStored = await hasBecomeEvent(parts, first);
      if (isStored) return first.id;
      if (isStored === undefined) return undefined;
    }
    const now: FirstSeen = { id, at: Date.now() };
    const operation = kv.atomic().set(key, encodeValue(now), { expireIn: windowMs });
    const result = await marks.commit(operation, [seen]);
    return result.ok ? null : undefined;
  });
}

/** Checks whether it has become an event that has not died; undefined while it may still become one. */
async function hasBecomeEvent(
  { kv, keys }: StoreParts,
  { id, at }: FirstSeen,
): Promise<boolean | undefined> {
  const { record, versionstamp } = await lookUp(kv, keys, id);
  if (versionstamp !== null) return record?.state !== "dead" && record?.outcome !== "ignored";
  return Date.now() - at < PENDING_MS ? undefined : false;
}

function isFirstSeen(value: unknown): value is FirstSeen {
  const { id, at } = Object(value);
  return isEventId(id) && isTime(at);
}

async function digestOf(content: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", content));
}
