import { type Delivery, eventIdOf } from "../delivery.ts";
import { commit } from "./_commit.ts";
import { untilDone } from "./_contention.ts";
import { lookUp } from "./_lookup.ts";
import type { StoreParts } from "./_parts.ts";
import { read, UNKNOWN_VERSION } from "./_reads.ts";
import { isEventId, isTimestamp } from "../_record_shape.ts";

/** As what content came first. */
interface FirstSeen {
  readonly id: string;
  /** When, milliseconds since the epoch. */
  readonly at: number;
}

/**
 * For how long an event that is not there is taken to be on its way into the store, which an intake
 * gives 5 s: after that its process has died, or the store did not take it.
 */
const PENDING_MS = 6_000;

/** By how much the clocks of two machines may differ. */
const CLOCK_SLACK_MS = 1_000;

/** Remembers as which event content came, so that it can be known under another delivery id. */
export class Replays {
  readonly #parts: StoreParts;

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  /** See {@linkcode EventStore.firstOf}. */
  async firstOf(delivery: Delivery, windowMs: number): Promise<string | null> {
    const { kv, keys } = this.#parts;
    const id = eventIdOf(delivery);
    const key = keys.content(delivery.intake ?? "", await digestOf(delivery.body));
    return await untilDone(async () => {
      const seen = await read(kv, key);
      const first = isFirstSeen(seen.value) ? seen.value : undefined;
      const ageMs = first && Date.now() - first.at;
      // By a clock that was ahead it says nothing.
      if (first && ageMs! > -CLOCK_SLACK_MS && ageMs! < windowMs) {
        if (first.id === id) return null;
        const stands = await this.#stands(first);
        if (stands) return first.id;
        if (stands === undefined) return undefined;
      }
      const now: FirstSeen = { id, at: Date.now() };
      const operation = kv.atomic().set(key, now, { expireIn: windowMs });
      // No check holds of what cannot be decoded.
      if (seen.versionstamp !== UNKNOWN_VERSION) operation.check({ ...seen, key });
      const result = await commit(operation);
      return result.ok ? null : undefined;
    });
  }

  /** Whether it has become an event that has not died; undefined while that is still to be seen. */
  async #stands({ id, at }: FirstSeen): Promise<boolean | undefined> {
    const { record, versionstamp } = await lookUp(this.#parts.kv, this.#parts.keys, id);
    if (versionstamp !== null) return record?.state !== "dead";
    return Date.now() - at < PENDING_MS ? undefined : false;
  }
}

function isFirstSeen(value: unknown): value is FirstSeen {
  const { id, at } = Object(value);
  return isEventId(id) && isTimestamp(at);
}

async function digestOf(content: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", content));
}
