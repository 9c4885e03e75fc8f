import { isUndecodable, UNKNOWN_VERSION } from "./_reads.ts";

/** Comes before all numbers that are looked for, and with them before keys of another shape. */
export const FIRST = -1;

/** Comes after all of them: the farthest that a date can be from the epoch, in milliseconds, and one. */
export const LAST = 8.64e15 + 1;

/**
 * Entries whose keys have a number behind a prefix. A value whose bytes cannot be decoded fails the
 * reading of all that are read with it, and does not even tell its key. So its place is looked for by
 * halves, and remembered: from nothing known that takes some 80 readings.
 */
export class NumberedEntries {
  readonly #kv: Deno.Kv;
  readonly #prefix: Deno.KvKey;
  /** The whole numbers at which something cannot be decoded. */
  readonly #holes = new Set<number>();

  constructor(kv: Deno.Kv, prefix: Deno.KvKey) {
    this.#kv = kv;
    this.#prefix = prefix;
  }

  /**
   * Lists entries in their order. What cannot be decoded is told by an entry that has the number for a
   * key, no value and {@linkcode UNKNOWN_VERSION}. Of one number, what lies between two of those is missing.
   *
   * @param from The number to begin at, a whole one.
   * @param to The number to end before, a whole one.
   * @param batchSize How many entries are read at a time.
   */
  async *list(from: number, to: number, batchSize: number): AsyncGenerator<Deno.KvEntry<unknown>> {
    let next = from;
    for (const hole of [...this.#holes].sort((a, b) => a - b)) {
      if (hole < next || hole >= to) continue;
      if (hole > next) yield* this.#range(next, hole, batchSize);
      yield* this.#range(hole, hole + 1, batchSize);
      next = hole + 1;
    }
    if (next < to) yield* this.#range(next, to, batchSize);
  }

  async *#range(
    from: number,
    to: number,
    batchSize: number,
    start = this.#keyOf(from),
  ): AsyncGenerator<Deno.KvEntry<unknown>> {
    const isOne = to - from <= 1;
    const options = { batchSize: isOne ? 1 : batchSize };
    let last: Deno.KvKey | undefined;
    try {
      for await (const entry of this.#kv.list(this.#between(start, to), options)) {
        yield entry;
        last = entry.key;
      }
      if (isOne) this.#holes.delete(from);
      return;
    } catch (error) {
      if (!isUndecodable(error)) throw error;
    }
    const next = last ? [...last, ""] : start;
    if (isOne) return yield* this.#behind(from, this.#between(next, to));
    const number = last?.[this.#prefix.length];
    const reached = typeof number === "number" ? Math.max(from, Math.floor(number)) : from;
    const middle = Math.floor((reached + to) / 2);
    if (middle > reached) yield* this.#range(reached, middle, batchSize, next);
    yield* this.#range(middle, to, batchSize, middle > reached ? undefined : next);
  }

  /** Tells of what cannot be decoded, and reads what is behind that from its end. */
  async *#behind(
    number: number,
    selector: Deno.KvListSelector,
  ): AsyncGenerator<Deno.KvEntry<unknown>> {
    this.#holes.add(number);
    yield { key: this.#keyOf(number), value: undefined, versionstamp: UNKNOWN_VERSION };
    const behind: Deno.KvEntry<unknown>[] = [];
    try {
      const options = { reverse: true, batchSize: 1 };
      for await (const entry of this.#kv.list(selector, options)) behind.push(entry);
    } catch (error) {
      if (!isUndecodable(error)) throw error;
    }
    yield* behind.reverse();
  }

  #keyOf(number: number): Deno.KvKey {
    return number === FIRST ? this.#prefix : [...this.#prefix, number];
  }

  #between(start: Deno.KvKey, to: number): Deno.KvListSelector {
    return to === LAST ? { prefix: this.#prefix, start } : { start, end: this.#keyOf(to) };
  }
}
