import { type HttpError, unavailable } from "../core/http_error.ts";

/** Largest body that counts as small, in bytes. Nearly all are, and large ones must not crowd them out. */
const SMALL_BYTES = 65_536;

/**
 * Memory that a body takes while it arrives, beside its bytes: its request, its stream or connection, and the
 * buffer that the next part is read into. Measured were 40 KB over HTTP/2, and 60 KB over HTTP/1.1.
 */
const PENDING_BYTES = 65_536;

/** Number of bodies that may arrive at a time without that memory being counted, however small the budget. */
const UNCOUNTED = 64;

/** Seconds until a retry makes sense: by then bodies have arrived, or timed out. */
const RETRY_AFTER_SECONDS = 10;

/**
 * Creates the error for a body without room.
 *
 * @returns The error, 503 `OVERLOADED` with `Retry-After`.
 */
export function overloaded(): HttpError {
  return unavailable("OVERLOADED", RETRY_AFTER_SECONDS);
}

/**
 * Limits the bytes that all bodies together hold, from their first byte until they are stored. Without it,
 * 300 slow uploads of 25 MiB would take 7.5 GB, and their senders need not know a secret. A body that is still
 * arriving counts 64 KiB more, however little has come: 20,000 bodies of one byte took 2 GB.
 *
 * Past the limit, either small bodies (up to 64 KiB) or large ones are evicted, whichever hold more: the
 * oldest small one, or the one that has been large for the longest. So stalled uploads do not keep genuine
 * ones out, small or large. A genuine body is evicted only if later bodies fill half of the budget that is
 * not reserved or kept before it is verified. Verified bodies are kept. If they fill the budget, new ones
 * are refused.
 *
 * Large verified bodies are parsed and stored at the same time only if they fit a quarter of the budget:
 * 1 MB of JSON becomes a text, objects, and parts to be stored, 4 MB or more.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  /** Both sets are in the order in which the bodies were added. */
  readonly #small = new Set<BodyShare>();
  readonly #large = new Set<BodyShare>();
  #largeBytes = 0;
  /** The verified bodies, their bytes, and the bytes of those that are being worked on. */
  readonly #kept = new Set<BodyShare>();
  #keptBytes = 0;
  #atWork = 0;
  readonly #waiting = new Set<BodyShare>();
  #bytes = 0;
  #reserved = 0;
  /** Number of the bodies with reserved room that are arriving. */
  #arriving = 0;

  /** @param maxBytes The number of bytes that bodies may hold together. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Number of bytes that are held, without what bodies cost while they arrive. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of bytes that are held, with what bodies cost while they arrive. */
  get #cost(): number {
    const pending = this.#small.size + this.#large.size + this.#arriving;
    return this.#bytes + Math.max(0, pending - UNCOUNTED) * PENDING_BYTES;
  }

  /**
   * Begins to count a body.
   *
   * @param evict Called when the body is evicted, which ends counting its bytes.
   * @returns The body's share. Close it once nothing holds the body any more.
   */
  open(evict: () => void): BodyShare {
    const share = new BodyShare(this, evict);
    this.#small.add(share);
    this.#evict();
    return share;
  }

  /**
   * Reserves room for a body that cannot be given up while it arrives.
   *
   * @param bytes The number of bytes.
   * @returns The room; null if reserved rooms would take more than an eighth of the budget, or the kept bodies
   * leave too little.
   */
  reserve(bytes: number): ReservedRoom | null {
    const most = this.#maxBytes / 8;
    if (this.#arriving >= Math.max(UNCOUNTED, most / PENDING_BYTES)) return null;
    this.#arriving++;
    if (this.#reserve(bytes, most)) return new ReservedRoom(this, bytes);
    this.#arriving--;
    return null;
  }

  /**
   * Reserves room if it is free, without evicting anything.
   *
   * @param bytes The number of bytes.
   * @returns The function that returns the room; null if so many bytes are not free, or more than half of
   * the budget would be reserved.
   */
  reserveFree(bytes: number): (() => void) | null {
    const isFree = this.#cost + bytes <= this.#maxBytes && this.#reserve(bytes, this.#maxBytes / 2);
    return isFree ? () => this.release(bytes) : null;
  }

  #reserve(bytes: number, most: number): boolean {
    const reserved = this.#reserved + bytes;
    if (reserved > most || this.#keptBytes + reserved > this.#maxBytes) return false;
    this.#reserved += bytes;
    this.#bytes += bytes;
    this.#evict();
    return true;
  }

  /** Notes that a body with reserved room has arrived, or never will: from then on only its bytes are counted. */
  noteArrived(): void {
    this.#arriving--;
  }

  /** Returns reserved bytes. */
  release(bytes: number): void {
    this.#reserved -= bytes;
    this.#bytes -= bytes;
  }

  /** Counts bytes that have arrived, see {@linkcode BodyShare.add}. */
  add(share: BodyShare, bytes: number): void {
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
    while (this.#cost > this.#maxBytes && this.#small.size + this.#large.size > 0) {
      this.#evictOne();
    }
  }

  #evictOne(): void {
    const smallBytes = this.#bytes - this.#reserved - this.#keptBytes - this.#largeBytes +
      Math.max(0, this.#small.size - UNCOUNTED) * PENDING_BYTES;
    const isSmall = this.#large.size === 0 ||
      (this.#small.size > 0 && smallBytes > this.#largeBytes);
    const [victim] = isSmall ? this.#small : this.#large;
    this.close(victim!);
    victim!.giveUp();
  }

  /** Removes a body that is neither kept nor closed, and returns whether it was one. */
  #takeArriving(share: BodyShare): boolean {
    if (this.#small.delete(share)) return true;
    if (!this.#large.delete(share)) return false;
    this.#largeBytes -= share.bytes;
    return true;
  }

  /** Keeps a verified body, see {@linkcode BodyShare.keep}. */
  keep(share: BodyShare): Promise<void> | undefined {
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

  /** A body larger than the limit is worked on alone. */
  #hasRoomFor(share: BodyShare): boolean {
    return this.#atWork === 0 || this.#atWork + share.bytes <= this.#maxBytes / 4;
  }

  #work(share: BodyShare): void {
    share.isAtWork = true;
    this.#atWork += share.bytes;
  }

  /** Returns a body's bytes. */
  close(share: BodyShare): void {
    if (this.#kept.delete(share)) this.#closeKept(share);
    else if (!this.#takeArriving(share)) return;
    this.#bytes -= share.bytes;
  }

  #closeKept(share: BodyShare): void {
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

/** One body's share of a budget. */
export class BodyShare {
  /** True once the body was evicted: then its reader has to stop. */
  isEvicted = false;
  /** True while the body is parsed and stored. */
  isAtWork = false;
  /** Number of bytes that have arrived. */
  bytes = 0;
  readonly #budget: BodyBudget;
  readonly #onEvicted: () => void;
  #onRoom: ((error?: HttpError) => void) | undefined;

  constructor(budget: BodyBudget, onEvicted: () => void) {
    this.#budget = budget;
    this.#onEvicted = onEvicted;
  }

  /** Counts bytes that have arrived. That may evict this body or another one. */
  add(bytes: number): void {
    if (!this.isEvicted) this.#budget.add(this, bytes);
  }

  /**
   * Keeps a verified body: it is not evicted any more. A large one has to wait until there is room to work
   * on it, since parsing and storing it takes several times its size.
   *
   * @returns A promise that resolves once there is room; undefined if there is room now.
   * @throws {HttpError} 503 `OVERLOADED` if the body was evicted, or is closed while it waits.
   */
  keep(): Promise<void> | undefined {
    return this.#budget.keep(this);
  }

  /** Returns the body's bytes to the budget. */
  close(): void {
    this.#budget.close(this);
  }

  /** Notes that the body was evicted. */
  giveUp(): void {
    this.isEvicted = true;
    this.#onEvicted();
  }

  /** Waits for room. */
  wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onRoom = (error) => error ? reject(error) : resolve();
    });
  }

  /** Ends the wait for room. */
  stopWaiting(error?: HttpError): void {
    this.#onRoom?.(error);
  }
}

/** Room that was reserved for a small body. It is not evicted, and need not wait to be worked on. */
export class ReservedRoom {
  readonly isEvicted = false;
  readonly #budget: BodyBudget;
  readonly #bytes: number;
  #isArriving = true;

  constructor(budget: BodyBudget, bytes: number) {
    this.#budget = budget;
    this.#bytes = bytes;
  }

  /** Notes that the body has arrived: from then on only its bytes are counted. */
  arrived(): void {
    if (this.#isArriving) this.#budget.noteArrived();
    this.#isArriving = false;
  }

  keep(): undefined {}

  /** Returns the room, also if the body has not arrived. */
  close(): void {
    this.arrived();
    this.#budget.release(this.#bytes);
  }
}
