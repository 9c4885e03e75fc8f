import { deleteResults } from "./_steps.ts";
import { met } from "../../core/check_options.ts";
import { isTime } from "../../core/shape.ts";
import { CLOCK_SLACK_MS } from "../../core/timeouts.ts";
import { Tries, untilDone } from "../../core/tries.ts";
import { checkNewerOptions, checkPlaces } from "./batch_options.ts";
import type { Dropping, KeptPayloads } from "./_kept_payloads.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import { tellNewer } from "./_newer.ts";
import {
  accepted,
  checkReplayWindow,
  cutKey,
  eventIdOf,
  inIntake,
  isLive,
  joined,
  placesOf,
  redelivered,
  replayed,
} from "./arrival.ts";
import {
  type Applied,
  type Bytes,
  type CellKey,
  type Change,
  type Moment,
  type Put,
  type Stored,
  UndecodableError,
  type Unreadable,
} from "./engine.ts";
import { type Delivery, type EventRecord, isEventId, wrongMemberOf } from "./event_record.ts";
import type { EventStore } from "./event_store.ts";
import { intervened } from "./settlement.ts";
import { findEvent, newPayloadRef, rememberedMs, type StoreCore } from "./store_core.ts";

/** Longest wait of a delivery for its turn. By then its sender has been answered 503, and sends it again. */
const TURN = { withinMs: 4_500 } as const;

/**
 * Longest time that an event may be on its way into the store. An intake waits 5 s for the
 * store: after that its process has died, or the store did not take it.
 */
const PENDING_MS = 6_000;

type Refused = Extract<Applied, { readonly ok: false }>;

/** A delivery that is stored. */
interface NewEvent {
  readonly record: EventRecord;
  readonly delivery: Delivery;
  /** Its payload, if that is stored with it. */
  readonly body: Bytes | undefined;
}

/** A choice of events to replay, and the way to do it. */
interface ReplayChoice {
  readonly isMeant?: ((record: EventRecord) => boolean) | undefined;
  /** Set if a dead event begins anew, as a done one does. */
  readonly fresh?: boolean | undefined;
  /** The person or the tool that does it. */
  readonly by?: string | undefined;
}

/** The ways into a store: new deliveries, each id once, and settled events that are replayed. */
export class Acceptance {
  readonly #core: StoreCore;
  readonly #kept: KeptPayloads;

  constructor(core: StoreCore, kept: KeptPayloads) {
    this.#core = core;
    this.#kept = kept;
  }

  /** Stores a delivery, unless its id is known or, within the replay window, its document. */
  readonly accept: EventStore["accept"] = async (delivery, options) => {
    checkTypes(delivery);
    if (delivery.newer !== undefined) checkNewerOptions("accept the delivery", delivery);
    if (delivery.places !== undefined) checkPlaces("accept the delivery", delivery);
    const { engine, retentionMs } = this.#core;
    const id = eventIdOf(delivery);
    const payload = newPayloadRef(engine, delivery.body);
    const windowMs = options?.replayWindowMs;
    if (windowMs !== undefined) {
      checkReplayWindow("accept the delivery", windowMs, retentionMs);
      const first = await firstIdOf(this.#core, delivery, id, windowMs);
      if (first !== null) return await this.#known(first);
    }
    const isLarge = payload.size > engine.limits.bodyBytes;
    const body = isLarge ? undefined : delivery.body;
    const record = accepted(delivery, id, payload, engine.now());
    const event: NewEvent = { record, delivery, body };
    // An upload takes many writes, and a duplicate needs none.
    const found = isLarge ? await this.#find(id) : null;
    if (isLive(found?.record)) return await this.#known(id);
    if (isLarge) await engine.upload(payload, delivery.body);
    const applied = await this.#store(found, event);
    const isStored = applied.ok || await this.#storeAgain(event, applied);
    if (!isStored && isLarge) await engine.apply({ drops: [payload], urgency: "work" });
    return { id, duplicate: !isStored };
  };

  /** Queues a dead event again, or a done one whose payload is kept, as the last of its ordering group. */
  readonly replay = (
    id: string,
    { isMeant = () => true, fresh: isFresh, by }: ReplayChoice = {},
  ): Promise<boolean> =>
    untilDone(async () => {
      const found = await this.#find(id);
      if (!found?.record || !isMeant(found.record)) return false;
      const { record: before } = found;
      if (before.state !== "dead" && before.state !== "done") return false;
      const kept = before.state === "done" ? await this.#kept.take(before) : undefined;
      const payload = kept ? kept.payload : before.payload;
      if (!payload) return false;
      const at = this.#core.engine.now();
      const noted = intervened(before, { is: "replayed", at, by });
      const record = replayed(noted, at, { payload, isFresh });
      const event = { before: found, record, orderingKey: record.orderingKey };
      if (!(await arrive(this.#core, event, { ...kept, urgency: "work" })).ok) return undefined;
      if (!record.steps) await deleteResults(this.#core, before);
      return true;
    });

  /** Answers for an event that was read: its sender is told that it is stored. */
  async #known(id: string): ReturnType<EventStore["accept"]> {
    await this.#core.engine.whenStored();
    return { id, duplicate: true };
  }

  /** Stores an event that was refused, unless its id is known. */
  async #storeAgain(event: NewEvent, refused: Refused): Promise<boolean> {
    for (const tries = new Tries();; await tries.next()) {
      const found = refused.found ?? await this.#find(event.record.id);
      if (isLive(found?.record)) {
        if (!refused.found) await this.#core.engine.whenStored();
        return false;
      }
      const applied = await this.#store(found, event);
      if (applied.ok) return true;
      refused = applied;
    }
  }

  /** Tries to store an event, in the place of one with the same id that is dead or was ignored. */
  #store(found: Stored | Unreadable | null, event: NewEvent): Promise<Applied> {
    if (found) return this.#replace(found, event);
    return this.#arrive({ id: event.record.id, must: "absent" }, event);
  }

  async #replace(found: Stored | Unreadable, event: NewEvent): Promise<Applied> {
    const { record: before } = found;
    if (!before) {
      const { id } = event.record;
      throw new Error(`Cannot accept the delivery: the record of event ${id} is unreadable`);
    }
    const kept = before.state === "done" ? await this.#kept.drop(before) : undefined;
    const record = redelivered(event.record, before);
    const applied = await this.#arrive(found, { ...event, record }, kept);
    if (applied.ok && !record.steps) await deleteResults(this.#core, before);
    return applied;
  }

  /** Makes the change that stores an event. The local worker takes it if it has room. */
  #arrive(
    before: Put["before"],
    { record, delivery, body }: NewEvent,
    kept?: Dropping,
  ): Promise<Applied> {
    const orderingKey = delivery.orderingKey ?? null;
    const { cells, sums, drops } = kept ?? {};
    const beside = { cells, sums, drops, urgency: "intake", turn: TURN } as const;
    const handOff = new LocalHandOff(this.#core, delivery);
    const event = { before, record, orderingKey, body };
    const arriving = arrive(this.#core, event, beside, handOff);
    if (!record.interrupts) return arriving;
    return arriving.then((applied) => {
      if (applied.ok) tellNewer(this.#core, applied.written[0]);
      return applied;
    });
  }

  #find(id: string): Promise<Stored | Unreadable | null> {
    return findEvent(this.#core.engine, id);
  }
}

/** Checks the types of a delivery: an event that cannot be read would never be handled. */
function checkTypes(delivery: Delivery): void {
  const wrong = wrongMemberOf(delivery);
  if (wrong === undefined) return;
  throw new TypeError(
    `Cannot accept the delivery: its '${wrong}' is not of the type that a Delivery has there, got ${
      met(delivery[wrong])
    }`,
  );
}

/** An event that comes in, or comes back. */
interface Arriving extends Pick<Put, "before" | "body" | "keeps"> {
  /** Its record, outside of its ordering group. */
  readonly record: EventRecord;
  /** The key of the group whose end it joins; null for none. */
  readonly orderingKey: string | null;
}

/** The rest of the change, beside the event. */
type Beside = Pick<Change, "cells" | "sums" | "drops" | "urgency" | "turn">;

/**
 * Stores an event that comes in, or comes back, in the group of its ordering key if it has one. Workers are woken if it
 * is due and not handed off.
 *
 * @param core The store.
 * @param event The event.
 * @param beside What the change holds beside it.
 * @param handOff The way to the local worker; undefined if it is not handed off.
 * @returns The outcome.
 * @throws {Error} If its payload was uploaded, and has been deleted since.
 */
export async function arrive(
  core: StoreCore,
  { before, body, keeps, record, orderingKey }: Arriving,
  { cells, sums, drops, urgency, turn }: Beside,
  handOff?: LocalHandOff,
): Promise<Applied> {
  const { engine } = core;
  const key = orderingKey === null ? null : cutKey(orderingKey);
  const after = (at: Moment) => {
    const placed = key === null ? record : joined(record, key, at.group!, at.hasPlace!);
    const made = handOff ? handOff.recordOf(placed, at.now) : placed;
    const { dueAt } = made;
    change.announce = dueAt !== null && dueAt <= at.now;
    return made;
  };
  const joins = key === null ? undefined : inIntake(record.intake, key);
  const forMs = rememberedMs(core, record);
  const change: Change & { announce: boolean } = {
    puts: [{ before, after, body, keeps, forMs, joins, places: placesOf(record) }],
    cells,
    sums,
    drops,
    urgency,
    announce: false,
    turn,
  };
  try {
    const applied = await engine.apply(change);
    handOff?.end(applied.ok ? applied.written[0] : null);
    if (applied.ok || applied.why !== "payload") return applied;
  } catch (error) {
    handOff?.fail(error);
    throw error;
  }
  throw new Error("Cannot store the event: its payload took too long, and was deleted");
}

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
async function firstIdOf(
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
