import { met } from "../../core/check_options.ts";
import { withDeadline } from "../../core/timeouts.ts";
import { NoTurnError } from "../store/engine.ts";
import type { EventStep } from "../store/event_record.ts";
import {
  type CommitEffects,
  type EventRecord,
  type EventStore,
  type HandledPart,
  type Lease,
  type NoteOptions,
  WaitRefusedError,
} from "../store/mod.ts";
import { cancelledProgress, stepOf } from "../store/settlement.ts";
import { checkIsAlone, type Wait } from "../store/waits.ts";
import { type HeldLease, NoAnswerError } from "./_held_lease.ts";
import { ParkedError, type WaitResult } from "./event.ts";

/** A part of the handling that is to be noted, and what is stored with it. */
interface Part {
  readonly part: HandledPart;
  readonly effects?: CommitEffects | undefined;
  /** Events, names to wake, and changes of states. */
  readonly added?: NoteOptions | undefined;
}

/**
 * The changes of an event's record while its handlers run: it notes the parts that are done, and takes the answers
 * that they wait for, one after the other. If a commit is not answered, nothing else is committed until it is known
 * whether it was stored.
 *
 * A wait without a result is remembered, and the event is parked, whatever the handler makes of the error.
 */
export class LeasedProgress {
  readonly #store: EventStore;
  readonly #leaseMs: number;
  readonly #lease: HeldLease;
  #turn: Promise<unknown> = Promise.resolve();
  #wait: Wait | undefined;
  /** True while it is not known whether the last commit was stored. */
  #isUnanswered = false;

  /**
   * Creates it for one attempt.
   *
   * @param parts The store, and the length of its leases.
   * @param lease The lease of the event.
   */
  constructor(
    { store, leaseMs }: { readonly store: EventStore; readonly leaseMs: number },
    lease: HeldLease,
  ) {
    this.#store = store;
    this.#leaseMs = leaseMs;
    this.#lease = lease;
  }

  /** The wait that the event is to be parked for; undefined for none. */
  get wait(): Wait | undefined {
    return this.#wait;
  }

  /** Forgets the wait. */
  dropWait(): void {
    this.#wait = undefined;
  }

  /** Returns the result of a wait; throws if there is none yet. */
  resultOf<TValue>(wait: Wait): Promise<WaitResult<TValue>> {
    return this.#inTurn(() => this.#resultOf<TValue>(wait));
  }

  /** Refuses a wait that has no result yet, and for which the event cannot be parked. */
  checkCanWait(name: string): Promise<void> {
    return this.#inTurn(async () => {
      await this.#resolve();
      const { lease } = this.#lease;
      if (!wokenBy(lease, name)) checkIsAlone(lease.record);
    });
  }

  /** Notes a part. If this fails, it was not stored, or it is not known whether it was. */
  note(part: Part): Promise<void> {
    return this.#inTurn(() => this.#note(part));
  }

  /** Takes the newer events of its group into the batch of the event. */
  takeNewer(
    handlersOf: (event: EventRecord) => readonly unknown[],
  ): Promise<readonly EventRecord[]> {
    return this.#inTurn(async () => {
      await this.#resolve();
      let newer: readonly EventRecord[] = [];
      await this.#change("take newer events", async (lease) => {
        const taken = await this.#store.takeNewer(lease, handlersOf);
        if (taken) ({ newer } = taken);
        return taken && taken.lease;
      });
      return newer;
    });
  }

  /** Finds a step that an earlier attempt has stored or begun. */
  step(name: string): EventStep | undefined {
    return stepOf(this.#lease.record, name);
  }

  /** Reads the result of a step as JSON: undefined for none, null if the step is not stored. */
  async result(name: string): Promise<string | undefined | null> {
    return await withDeadline(this.#store.readStep(this.#lease.lease, name), this.#leaseMs);
  }

  /** Finds out whether the last commit was stored; undefined if that is known. */
  resolved(): Promise<void> | undefined {
    return this.#isUnanswered ? this.#inTurn(() => this.#resolve()) : undefined;
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(run);
    this.#turn = result.catch(() => {});
    return result;
  }

  async #resultOf<TValue>(wait: Wait): Promise<WaitResult<TValue>> {
    const { name } = wait;
    const known = wokenBy<TValue>(this.#lease.lease, name);
    if (known) return known;
    if (this.#wait && this.#wait.name !== name) {
      throw new WaitRefusedError(
        `Cannot wait for ${met(name)}: the event waits for ${met(this.#wait.name)} already`,
      );
    }
    if (!this.#wait) {
      await this.#change(`wait for ${met(name)}`, async (lease) => {
        return wokenBy(lease, name) ? lease : await this.#store.takeWake(lease, name);
      });
    }
    const early = wokenBy<TValue>(this.#lease.lease, name);
    if (early) return early;
    this.#wait ??= wait;
    throw new ParkedError(name);
  }

  async #note({ part, effects, added }: Part): Promise<void> {
    await this.#resolve();
    let isBegun = false;
    const note = async (lease: Lease, signal: AbortSignal) => {
      if (this.#lease.isCancelled) throw cancelledProgress();
      isBegun = true;
      if (isNoted(lease.record, part)) return lease;
      return await this.#store.note(lease, part, effects, { ...added, signal });
    };
    try {
      await this.#change("note progress", note);
    } catch (error) {
      if (!isBegun || error instanceof NoTurnError) throw error;
      this.#isUnanswered = true;
      // If the store is not reached, asking again would only hold the handler up.
      if (error instanceof NoAnswerError) throw error;
      await this.#resolve().catch(() => {});
      if (this.#isUnanswered || !isNoted(this.#lease.record, part)) throw error;
    }
  }

  /**
   * Finds out whether a commit was stored that was not answered. A renewal makes a new version of the record: it
   * tells, and the commit, which is for an older version, cannot be stored after it.
   */
  async #resolve(): Promise<void> {
    if (!this.#isUnanswered) return;
    await this.#change("note progress", (lease) => this.#store.renew(lease, this.#leaseMs));
    this.#isUnanswered = false;
  }

  async #change(
    doing: string,
    action: (lease: Lease, signal: AbortSignal) => Promise<Lease | null>,
  ): Promise<void> {
    if (await this.#lease.change(action, this.#leaseMs / 3)) return;
    this.#lease.lose("lease lost, handler aborted");
    throw new Error(`Cannot ${doing}: the lease was lost`);
  }
}

/** Checks whether a part is noted in a record. Each is noted once in an attempt, with a name of its own. */
function isNoted(record: EventRecord, { is, name }: HandledPart): boolean {
  if (is === "handler") return record.progress?.includes(name) ?? false;
  const step = stepOf(record, name);
  if (is === "not_begun") return step === undefined;
  return step !== undefined && (step.isBegun ?? false) === (is === "begun");
}

/** Reads the result of a wait from an event's record; undefined if there is none. */
function wokenBy<TValue>({ record }: Lease, name: string): WaitResult<TValue> | undefined {
  const result = record.woken?.find((each) => each.name === name);
  if (!result) return undefined;
  if (result.timedOut) return { value: undefined, timedOut: true };
  const value = result.value === undefined ? undefined : JSON.parse(result.value);
  return { value, timedOut: false };
}
