/** Up to this a body is small: nearly all deliveries are, and a large one has to give way first. */
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
  /** Gives back what the body held. */
  close(): void;
}

/**
 * Bounds what the bodies that are being read hold together: without it 300 slow uploads of 25 MiB would
 * take 7.5 GB, and none of their senders needs to have proved anything.
 *
 * Past the bound, the body that has been over 64 KiB for the longest is evicted, and only where there is
 * none, the oldest small one. So uploads that are begun and then stand still cannot keep genuine ones
 * out: those would have to be overtaken by as many bytes as the whole budget while they arrive.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  /** Both in the order in which bodies came to be in them. */
  readonly #small = new Set<Share>();
  readonly #large = new Set<Share>();
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
    const share = new Share(evict, (added) => this.#add(share, added), () => this.#close(share));
    this.#small.add(share);
    return share;
  }

  /**
   * Sets room aside for a body that cannot be given up while it arrives.
   *
   * @param bytes How many bytes it has.
   * @returns What gives the room back; null if half of the budget is not enough for all such bodies.
   */
  reserve(bytes: number): (() => void) | null {
    if (this.#reserved + bytes > this.#maxBytes / 2) return null;
    this.#reserved += bytes;
    this.#bytes += bytes;
    this.#evict();
    return () => {
      this.#reserved -= bytes;
      this.#bytes -= bytes;
    };
  }

  /**
   * Sets room aside if it is free: nothing is given up for it.
   *
   * @param bytes How many bytes.
   * @returns What gives the room back; null if so many are not free, or {@linkcode reserve} has none.
   */
  reserveFree(bytes: number): (() => void) | null {
    return this.#bytes + bytes > this.#maxBytes ? null : this.reserve(bytes);
  }

  #add(share: Share, bytes: number): void {
    const isNowLarge = share.bytes <= SMALL_BYTES && share.bytes + bytes > SMALL_BYTES;
    share.bytes += bytes;
    this.#bytes += bytes;
    if (isNowLarge && this.#small.delete(share)) this.#large.add(share);
    this.#evict();
  }

  #evict(): void {
    while (this.#bytes > this.#maxBytes) this.#evictOne();
  }

  #evictOne(): void {
    const [victim] = this.#large.size > 0 ? this.#large : this.#small;
    this.#close(victim!);
    victim!.giveUp();
  }

  #close(share: Share): void {
    if (!this.#large.delete(share) && !this.#small.delete(share)) return;
    this.#bytes -= share.bytes;
  }
}

class Share implements BodyShare {
  isEvicted = false;
  bytes = 0;
  readonly #evict: () => void;
  readonly #add: (bytes: number) => void;
  readonly close: () => void;

  constructor(evict: () => void, add: (bytes: number) => void, close: () => void) {
    this.#evict = evict;
    this.#add = add;
    this.close = close;
  }

  add(bytes: number): void {
    if (!this.isEvicted) this.#add(bytes);
  }

  giveUp(): void {
    this.isEvicted = true;
    this.#evict();
  }
}
