/** Newer events of ordering groups, as they are told to the handlers that run. */
import { Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { SharedTimer, Timeout } from "../../core/timeouts.ts";
import type { EventRecord, EventStore } from "../store/mod.ts";
import { canBeInterrupted } from "../store/settlement.ts";
import type { HeldLease } from "./_held_lease.ts";
import { NewerEventError } from "./event.ts";

/** Time between two looks at a group for what has joined it through other processes, in milliseconds. */
const LOOK_MS = 1_000;

/** Longest chain of causes in which the reason of an abort is looked for. */
const MAX_CAUSES = 20;

/** Settings that the watches of a worker share. */
interface WatchParts {
  readonly store: EventStore;
  readonly leaseMs: number;
  /** Lists the worker's handlers of an event. */
  readonly handlersOf: (event: EventRecord) => readonly unknown[];
  /** The watches of the worker. */
  readonly watches: Watches;
}

/** The watches of one worker, each over the ordering group of an event whose handler runs. */
export class Watches {
  /** Timeouts after which a watch looks again. */
  readonly looks: Timeouts;
  readonly #byGroup = new Map<string, Watch>();

  /** @param timer The timer that looks share with others. */
  constructor(timer: SharedTimer) {
    this.looks = new Timeouts(LOOK_MS, timer);
  }

  /** Has the watch over a group look. */
  readonly onNewer = (group: string): void => void this.#byGroup.get(group)?.look();

  /** Adds a watch. One of a handler that has lost its lease, and still runs, gives way. */
  add(group: string, watch: Watch): void {
    this.#byGroup.set(group, watch);
  }

  /** Removes a watch. */
  delete(group: string, watch: Watch): void {
    if (this.#byGroup.get(group) === watch) this.#byGroup.delete(group);
  }
}

/**
 * Watch over the ordering group of an event while its handler runs: it aborts the handler's signal once a newer event is
 * there that interrupts it. It looks before the handler is called, when this process has stored one, and once a second.
 */
export class Watch {
  readonly #parts: WatchParts;
  readonly #lease: HeldLease;
  readonly #group: string;
  readonly #isPartlyDone: () => boolean;
  #timeout: Timeout | undefined;
  #looking: Promise<void> | undefined;
  /** Set if it is to look again: another event has joined while it looked. */
  #isLate = false;
  #hasEnded = false;
  #reason: NewerEventError | undefined;

  /**
   * Creates the watch of an event that can be interrupted.
   *
   * @param parts The settings.
   * @param lease The lease of the event.
   * @param isPartlyDone Tells whether one of several handlers has ended.
   */
  constructor(parts: WatchParts, lease: HeldLease, isPartlyDone: () => boolean) {
    this.#parts = parts;
    this.#lease = lease;
    this.#group = lease.record.group!.key;
    this.#isPartlyDone = isPartlyDone;
  }

  /** The reason with which it has aborted the signal; undefined if it has not. */
  get reason(): NewerEventError | undefined {
    return this.#reason;
  }

  /**
   * Begins, before the handler is called.
   *
   * @throws {NewerEventError} If a newer event is there already.
   */
  async begin(): Promise<void> {
    this.#parts.watches.add(this.#group, this);
    await this.look();
    if (this.#reason) throw this.#reason;
    this.#lookLater();
  }

  /** Looks whether a newer event is there. */
  look(): Promise<void> {
    if (this.#looking) this.#isLate = true;
    return this.#looking ??= this.#lookOnce().finally(() => {
      this.#looking = undefined;
      if (!this.#isLate) return;
      this.#isLate = false;
      this.look();
    });
  }

  /** Ends it: the handler has ended. */
  end(): void {
    this.#hasEnded = true;
    this.#timeout?.cancel();
    this.#parts.watches.delete(this.#group, this);
  }

  async #lookOnce(): Promise<void> {
    if (this.#isOver) return;
    const { store, leaseMs, handlersOf } = this.#parts;
    try {
      const finding = store.interruptedBy(this.#lease.lease, handlersOf);
      const id = await withDeadline(finding, leaseMs);
      if (id === null || this.#isOver || !canBeInterrupted(this.#lease.record)) return;
      this.#reason = new NewerEventError(id);
      this.#lease.abort(this.#reason);
      this.end();
    } catch {
      // The store is not reached. It looks again in a second, and what it has not seen comes next.
    }
  }

  get #isOver(): boolean {
    const { isHeld, signal } = this.#lease;
    return this.#hasEnded || !isHeld || signal.aborted || this.#isPartlyDone();
  }

  #lookLater(): void {
    if (this.#isOver) return;
    this.#timeout = this.#parts.watches.looks.start(() => {
      this.look();
      this.#lookLater();
    });
  }
}

/**
 * Checks whether a handler has ended by an error that comes of another one: it is that one, has it in its chain of
 * causes, or all the errors that it joins do.
 *
 * @param error The error by which the handler has ended.
 * @param reason The other one.
 * @returns True if it does.
 */
export function comesOf(error: unknown, reason: Error): boolean {
  try {
    return hasCause(error, reason, MAX_CAUSES);
  } catch {
    return false; // It throws when it is read.
  }
}

function hasCause(error: unknown, reason: Error, left: number): boolean {
  if (error === reason) return true;
  if (!(error instanceof Error) || left === 0) return false;
  if (!(error instanceof AggregateError)) return hasCause(error.cause, reason, left - 1);
  return error.errors.length > 0 && error.errors.every((each) => hasCause(each, reason, left - 1));
}
