import { HttpError } from "../core/mod.ts";

/** Up to this a body is small: nearly all deliveries are, and large ones do not crowd them out. */
const SMALL_BYTES = 65_536;

/** What one body holds of a {@linkcode BodyBudget}. */
export interface BodyShare {
  /** Whether the body has to be given up. */
  readonly isEvicted: boolean;
  /**
   * Counts bytes that have arrived. That may evict this body or another one.
   *
   * @param bytes How many.
   */
  add(bytes: number): void;
  /**
   * Keeps a body that was proved genuine: it is not evicted any more. A large one has to wait until
   * there is room to work on it, for what is made of it takes several times its size.
   *
   * @returns What resolves once there is room; undefined if there is.
   * @throws {HttpError} 503 `OVERLOADED` if it was evicted before, or is closed while it waits.
   */
  keep(): Promise<void> | undefined;
  /** Gives back what the body held. */
  close(): void;
}

/** When a sender that can try again should: bodies have arrived by then, or are given up. */
const RETRY_AFTER_SECONDS = "10";

/**
 * Makes the error for a body that there is no room for.
 *
 * @returns The error, 503 `OVERLOADED` with `Retry-After`.
 */
export function overloaded(): HttpError {
  return new HttpError(503, "Service Unavailable", {
    code: "OVERLOADED",
    headers: { "Retry-After": RETRY_AFTER_SECONDS },
  });
}

/**
 * Bounds what bodies hold together, from their first byte until they are stored: without it 300 slow
 * uploads of 25 MiB would take 7.5 GB, and none of their senders needs to have proved anything.
 *
 * Past the bound, either small bodies (up to 64 KiB) or large ones give way, whichever hold more: of the
 * small ones the oldest is evicted, of the large ones the one that has been large for the longest. So
 * uploads that are begun and then stand still cannot keep genuine ones out, be they small or large: those
 * would have to be overtaken by half of what is not set aside or kept, while they arrive and are proved.
 * What was proved is kept, and what comes then is refused.
 *
 * Of the large ones that were proved, as many are worked on at once as fit a quarter of the budget: of 1
 * MB of JSON text and objects are made, and parts to be stored, 4 MB or more.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  /** Both in the order in which bodies came to be in them. */
  readonly #small = new Set<Share>();
  readonly #large = new Set<Share>();
  #largeBytes = 0;
  /** Those that were proved: their bytes, and what is worked on of them. */
  readonly #kept = new Set<Share>();
  #keptBytes = 0;
  #atWork = 0;
  readonly #waiting = new Set<Share>();
  #bytes = 0;
  #reserved = 0;

  /**
   * Makes a budget.
   *
   * @param maxBytes How many bytes bodies may hold together.
   * @throws {RangeError} If it is not a positive integer.
   */
  constructor(maxBytes: number) {
    if (!Number.isSafeInteger(maxBytes) || maxBytes < 1) {
      throw new RangeError(
        `Cannot create the body budget: 'maxBytes' must be a positive integer, got ${maxBytes}`,
      );
    }
    this.#maxBytes = maxBytes;
  }

  /** How many bytes are held. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Begins to count a body.
   *
   * @param evict Called when the body has to be given up: what it holds is counted no longer.
   * @returns The body's share. Close it once the body is read, or given up.
   */
  open(evict: () => void): BodyShare {
    const share: Share = new Share(evict, {
      add: (added) => this.#add(share, added),
      keep: () => this.#keep(share),
      close: () => this.#close(share),
    });
    this.#small.add(share);
    return share;
  }

  /**
   * Sets room aside for a body that cannot be given up while it arrives.
   *
   * @param bytes How many bytes it has.
   * @returns What gives the room back; null if an eighth of the budget is not enough for all such bodies,
   * or what is kept leaves no room.
   */
  reserve(bytes: number): (() => void) | null {
    return this.#reserve(bytes, this.#maxBytes / 8);
  }

  /**
   * Sets room aside if it is free: nothing is given up for it.
   *
   * @param bytes How many bytes.
   * @returns What gives the room back; null if so many are not free, or half of the budget would be set
   * aside.
   */
  reserveFree(bytes: number): (() => void) | null {
    if (this.#bytes + bytes > this.#maxBytes) return null;
    return this.#reserve(bytes, this.#maxBytes / 2);
  }

  #reserve(bytes: number, most: number): (() => void) | null {
    const reserved = this.#reserved + bytes;
    if (reserved > most || this.#keptBytes + reserved > this.#maxBytes) return null;
    this.#reserved += bytes;
    this.#bytes += bytes;
    this.#evict();
    return () => {
      this.#reserved -= bytes;
      this.#bytes -= bytes;
    };
  }

  #add(share: Share, bytes: number): void {
    const wasLarge = this.#large.has(share);
    share.bytes += bytes;
    this.#bytes += bytes;
    if (wasLarge) this.#largeBytes += bytes;
    else if (share.bytes > SMALL_BYTES && this.#small.delete(share)) {
      this.#large.add(share);
      this.#largeBytes += share.bytes;
    }
    this.#evict();
  }

  #evict(): void {
    while (this.#bytes > this.#maxBytes && this.#small.size + this.#large.size > 0) {
      this.#evictOne();
    }
  }

  #evictOne(): void {
    const smallBytes = this.#bytes - this.#reserved - this.#keptBytes - this.#largeBytes;
    const isSmall = this.#large.size === 0 ||
      (this.#small.size > 0 && smallBytes > this.#largeBytes);
    const [victim] = isSmall ? this.#small : this.#large;
    this.#close(victim!);
    victim!.giveUp();
  }

  /** Takes out a body that is neither kept nor closed; tells whether it was one. */
  #takeArriving(share: Share): boolean {
    if (this.#small.delete(share)) return true;
    if (!this.#large.delete(share)) return false;
    this.#largeBytes -= share.bytes;
    return true;
  }

  #keep(share: Share): Promise<void> | undefined {
    if (share.isEvicted) throw overloaded();
    if (!this.#takeArriving(share)) return undefined;
    this.#kept.add(share);
    this.#keptBytes += share.bytes;
    if (share.bytes <= SMALL_BYTES) return undefined;
    if (this.#waiting.size === 0 && this.#hasRoomFor(share)) {
      this.#work(share);
      return undefined;
    }
    this.#waiting.add(share);
    return share.wait();
  }

  /** The largest body has to have its turn as well. */
  #hasRoomFor(share: Share): boolean {
    return this.#atWork === 0 || this.#atWork + share.bytes <= this.#maxBytes / 4;
  }

  #work(share: Share): void {
    share.isAtWork = true;
    this.#atWork += share.bytes;
  }

  #close(share: Share): void {
    if (this.#kept.delete(share)) this.#closeKept(share);
    else if (!this.#takeArriving(share)) return;
    this.#bytes -= share.bytes;
  }

  #closeKept(share: Share): void {
    this.#keptBytes -= share.bytes;
    if (share.isAtWork) this.#atWork -= share.bytes;
    else if (this.#waiting.delete(share)) share.stopWaiting(overloaded());
    for (const next of this.#waiting) {
      if (!this.#hasRoomFor(next)) return;
      this.#waiting.delete(next);
      this.#work(next);
      next.stopWaiting();
    }
  }
}

interface ShareParts {
  readonly add: (bytes: number) => void;
  readonly keep: () => Promise<void> | undefined;
  readonly close: () => void;
}

class Share implements BodyShare {
  isEvicted = false;
  isAtWork = false;
  bytes = 0;
  readonly keep: () => Promise<void> | undefined;
  readonly close: () => void;
  readonly #evict: () => void;
  readonly #add: (bytes: number) => void;
  #onRoom: ((error?: HttpError) => void) | undefined;

  constructor(evict: () => void, { add, keep, close }: ShareParts) {
    this.#evict = evict;
    this.#add = add;
    this.keep = keep;
    this.close = close;
  }

  add(bytes: number): void {
    if (!this.isEvicted) this.#add(bytes);
  }

  giveUp(): void {
    this.isEvicted = true;
    this.#evict();
  }

  wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onRoom = (error) => error ? reject(error) : resolve();
    });
  }

  stopWaiting(error?: HttpError): void {
    this.#onRoom?.(error);
  }
}
