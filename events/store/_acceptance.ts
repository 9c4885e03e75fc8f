import { met } from "../../core/check_options.ts";
import { arrive } from "./_arrive.ts";
import type { StoreCore } from "./_core.ts";
import type { Dropping, KeptPayloads } from "./_kept_payloads.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import { firstIdOf } from "./_replay_window.ts";
import type { Sources } from "./_sources.ts";
import { Tries, untilDone } from "./tries.ts";
import {
  accepted,
  checkReplayWindow,
  eventIdOf,
  isLive,
  redelivered,
  replayed,
} from "./arrival.ts";
import type { Delivery } from "./delivery.ts";
import type { Applied, Bytes, CellChange, Put, Stored, Unreadable } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import type { EventStore } from "./event_store.ts";
import { newPayloadRef } from "./payload.ts";
import { wrongMemberOf } from "./record_shape.ts";

/** Longest wait of a delivery for its turn. By then its sender has been answered 503, and sends it again. */
const TURN = { withinMs: 4_500 } as const;

type Refused = Extract<Applied, { readonly ok: false }>;

/** A delivery that is stored. */
interface NewEvent {
  readonly record: EventRecord;
  readonly delivery: Delivery;
  /** Its payload, if that is stored with it. */
  readonly body: Bytes | undefined;
  /** The note of its intake, if this process has not written it yet. */
  readonly note: readonly CellChange[] | undefined;
}

/** The ways into a store: new deliveries, each id once, and settled events that are replayed. */
export class Acceptance {
  readonly #core: StoreCore;
  readonly #kept: KeptPayloads;
  readonly #sources: Sources;

  constructor(core: StoreCore, kept: KeptPayloads, sources: Sources) {
    this.#core = core;
    this.#kept = kept;
    this.#sources = sources;
  }

  /** Stores a delivery, unless its id is known or, within the replay window, its document. */
  readonly accept: EventStore["accept"] = async (delivery, options) => {
    checkTypes(delivery);
    const { engine, retentionMs } = this.#core;
    const id = eventIdOf(delivery);
    const payload = newPayloadRef(engine, delivery.body);
    const windowMs = options?.replayWindowMs;
    if (windowMs !== undefined) {
      checkReplayWindow("accept the delivery", windowMs, retentionMs);
      const first = await firstIdOf(this.#core, delivery, id, windowMs);
      if (first !== null) return { id: first, duplicate: true };
    }
    const { intake, platform } = delivery;
    const note = this.#sources.noteOf(intake, platform);
    const isLarge = payload.size > engine.limits.bodyBytes;
    const body = isLarge ? undefined : delivery.body;
    const record = accepted(delivery, id, payload, engine.now());
    const event: NewEvent = { record, delivery, body, note };
    // An upload takes many writes, and a duplicate needs none.
    const found = isLarge ? await this.#find(id) : null;
    if (isLive(found?.record)) return { id, duplicate: true };
    if (isLarge) await engine.upload(payload, delivery.body);
    const applied = await this.#store(found, event);
    const isStored = applied.ok || await this.#storeAgain(event, applied);
    if (isStored && note) this.#sources.noted([intake]);
    if (!isStored && isLarge) await engine.apply({ drops: [payload], urgency: "work" });
    return { id, duplicate: !isStored };
  };

  /** Queues a dead event again, or a done one whose payload is kept, as the last of its ordering group. */
  readonly replay = (
    id: string,
    isMeant: (record: EventRecord) => boolean = () => true,
  ): Promise<boolean> =>
    untilDone(async () => {
      const found = await this.#find(id);
      if (!found?.record || !isMeant(found.record)) return false;
      const { record: before } = found;
      if (before.state !== "dead" && before.state !== "done") return false;
      const kept = before.state === "done" ? await this.#kept.take(before) : undefined;
      const payload = kept ? kept.payload : before.payload;
      if (!payload) return false;
      const record = replayed(before, this.#core.engine.now(), payload);
      const event = { before: found, record, orderingKey: record.orderingKey };
      return (await arrive(this.#core, event, { ...kept, urgency: "work" })).ok || undefined;
    });

  /** Stores an event that was refused, unless its id is known. */
  async #storeAgain(event: NewEvent, refused: Refused): Promise<boolean> {
    for (const tries = new Tries();; await tries.next()) {
      const found = refused.found ?? await this.#find(event.record.id);
      if (isLive(found?.record)) return false;
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
    return await this.#arrive(found, { ...event, record }, kept);
  }

  /** Makes the change that stores an event. The local worker takes it if it has room. */
  #arrive(
    before: Put["before"],
    { record, delivery, body, note }: NewEvent,
    kept?: Dropping,
  ): Promise<Applied> {
    const orderingKey = delivery.orderingKey ?? null;
    const cells = note && kept ? [...note, ...kept.cells] : note ?? kept?.cells;
    const { sums, drops } = kept ?? {};
    const beside = { cells, sums, drops, urgency: "intake", turn: TURN } as const;
    const handOff = new LocalHandOff(this.#core, delivery);
    return arrive(this.#core, { before, record, orderingKey, body }, beside, handOff);
  }

  async #find(id: string): Promise<Stored | Unreadable | null> {
    return (await this.#core.engine.get([id]))[0]!;
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
