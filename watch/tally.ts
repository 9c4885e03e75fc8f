/**
 * Counts of a span of time: by type of event, by error code, and by time until an event was handled.
 *
 * @module
 */
import { type Check, isCount, isText, isTime, listOf, orNone, shape } from "../core/shape.ts";

/** Most types of events in a record. A record of so many takes about 16 KB. */
export const MAX_TYPES = 40;

/** Most types of events in a sum of records. */
const MAX_SUMMED_TYPES = 500;

/** Most error codes of platforms. This package has some 25 codes. */
const MAX_CODES = 50;

/** Most platforms whose verified deliveries are counted. */
const MAX_SOURCES = 50;

/** Longest name: a user's platform may read it from a payload. */
const MAX_NAME_LENGTH = 100;

/** Number of buckets for each doubling of a time: a bucket is 19 % wide. */
const BUCKETS_PER_OCTAVE = 4;

/** Number of buckets, the last of which begins at 12 days. */
const BUCKETS = 121;

/** Name of everything beyond a limit. */
const OTHER = "other";

/** Characters that would change how a page or a terminal shows a text, and surrogates that stand alone. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Numbers by name, up to a number of names: the others are added up under one. */
class Counts {
  readonly #sums = new Map<string, number[]>();
  readonly #max: number;
  readonly #other: string;

  constructor(max: number, other = OTHER) {
    this.#max = max;
    this.#other = other;
  }

  /** Adds numbers to the sums of a name. */
  add(name: string, numbers: readonly number[]): void {
    const sums = this.#sums.get(name) ??
      this.#begin(name.replace(UNSAFE, "\uFFFD"), numbers.length);
    numbers.forEach((each, i) => sums[i]! += each);
  }

  #begin(name: string, width: number): number[] {
    const isKnown = this.#sums.has(name) || this.#sums.size < this.#max;
    const key = isKnown ? name : this.#other;
    const sums = this.#sums.get(key) ?? Array<number>(width).fill(0);
    this.#sums.set(key, sums);
    return sums;
  }

  /** Lists the names with their numbers. */
  [Symbol.iterator](): IterableIterator<[string, number[]]> {
    return this.#sums.entries();
  }
}

/**
 * Numbers of a type of event, in the order in which records have them. Those of attempts count attempts: one for a batch.
 * The others count events.
 */
const NUMBERS = [
  ...["received", "handled", "failed", "emitted", "ignored", "dead", "cancelled"] as const,
  ...["parked", "putOff", "attempts"] as const,
];

/**
 * Numbers of a type of event.
 *
 * - `received`: deliveries that were stored, and `emitted`: events that handlers have emitted, and slots of schedules.
 * - `handled`, `ignored`, `dead` and `cancelled`: events that have ended so.
 * - `attempts`: attempts that were handled or failed, and `failed`: those that failed.
 * - `parked` and `putOff`: attempts after which the event waits, without having failed.
 */
export type TypeNumbers = Readonly<Record<typeof NUMBERS[number], number>>;

/** Counts of a span of time. */
export class Tally {
  /** Numbers by source and type of event: {@linkcode TypeNumbers} as a list. */
  readonly types: Counts;
  /** Numbers of refused deliveries by platform and error code. */
  readonly codes = new Counts(MAX_CODES, `:${OTHER}`);
  /** Numbers of verified deliveries by platform, whatever became of them. */
  readonly verified = new Counts(MAX_SOURCES, `:${OTHER}`);
  /** Numbers of handled events by bucket of the time since their receipt. */
  readonly buckets = new Counts(BUCKETS);

  /** @param maxTypes Most types: fewer in a record than in a sum of records. */
  constructor(maxTypes = MAX_TYPES) {
    this.types = new Counts(maxTypes, `:${OTHER}`);
  }

  /** Counts what has happened to a type of event. */
  count(source: string, type: string, numbers: Partial<TypeNumbers>) {
    this.types.add(nameOf(source, type), NUMBERS.map((name) => numbers[name] ?? 0));
  }

  /** Counts a refusal by a platform. */
  refuse(source: string, code: string): void {
    this.codes.add(nameOf(source, code), [1]);
  }

  /** Counts a delivery of a platform that has passed its verification. */
  verify(source: string): void {
    this.verified.add(nameOf(source, ""), [1]);
  }

  /** Counts a time from receipt to handled, without planned waits, in milliseconds. */
  time(ms: number): void {
    const bucket = ms > 1 ? Math.floor(Math.log2(ms) * BUCKETS_PER_OCTAVE) : 0;
    this.buckets.add(String(Math.min(BUCKETS - 1, bucket)), [1]);
  }

  /** Adds the counts of another span, or of a record. */
  add(part: Omit<TallyRecord, "v" | "at">): void {
    for (const [name, numbers] of part.types) this.types.add(name, numbers);
    for (const [name, numbers] of part.codes) this.codes.add(name, numbers);
    for (const [name, numbers] of part.verified ?? []) this.verified.add(name, numbers);
    for (const [name, numbers] of part.buckets) this.buckets.add(name, numbers);
  }

  /** Finds a percentile of these times, right to 9 %; undefined without any. */
  percentile(share: number): number | undefined {
    const sorted = [...this.buckets].map(([name, [count]]) => [Number(name), count!] as const)
      .sort(([a], [b]) => a - b);
    let left = Math.ceil(sorted.reduce((sum, [, count]) => sum + count, 0) * share);
    const [bucket] = sorted.find(([, count]) => (left -= count) <= 0) ?? [];
    if (bucket === undefined) return undefined;
    // The geometric middle of the bucket.
    return Math.round(2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE) * 10) / 10;
  }

  /** Number of refused deliveries. */
  get refused(): number {
    return [...this.codes].reduce((sum, [, [count]]) => sum + count!, 0);
  }
}

/** Times with what was counted from each on. */
export type Tallies = readonly (readonly [at: number, Tally])[];

/** Adds up the numbers of types. */
export function totalOf(types: Rows): TypeNumbers {
  const total = NUMBERS.map(() => 0);
  for (const [, numbers] of types) numbers.forEach((each, i) => total[i]! += each);
  return numbersOf(total);
}

/** Names the numbers of a type. */
export function numbersOf(numbers: readonly number[]): TypeNumbers {
  return Object.fromEntries(NUMBERS.map((name, i) => [name, numbers[i] ?? 0])) as TypeNumbers;
}

/** Makes the name under which something of a source is counted. A source has no colon: ids have one behind it. */
function nameOf(source: string, name: string): string {
  return `${source.slice(0, MAX_NAME_LENGTH)}:${name.slice(0, MAX_NAME_LENGTH)}`;
}

/** Splits such a name. */
export function partsOf(name: string): readonly [source: string, name: string] {
  const [source = "", ...rest] = name.split(":");
  return [source, rest.join(":")];
}

/** Names with their numbers. */
type Rows = Iterable<readonly [string, readonly number[]]>;

/** Kept counts of a process in a span of time. */
interface TallyRecord extends Readonly<Record<"types" | "codes" | "buckets", Rows>> {
  /** Version of this layout. */
  readonly v: 2;
  /** Time at which it was written, milliseconds since the epoch. */
  readonly at: number;
  /** Verified deliveries; undefined if an earlier version has written the record. */
  readonly verified?: Rows | undefined;
}

const isTallyShape = shape({
  v: (value) => value === 2,
  at: isTime,
  types: rows(MAX_TYPES, NUMBERS.length),
  codes: rows(MAX_CODES, 1),
  verified: orNone(rows(MAX_SOURCES, 1)),
  buckets: rows(BUCKETS, 1),
});

/** Makes a check for names, each with as many numbers. */
function rows(max: number, width: number): Check {
  const isRow: Check = (row) =>
    Array.isArray(row) && isText(row[0]) && listOf(isCount)(row[1]) && row[1].length === width;
  return listOf(isRow, max + 1);
}

/** Checks for a record of this version. */
export function isTallyRecord(value: unknown): value is TallyRecord {
  return isTallyShape(value);
}

/** Makes the record of a span. */
export function recordOf({ types, codes, verified, buckets }: Tally): TallyRecord {
  const rows = {
    ...{ types: [...types], codes: [...codes] },
    ...{ verified: [...verified], buckets: [...buckets] },
  };
  return { v: 2, at: Date.now(), ...rows };
}

/** Adds up counts and records. */
export function sumOf(parts: Iterable<Tally | TallyRecord>, maxTypes = MAX_SUMMED_TYPES): Tally {
  const sum = new Tally(maxTypes);
  for (const part of parts) sum.add(part);
  return sum;
}
