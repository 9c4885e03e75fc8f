import { met } from "../../../core/check_options.ts";
import type { StoreCore } from "../_core.ts";
import { firstIdOf } from "../_replay_window.ts";
import type { Delivery } from "../delivery.ts";
import type { EventRecord } from "../event_record.ts";
import type { AcceptResult, EventStore } from "../event_store.ts";
import {
  accepted,
  checkReplayWindow,
  cutKey,
  eventIdOf,
  inIntake,
  isLive,
  redelivered,
  replayed,
} from "../arrival.ts";
import { joined } from "../claims.ts";
import { wrongMemberOf } from "../record_shape.ts";
import { removeOld } from "./_apply.ts";
import type { GroupIntake } from "./_group_intake.ts";
import { type Found, lookUp } from "./_layout.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import type { StoreParts } from "./_parts.ts";
import { fitsOneCommit, newPayloadRef, withUpload } from "./_payload.ts";
import { addEvent, Tries, untilDone, Write } from "./_write.ts";

/** Smallest number of ids that are remembered: most redeliveries follow soon. UUIDs take about 3 MB. */
const MIN_REMEMBERED = 16_384;

/** The ways into a store: new deliveries, each id once, and dead events that are replayed. */
export class Acceptance {
  readonly #parts: StoreParts;
  readonly #core: StoreCore;
  readonly #joins: GroupIntake;
  readonly #recent = new RecentIds();

  constructor(parts: StoreParts, core: StoreCore, joins: GroupIntake) {
    this.#parts = parts;
    this.#core = core;
    this.#joins = joins;
  }

  /** Stores a delivery, unless its id is known or, within the replay window, its document. */
  readonly accept: EventStore["accept"] = async (delivery, options) => {
    checkTypes(delivery);
    const id = eventIdOf(delivery);
    const payload = newPayloadRef(delivery.body);
    const windowMs = options?.replayWindowMs;
    if (windowMs !== undefined) {
      checkReplayWindow("accept the delivery", windowMs, this.#parts.retentionMs);
      const first = await firstIdOf(this.#core, delivery, id, windowMs);
      if (first !== null) return { id: first, duplicate: true };
    }
    const record = accepted(delivery, id, payload, Date.now());
    const isLarge = !fitsOneCommit(payload);
    let found: Found = { entry: null, versionstamp: null };
    if (isLarge || this.#recent.has(id)) {
      found = await this.#lookUp(id);
      if (isLive(found.record)) return { id, duplicate: true };
    }
    if (!isLarge) return await this.#acceptWith(record, found, delivery);
    return await withUpload(
      this.#parts,
      payload,
      delivery.body,
      (addRest) => this.#acceptWith(record, found, delivery, addRest),
      ({ duplicate }) => !duplicate,
    );
  };

  /** Queues a dead event again, or a done one whose payload is kept, as the last of its ordering group. */
  readonly replay = (
    id: string,
    isMeant: (record: EventRecord) => boolean = () => true,
  ): Promise<boolean> =>
    untilDone(async () => {
      const { record, versionstamp, entry } = await this.#lookUp(id);
      if (record?.state !== "dead" && record?.state !== "done") return false;
      if (!isMeant(record)) return false;
      const write = new Write().check({ key: this.#parts.keys.event(record), versionstamp });
      const isDone = record.state === "done";
      const payload = isDone ? await this.#parts.kept.take(write, record) : record.payload;
      if (!payload) return false;
      // The id of a done event is forgotten after a while, and may be another event's by then.
      if (isDone) write.check({ key: this.#parts.keys.id(id), versionstamp: entry });
      const after = replayed(record, Date.now(), payload);
      removeOld(write, this.#parts, record, after);
      return await this.#store(after, record.orderingKey, write) || undefined;
    });

  /** Makes an event visible. If a dead event has the same id, the new one replaces it. */
  async #acceptWith(
    record: EventRecord,
    expected: Found,
    delivery: Delivery,
    addContent?: (write: Write) => void,
  ): Promise<AcceptResult> {
    const { id } = record;
    const orderingKey = delivery.orderingKey ?? null;
    const since = orderingKey === null ? undefined : performance.now();
    const tries = new Tries();
    for (let found = expected;; await tries.next()) {
      const after = found.record ? redelivered(record, found.record) : record;
      const write = this.#replacing(found, after);
      write.isIntake = true;
      if (found.record?.state === "done") await this.#parts.kept.drop(write, found.record);
      addContent?.(write);
      if (await this.#store(after, orderingKey, write, delivery, since)) {
        this.#recent.add(id);
        return { id, duplicate: false };
      }
      found = await this.#lookUp(id);
      if (isLive(found.record)) return { id, duplicate: true };
    }
  }

  /** Begins a write that replaces the stored event, if there is one. */
  #replacing({ entry, record, versionstamp }: Found, after: EventRecord): Write {
    const write = new Write().check({ key: this.#parts.keys.id(after.id), versionstamp: entry });
    if (versionstamp === null) return write;
    if (!record) {
      throw new Error(`Cannot accept the delivery: the record of event ${after.id} is unreadable`);
    }
    write.check({ key: this.#parts.keys.event(record), versionstamp });
    removeOld(write, this.#parts, record, after);
    return write;
  }

  #lookUp(id: string): Promise<Found> {
    return lookUp(this.#parts.kv, this.#parts.keys, id);
  }

  /** Commits an event, in the group of its ordering key if it has one. */
  #store(
    record: EventRecord,
    key: string | null,
    write: Write,
    delivery?: Delivery,
    since?: number,
  ): Promise<boolean> {
    if (key === null) return this.#tryCommit(record, write, delivery);
    const orderingKey = cutKey(key);
    const isJoined = this.#joins.join({
      ...{ key: inIntake(record.intake, orderingKey), base: write, since },
      bytes: record.payload?.size ?? 0,
      add: (write, position, isFirst) => {
        const after = joined(record, orderingKey, position, isFirst);
        return { record: after, end: this.#addTo(write, after, delivery) };
      },
    });
    return isJoined.then((version) => version !== null);
  }

  async #tryCommit(record: EventRecord, write: Write, delivery?: Delivery): Promise<boolean> {
    const handOff = this.#addTo(write, record, delivery);
    try {
      const version = await this.#parts.commits.commit(write);
      handOff?.end(version);
      if (version === null) return false;
      if (write.notifies) this.#parts.local.listener?.wake();
      return true;
    } catch (error) {
      handOff?.endUnknown();
      throw error;
    }
  }

  /** Adds an event to a write, handed off to the local worker if that has room. */
  #addTo(write: Write, record: EventRecord, delivery?: Delivery): LocalHandOff | undefined {
    const handOff = delivery && LocalHandOff.of(this.#parts, record, delivery);
    if (handOff?.isSmall) write.lease(handOff, delivery!.body.byteLength);
    else {
      const isUploaded = record.payload !== null && !fitsOneCommit(record.payload);
      const body = isUploaded ? undefined : delivery?.body;
      addEvent(write, this.#parts, handOff?.record ?? { ...record, idKept: true }, body);
    }
    write.notifies ||= !handOff && record.dueAt !== null && record.dueAt <= Date.now();
    return handOff;
  }
}

/**
 * The ids that were accepted lately. One duplicate makes a group commit fail for all its deliveries, so
 * the record of an id that is known here is read before.
 */
class RecentIds {
  #young = new Set<string>();
  #old = new Set<string>();

  /** Checks whether an id was added lately. */
  has(id: string): boolean {
    return this.#young.has(id) || this.#old.has(id);
  }

  /** Adds an id. */
  add(id: string): void {
    this.#young.add(id);
    if (this.#young.size < MIN_REMEMBERED) return;
    this.#old = this.#young;
    this.#young = new Set();
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
