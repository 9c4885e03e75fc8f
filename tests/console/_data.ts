import { setImmediate } from "node:timers";
import { ConsoleData } from "../../console/_console_data.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import type { LogRecord } from "../../core/mod.ts";
import { type EventStore, openEventStore } from "../../events/mod.ts";

/** Namespace of the stores of these tests. */
export const NAMESPACE = "bot";

/** Data of a console, with its store and log. It is stopped when it goes out of scope. */
export interface DataUnderTest extends AsyncDisposable {
  readonly data: ConsoleData;
  readonly store: EventStore;
  readonly kv: Deno.Kv;
  readonly logged: readonly LogRecord[];
}

/** Commits that are under way. */
const commits = new Set<Promise<unknown>>();

/** Waits until all that has begun to be written is written. */
export async function written(): Promise<void> {
  do {
    await Promise.allSettled(commits);
    await new Promise((resolve) => setImmediate(resolve));
  } while (commits.size > 0);
}

/** Notes the commits of a KV. */
function noteCommits(kv: Deno.Kv): void {
  const { atomic } = kv;
  kv.atomic = () => {
    const operation = atomic.call(kv);
    const { commit } = operation;
    operation.commit = () => {
      const committing = commit.call(operation);
      commits.add(committing);
      const end = () => void commits.delete(committing);
      committing.then(end, end);
      return committing;
    };
    return operation;
  };
}

/** Has the pages of a console search for as long as it takes, and not for 25 ms, and wait for their counts. */
export function timeless(data: ConsoleData): ConsoleData {
  const search = data.search.bind(data);
  const look = data.actCounts.look.bind(data.actCounts);
  const standing = async <R>(read: () => Promise<R>): Promise<R> => {
    if (Object.hasOwn(performance, "now")) return await read();
    using _clock = new MonotonicClock();
    return await read();
  };
  data.search = (...args) => standing(() => search(...args));
  data.actCounts.look = async (kind, query, isPoll) => {
    let count = await look(kind, query, isPoll);
    while (count.isMore) count = await look(kind, query, true);
    return count;
  };
  return data;
}

/** Opens the data of a console, of a store in memory or in a given KV. */
export async function openData(given?: Deno.Kv): Promise<DataUnderTest> {
  const kv = given ?? await Deno.openKv(":memory:");
  if (!given) noteCommits(kv);
  const logged: LogRecord[] = [];
  const log = (record: LogRecord) => void logged.push(record);
  const store = await openEventStore(kv, { namespace: NAMESPACE, log });
  const data = timeless(new ConsoleData(store, log));
  return {
    ...{ data, store, kv, logged },
    async [Symbol.asyncDispose]() {
      await data.stop();
      if (!given) kv.close();
    },
  };
}

/** Waits until a function returns something. */
export async function until<T>(look: () => Promise<T | null | undefined | false>): Promise<T> {
  for (;;) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The keys of the console's records. */
export async function recordKeys(kv: Deno.Kv, kind = ""): Promise<Deno.KvKey[]> {
  const prefix = kind === "" ? [NAMESPACE, "console"] : [NAMESPACE, "console", kind];
  return await Array.fromAsync(kv.list({ prefix }), ({ key }) => key);
}
