import { met } from "../../../core/check_options.ts";
import type { Delivery } from "../delivery.ts";
import type { EventRecord, PayloadRef } from "../event_record.ts";
import type { AcceptOptions, AcceptResult } from "../event_store.ts";
import {
  accepted,
  checkReplayWindow,
  eventIdOf,
  inIntake,
  redelivered,
  replayed,
} from "../arrival.ts";
import { removeOld, writeNew } from "./_apply.ts";
import { GroupIntake } from "./_group_intake.ts";
import { type Found, type Known, lookUp, setId, type StoreKeys } from "./_layout.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import { cutKey } from "./_ordering_groups.ts";
import { wrongMemberOf } from "../record_shape.ts";
import type { StoreParts } from "./_parts.ts";
import {
  discardUpload,
  fitsOneCommit,
  lastPartOf,
  newPayloadRef,
  setChunks,
  type Upload,
  upload,
} from "./_payload.ts";
import { firstIdOf } from "./_replay_window.ts";
import { untilDone, Write } from "./_write.ts";

/** Smallest number of ids that are remembered: most redeliveries follow soon. UUIDs take about 3 MB. */
const MIN_REMEMBERED = 16_384;

/** The ways into a store: new deliveries, each id once, and dead events that are replayed. */
export class Acceptance {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #groupIntake: GroupIntake;
  readonly #recent = new RecentIds();

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#groupIntake = new GroupIntake(parts);
  }

  /** Stores a delivery, unless its id is known or, within the replay window, its document. */
  readonly accept = async (delivery: Delivery, options?: AcceptOptions): Promise<AcceptResult> => {
    checkTypes(delivery);
    const id = eventIdOf(delivery);
    const payload = newPayloadRef(delivery.body);
    const windowMs = options?.replayWindowMs;
    if (windowMs !== undefined) {
      checkReplayWindow("accept the delivery", windowMs, this.#parts.retentionMs);
      const first = await firstIdOf(this.#parts, delivery, id, windowMs);
      if (first !== null) return { id: first, duplicate: true };
    }
    const record = accepted(delivery, id, payload, Date.now());
    if (!fitsOneCommit(payload)) return await this.#acceptLarge(record, payload, delivery);
    let found: Found = { entry: null, versionstamp: null };
    if (this.#recent.has(id)) {
      found = await this.#lookUp(id);
      if (isLive(found)) return { id, duplicate: true };
    }
    return await this.#acceptWith(record, found, delivery);
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
      const write = new Write().check({ key: this.#keys.event(record), versionstamp });
      const isDone = record.state === "done";
      const payload = isDone ? await this.#parts.kept.take(write, record) : record.payload;
      if (!payload) return false;
      // The id of a done event is forgotten after a while, and may be another event's by then.
      if (isDone) write.check({ key: this.#keys.id(id), versionstamp: entry });
      const after = replayed(record, Date.now(), payload);
      removeOld(write, this.#parts, record, after);
      return await this.#inGroup(after, record.orderingKey, write) || undefined;
    });

  /** Writes a payload ahead of its event, unless the event's id is known already. */
  async #acceptLarge(
    record: EventRecord,
    payload: PayloadRef,
    delivery: Delivery,
  ): Promise<AcceptResult> {
    const { id, receivedAt } = record;
    const found = await this.#lookUp(id);
    if (isLive(found)) return { id, duplicate: true };
    const { body } = delivery;
    const mark: Upload = await upload(this.#parts, payload, body, receivedAt);
    const result = await this.#acceptWith(record, found, delivery, (write) => {
      write.check(mark).delete(mark.key);
      setChunks(write, this.#keys, payload, body, lastPartOf(payload));
    });
    if (result.duplicate) await discardUpload(this.#parts, payload, mark);
    return result;
  }

  /** Makes an event visible. If a dead event has the same id, the new one replaces it. */
  async #acceptWith(
    record: EventRecord,
    expected: Found,
    delivery: Delivery,
    addContent?: (write: Write) => void,
  ): Promise<AcceptResult> {
    const { id } = record;
    let found = expected;
    const since = performance.now();
    return await untilDone(async () => {
      const after = found.record ? redelivered(record, found.record) : record;
      const write = this.#replacing(found, after);
      write.isIntake = true;
      if (found.record?.state === "done") await this.#parts.kept.drop(write, found.record);
      addContent?.(write);
      const { orderingKey = null } = delivery;
      if (await this.#inGroup(after, orderingKey, write, delivery, since)) {
        this.#recent.add(id);
        return { id, duplicate: false };
      }
      found = await this.#lookUp(id);
      return isLive(found) ? { id, duplicate: true } : undefined;
    });
  }

  /** Begins a write that replaces the stored event, if there is one. */
  #replacing({ entry, record, versionstamp }: Found, after: EventRecord): Write {
    const write = new Write().check({ key: this.#keys.id(after.id), versionstamp: entry });
    if (versionstamp === null) return write;
    if (!record) {
      throw new Error(`Cannot accept the delivery: the record of event ${after.id} is unreadable`);
    }
    write.check({ key: this.#keys.event(record), versionstamp });
    removeOld(write, this.#parts, record, after);
    return write;
  }

  #lookUp(id: string): Promise<Found> {
    return lookUp(this.#kv, this.#keys, id);
  }

  /** Commits an event, in the group of its ordering key if it has one. */
  #inGroup(
    record: EventRecord,
    orderingKey: string | null,
    write: Write,
    delivery?: Delivery,
    since?: number,
  ): Promise<boolean> {
    if (orderingKey === null) return this.#tryCommit(record, write, delivery);
    const cut = cutKey(orderingKey);
    return this.#groupIntake.join(inIntake(record.intake, cut), {
      ...{ record, orderingKey: cut, base: write, since },
      add: (write, record) => this.#addTo(write, record, delivery),
    });
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
    else this.#add(write, handOff?.record ?? { ...record, idKept: true }, delivery);
    write.notifies ||= !handOff && record.dueAt !== null && record.dueAt <= Date.now();
    return handOff;
  }

  #add(write: Write, record: EventRecord, delivery: Delivery | undefined): void {
    const { payload } = record;
    if (delivery && payload && fitsOneCommit(payload)) {
      setChunks(write, this.#keys, payload, delivery.body);
    }
    writeNew(write, this.#parts, record);
    setId(write, this.#keys, this.#parts.retentionMs, record);
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

/** Checks whether an event keeps the same delivery from being accepted again. */
function isLive({ record }: Known): boolean {
  return record !== undefined && record.state !== "dead" && record.outcome !== "ignored";
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
