/**
 * Notes of refused deliveries: how many of each kind, since when, and a sample of each. They take the same memory however
 * many are refused.
 *
 * @module
 */
import { isCount, isText, isTime, listOf, orNone, shape } from "../core/shape.ts";
import type { CountedDelivery } from "../telemetry/telemetry.ts";

/** Most kinds that are noted: platforms with their error codes. */
const MAX_KINDS = 20;

/** Time from a sample to the next one of its kind, in milliseconds: a flood costs a few of them. */
const SAMPLE_MS = 1_000;

/** Most samples of a kind, the latest ones. */
const MAX_SAMPLES = 3;

/** Most bytes of the samples that are stored: a record of a KV has 65,536, with the numbers of each kind. */
const MAX_STORED = 45_000;

/** Most headers of a sample, and most characters of a name and of a value. */
const [MAX_HEADERS, MAX_NAME, MAX_VALUE] = [24, 60, 160] as const;

/**
 * Names of the headers whose values are shown. All others may have a secret in them: a signature, a token, a cookie. Of
 * those only the names are shown.
 */
const SHOWN = new Set([
  ...["accept", "content-encoding", "content-length", "content-type", "host", "user-agent"],
  ...["x-github-delivery", "x-github-event", "x-github-hook-id"],
  ...["x-github-hook-installation-target-id", "x-github-hook-installation-target-type"],
  ...["x-gitlab-event", "x-gitlab-event-uuid", "x-gitlab-instance", "x-gitlab-webhook-uuid"],
  ...["x-gitea-delivery", "x-gitea-event", "x-forgejo-delivery", "x-forgejo-event"],
  ...["webhook-id", "webhook-timestamp", "x-slack-request-timestamp", "x-slack-retry-num"],
]);

/** Time without a refusal of a kind after which the next one is the first again, in milliseconds. */
const OVER_MS = 3_600_000;

/** Time after the last refusal of a kind for which it is remembered, in milliseconds: a day. */
const KEPT_MS = 24 * OVER_MS;

/** Sample of a refused delivery. */
export interface RefusalSample {
  /** Time of the refusal, milliseconds since the epoch. */
  readonly at: number;
  /** Address of the client; undefined if it is not known. */
  readonly address?: string | undefined;
  /** Its headers: each name, and its value if that is known to have no secret in it. */
  readonly headers: readonly { readonly name: string; readonly value?: string | undefined }[];
}

/** Refusals of one kind. */
export interface NotedRefusals {
  /** Name of the platform. */
  readonly source: string;
  /** Error code. */
  readonly code: string;
  /** Time of the first one of a row without an hour between two, milliseconds since the epoch. */
  readonly since: number;
  /** Time of the last one. */
  readonly last: number;
  /** Number since the first one. */
  readonly count: number;
  /** Latest samples, the latest last. */
  readonly samples: readonly RefusalSample[];
}

type Kind = { -readonly [TName in keyof NotedRefusals]: NotedRefusals[TName] };

/** Checks whether a stored value is a list of refusals that this version can read. */
export const isRefusalList = listOf(
  shape<NotedRefusals>({
    source: isText,
    code: isText,
    since: isTime,
    last: isTime,
    count: isCount,
    samples: listOf(
      shape<RefusalSample>({
        at: isTime,
        address: orNone(isText),
        headers: listOf(shape({ name: isText, value: orNone(isText) }), MAX_HEADERS),
      }),
      MAX_SAMPLES,
    ),
  }),
  MAX_KINDS,
) as (value: unknown) => value is readonly NotedRefusals[];

/** The refusals of this process, those of the last day. */
export class RefusalNotes {
  readonly #kinds = new Map<string, Kind>();
  #hasNew = false;

  /** Notes a refused delivery. */
  note({ platform, intake = platform, code = "INTERNAL", request }: CountedDelivery): void {
    const now = Date.now();
    const kind = this.#kindOf(intake, code, now);
    if (!kind) return;
    kind.count++;
    kind.last = now;
    this.#hasNew = true;
    const sampledAt = kind.samples.at(-1)?.at ?? -Infinity;
    if (!request || Math.abs(now - sampledAt) < SAMPLE_MS) return;
    kind.samples = [...kind.samples.slice(1 - MAX_SAMPLES), sampleOf(request(), now)];
  }

  /** Lists them, those of the last one first. */
  list(): NotedRefusals[] {
    this.#forget(Date.now() - KEPT_MS);
    return [...this.#kinds.values()].map((kind) => ({ ...kind })).sort((a, b) => b.last - a.last);
  }

  /**
   * Lists them for a record if there are new ones since this was called last; undefined otherwise. It is called from time
   * to time, and forgets those that are old. Senders choose how
   * long their headers are: samples that do not fit are left out, those of the kinds that were refused last come first.
   */
  take(): NotedRefusals[] | undefined {
    this.#forget(Date.now() - KEPT_MS);
    if (!this.#hasNew) return undefined;
    this.#hasNew = false;
    let left = MAX_STORED;
    const fits = (sample: RefusalSample) => (left -= bytesOf(sample)) >= 0;
    return this.list().map((kind) => ({
      ...kind,
      samples: kind.samples.toReversed().filter(fits).reverse(),
    }));
  }

  #kindOf(source: string, code: string, now: number): Kind | undefined {
    const key = `${source}:${code}`;
    const known = this.#kinds.get(key);
    if (known && now - known.last < OVER_MS) return known;
    if (!known && this.#kinds.size >= MAX_KINDS) this.#forget(now - OVER_MS, 1);
    if (!known && this.#kinds.size >= MAX_KINDS) return undefined;
    const kind: Kind = {
      source: source.slice(0, MAX_VALUE),
      code: code.slice(0, MAX_NAME),
      ...{ since: now, last: now, count: 0, samples: [] },
    };
    this.#kinds.set(key, kind);
    return kind;
  }

  /** Forgets kinds whose last refusal came up to a time; by default all of them. */
  #forget(before: number, most = Infinity): void {
    let left = most;
    for (const [key, { last }] of this.#kinds) {
      if (last <= before && left-- > 0) this.#kinds.delete(key);
    }
  }
}

const bytesOf = (sample: RefusalSample): number =>
  new TextEncoder().encode(JSON.stringify(sample)).byteLength + 1;

/** Adds up the refusals of several processes, by their kinds. */
export function merged(lists: Iterable<readonly NotedRefusals[]>): NotedRefusals[] {
  const kinds = new Map<string, NotedRefusals>();
  for (const each of [...lists].flat()) {
    const key = `${each.source}:${each.code}`;
    const other = kinds.get(key);
    const samples = [...other?.samples ?? [], ...each.samples].sort((a, b) => a.at - b.at);
    kinds.set(key, {
      ...each,
      since: Math.min(each.since, other?.since ?? Infinity),
      last: Math.max(each.last, other?.last ?? -Infinity),
      count: each.count + (other?.count ?? 0),
      samples: samples.slice(-MAX_SAMPLES),
    });
  }
  return [...kinds.values()].sort((a, b) => b.last - a.last);
}

function sampleOf(
  { headers, address }: ReturnType<NonNullable<CountedDelivery["request"]>>,
  at: number,
): RefusalSample {
  const shown: { name: string; value?: string }[] = [];
  for (const [name, value] of headers) {
    if (shown.length >= MAX_HEADERS) break;
    const isShown = SHOWN.has(name);
    shown.push({
      name: name.slice(0, MAX_NAME),
      ...(isShown && { value: value.slice(0, MAX_VALUE) }),
    });
  }
  return { at, ...(address !== undefined && { address }), headers: shown };
}
