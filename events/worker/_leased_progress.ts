import { met } from "../../core/check_options.ts";
import { type CellChange, NoTurnError } from "../store/engine.ts";
import {
  type CommitEffects,
  type EventStore,
  type Lease,
  type NoteOptions,
  WaitRefusedError,
} from "../store/mod.ts";
import { cancelledProgress } from "../store/settlement.ts";
import { type Wait, withWakesBack } from "../store/waits.ts";
import { type HeldLease, NoAnswerError } from "./_held_lease.ts";
import { ParkedError, type WaitResult } from "./event.ts";

/** Adds events and names to wake to the commit of a part. */
interface Adder {
  /** Takes back what was not stored. */
  putBack(added: NoteOptions): void;
}

/** A part that is to be noted, and what is stored with it. */
interface Part {
  readonly name: string;
  readonly effects: CommitEffects | undefined;
  /** Changes of states. Like effects, these are committed once. */
  readonly cells: readonly CellChange[] | undefined;
  readonly added: NoteOptions;
  /** The run that has added that. */
  readonly adder: Adder;
}

/** Events and names to wake of a part that were not stored. */
type Left = Omit<Part, "effects" | "cells">;

/**
 * The changes of an event's record while its handlers run: it notes the parts that are done, and takes the answers
 * that they wait for, one after the other.
 *
 * If a commit is not answered, nothing else is committed until it is known whether it was stored. What was not stored
 * goes, in front, into the next commit of the same part, or into the settlement, but not into the commit of another
 * part: if the attempt fails then, the next one repeats the part that was not noted, and would store that again.
 *
 * A wait without a result is remembered, and the event is parked, whatever the handler makes of the error.
 */
export class LeasedProgress {
  readonly #store: EventStore;
  readonly #leaseMs: number;
  readonly #lease: HeldLease;
  #turn: Promise<unknown> = Promise.resolve();
  #wait: Wait | undefined;
  /** The part whose commit was not answered, and how often it was noted before. */
  #unanswered: (Part & { readonly before: number }) | undefined;
  #left: readonly Left[] = [];
  /** Names of the parts that are stored although their calls have failed: these may be repeated. */
  readonly #stored = new Set<string>();

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

  /** Notes a part. */
  note(part: Part): Promise<void> {
    return this.#inTurn(() => this.#note(part));
  }

  /** Finds out what is not known yet, and gives back to a run what was not stored; undefined if all is known. */
  resolved(adder: Adder): Promise<void> | undefined {
    if (!this.#unanswered && this.#left.length === 0) return undefined;
    return this.#inTurn(async () => {
      await this.#resolve();
      adder.putBack(this.#takeLeft(adder));
    });
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

  async #note(part: Part): Promise<void> {
    const { name, added, adder } = part;
    try {
      await this.#resolve();
    } catch (error) {
      this.#leave({ name, adder, added });
      throw error;
    }
    const all = joined(this.#takeLeft(adder, name), added);
    if (!this.#stored.delete(name)) return await this.#commit({ ...part, added: all });
    // This call repeats one whose effects are committed.
    if (!all.emits && !all.wakes) return;
    try {
      await this.#commit({ ...part, effects: undefined, cells: undefined, added: all });
    } catch (error) {
      this.#stored.add(name);
      throw error;
    }
  }

  async #commit(part: Part): Promise<void> {
    const { name, effects, cells, added } = part;
    let before: number | undefined;
    const note = async (lease: Lease, signal: AbortSignal) => {
      if (this.#lease.isCancelled) throw cancelledProgress();
      before ??= timesNoted(lease, name);
      if (timesNoted(lease, name) > before) return lease;
      return await this.#store.checkpoint(lease, name, effects, { ...added, cells, signal });
    };
    try {
      await this.#change("note progress", note);
    } catch (error) {
      if (before === undefined || error instanceof NoTurnError) {
        this.#leave(part);
        throw error;
      }
      this.#unanswered = { ...part, before };
      // If the store is not reached, asking again would only hold the handler up.
      if (error instanceof NoAnswerError) throw error;
      await this.#resolve().catch(() => {});
      if (!this.#unanswered && this.#stored.delete(name)) return;
      throw error;
    }
  }

  /**
   * Finds out whether the part was noted whose commit was not answered. A renewal makes a new version of the
   * record: it tells, and the commit, which is for an older version, cannot be stored after it.
   */
  async #resolve(): Promise<void> {
    if (!this.#unanswered) return;
    const { name, added, adder, before } = this.#unanswered;
    await this.#change("note progress", (lease) => this.#store.renew(lease, this.#leaseMs));
    this.#unanswered = undefined;
    if (timesNoted(this.#lease.lease, name) > before) this.#stored.add(name);
    // In front: what is left of this run has come after it.
    else this.#left = [{ name, adder, added }, ...this.#left];
  }

  #leave({ name, adder, added }: Left): void {
    this.#left = [...this.#left, { name, adder, added }];
  }

  /** Takes what is left of a run, of one part or of all. */
  #takeLeft(adder: Adder, name?: string): NoteOptions {
    const isMeant = (left: Left) =>
      left.adder === adder && (name === undefined || left.name === name);
    const [meant, others] = [this.#left.filter(isMeant), this.#left.filter((x) => !isMeant(x))];
    this.#left = others;
    return meant.reduce<NoteOptions>((all, { added }) => joined(all, added), {});
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

/** Joins what one commit adds: what was added first, then the rest. */
function joined(first: NoteOptions, then: NoteOptions): NoteOptions {
  const emits = [...first.emits ?? [], ...then.emits ?? []];
  return {
    emits: emits.length > 0 ? emits : undefined,
    wakes: withWakesBack(first.wakes, then.wakes),
  };
}

function timesNoted({ record: { progress = [] } }: Lease, name: string): number {
  return progress.filter((each) => each === name).length;
}

/** Reads the result of a wait from an event's record; undefined if there is none. */
function wokenBy<TValue>({ record }: Lease, name: string): WaitResult<TValue> | undefined {
  const result = record.woken?.find((each) => each.name === name);
  if (!result) return undefined;
  if (result.timedOut) return { value: undefined, timedOut: true };
  const value = result.value === undefined ? undefined : JSON.parse(result.value);
  return { value, timedOut: false };
}
