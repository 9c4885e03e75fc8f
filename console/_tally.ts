/**
 * The counts of a span of time: what is counted, how it is kept, and how counts are added up.
 *
 * @module
 */
import { isCount, isText, isTime, listOf, orNone, shape } from "../events/store/record_shape.ts";

/** Most types of events in a record. A record of so many takes about 15 KB. */
const MAX_TYPES = 40;

/** Most types of events in a sum of records. */
const MAX_SUMMED_TYPES = 500;

/** Most error codes. This package has some 25. */
const MAX_CODES = 50;

/** Longest text of a name: a platform of a user's own may read it from a payload. */
const MAX_NAME_LENGTH = 100;

/** Number of buckets for each doubling of a time: a bucket is 19 % wide. */
const BUCKETS_PER_OCTAVE = 4;

/** Number of buckets, the last of which begins at 12 days. */
const BUCKETS = 121;

/** Name of all that is one too many. */
export const OTHER = "other";

/** Characters that would change how a page or a terminal shows a text. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Counts of a type of event. */
export interface TypeTally {
  /** Platform, or source of the app's own; empty for all types beyond the limit. */
  readonly source: string;
  /** Type. */
  readonly type: string;
  /** Number of deliveries stored. */
  received: number;
  /** Number of events handled. */
  handled: number;
  /** Number of attempts that failed. */
  failed: number;
}

/** Counts of a span of time. */
export class Tally {
  /** Number of deliveries stored. */
  received = 0;
  /** Number of deliveries refused. */
  refused = 0;
  /** Number of events handled. */
  handled = 0;
  /** Number of attempts that failed. */
  failed = 0;
  /** Numbers of refused deliveries by error code. */
  readonly codes = new Map<string, number>();
  /** Numbers of handled events by bucket of the time since their receipt. */
  readonly buckets = new Map<number, number>();
  readonly #types = new Map<string, TypeTally>();
  readonly #maxTypes: number;

  /** @param maxTypes Most types: fewer in a record than in a sum of records. */
  constructor(maxTypes = MAX_TYPES) {
    this.#maxTypes = maxTypes;
  }

  /** Counts by type. */
  get types(): IterableIterator<TypeTally> {
    return this.#types.values();
  }

  /** Finds the counts of a type. */
  of(source: string, type: string): TypeTally {
    const cut = [source.slice(0, MAX_NAME_LENGTH), type.slice(0, MAX_NAME_LENGTH)] as const;
    const known = this.#types.get(cut.join("\n"));
    if (known) return known;
    const names = this.#types.size < this.#maxTypes
      ? [shown(source), shown(type)] as const
      : ["", OTHER] as const;
    const key = names.join("\n");
    let tally = this.#types.get(key);
    if (!tally) {
      const [source, type] = names;
      tally = { source, type, received: 0, handled: 0, failed: 0 };
      this.#types.set(key, tally);
    }
    return tally;
  }

  /** Counts a refusal. */
  refuse(code: string, count = 1): void {
    this.refused += count;
    const name = this.codes.has(code) || this.codes.size < MAX_CODES ? shown(code) : OTHER;
    this.codes.set(name, (this.codes.get(name) ?? 0) + count);
  }

  /** Counts a time from receipt to handled, without planned waits, in milliseconds. */
  time(ms: number): void {
    const bucket = bucketOf(ms);
    this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + 1);
  }

  /** Adds the counts of another span. */
  add(other: Tally): void {
    const { refused } = this;
    for (const [code, count] of other.codes) this.refuse(code, count);
    this.refused = refused + other.refused;
    this.received += other.received;
    this.handled += other.handled;
    this.failed += other.failed;
    for (const { source, type, received, handled, failed } of other.types) {
      const tally = this.of(source, type);
      tally.received += received;
      tally.handled += handled;
      tally.failed += failed;
    }
    for (const [bucket, count] of other.buckets) {
      this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + count);
    }
  }
}

/** Makes a tally that is the sum of others. */
export function sumOf(tallies: Iterable<Tally>): Tally {
  const sum = new Tally(MAX_SUMMED_TYPES);
  for (const tally of tallies) sum.add(tally);
  return sum;
}

/** Finds a percentile of the times from receipt to handled, in milliseconds; null without any. */
export function percentile({ buckets }: Tally, share: number): number | null {
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  let left = Math.ceil(total * share);
  for (const [bucket, count] of sorted) {
    left -= count;
    if (left <= 0) return middleOf(bucket);
  }
  return null;
}

function bucketOf(ms: number): number {
  if (!(ms > 1)) return 0;
  return Math.min(BUCKETS - 1, Math.floor(Math.log2(ms) * BUCKETS_PER_OCTAVE));
}

/** Returns the geometric middle of a bucket: at most 9 % from all times in it. */
function middleOf(bucket: number): number {
  return Math.round(2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE) * 10) / 10;
}

/** Makes a name short and harmless. */
function shown(name: string): string {
  return name.slice(0, MAX_NAME_LENGTH).toWellFormed().replace(UNSAFE, "\uFFFD");
}

/** Kept counts of a process in a span of time. */
export interface TallyRecord {
  /** Version of this layout. */
  readonly v: 1;
  /** Time at which it was written, milliseconds since the epoch. */
  readonly at: number;
  /** Set if the process ran a worker then. */
  readonly worker?: boolean | undefined;
  /** Numbers of deliveries stored and refused, of events handled and of failed attempts. */
  readonly n: readonly number[];
  /** Error codes, each with its number. */
  readonly codes: readonly (readonly [string, number])[];
  /** Sources and types, each with three numbers. */
  readonly types: readonly (readonly [string, string, number, number, number])[];
  /** Buckets of times, each with its number. */
  readonly buckets: readonly (readonly [number, number])[];
}

const isTallyShape = shape({
  v: (value) => value === 1,
  at: isTime,
  worker: orNone((value) => typeof value === "boolean"),
  n: (value) => isRow(value, isCount, isCount, isCount, isCount),
  codes: listOf((value) => isRow(value, isText, isCount), MAX_CODES + 1),
  types: listOf((value) => isRow(value, isText, isText, isCount, isCount, isCount), MAX_TYPES + 1),
  buckets: listOf((value) => isRow(value, isCount, isCount), BUCKETS),
});

function isRow(value: unknown, ...checks: readonly ((value: unknown) => boolean)[]): boolean {
  return Array.isArray(value) && value.length === checks.length &&
    checks.every((check, i) => check(value[i]));
}

/** Checks for a record of this version. */
export function isTallyRecord(value: unknown): value is TallyRecord {
  return isTallyShape(value);
}

/** Makes the record of a span. */
export function recordOf(tally: Tally, at: number, worker: boolean): TallyRecord {
  const { received, refused, handled, failed, codes, types, buckets } = tally;
  return {
    ...{ v: 1, at, worker },
    n: [received, refused, handled, failed],
    codes: [...codes],
    types: [...types].map((each) =>
      [each.source, each.type, each.received, each.handled, each.failed] as const
    ),
    buckets: [...buckets],
  };
}

/** Makes the counts of a record. */
export function tallyOf({ n, codes, types, buckets }: TallyRecord): Tally {
  const tally = new Tally();
  [tally.received = 0, tally.refused = 0, tally.handled = 0, tally.failed = 0] = n;
  for (const [code, count] of codes) tally.codes.set(shown(code), count);
  for (const [source, type, received, handled, failed] of types) {
    const { received: r, handled: h, failed: f } = tally.of(source, type);
    Object.assign(tally.of(source, type), {
      received: r + received,
      handled: h + handled,
      failed: f + failed,
    });
  }
  for (const [bucket, count] of buckets) if (bucket < BUCKETS) tally.buckets.set(bucket, count);
  return tally;
}
