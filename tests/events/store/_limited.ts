/** A service that limits its callers, and processes that call it as often as they may. */
import type { EventStore } from "../../../events/mod.ts";
import type { TokenRule } from "../../../events/store/token_bucket.ts";
import type { WallClock } from "../../_wall_clock.ts";

/** A service that refuses a call if there were as many as its limit in the time before. */
export class LimitedService {
  readonly #calls: number[] = [];
  refused = 0;

  constructor(readonly rule: TokenRule) {}

  /** Number of calls that were not refused. */
  get accepted(): number {
    return this.#calls.length;
  }

  /** Times of the calls that were not refused. */
  get times(): readonly number[] {
    return this.#calls;
  }

  call(): void {
    const { limit, perMs } = this.rule;
    const now = Date.now();
    const first = this.#calls.at(-limit);
    if (first !== undefined && first > now - perMs) this.refused++;
    else this.#calls.push(now);
  }
}

/** Options of {@linkcode ask}. */
interface AskOptions {
  readonly name?: string;
  readonly key?: string;
  readonly count?: number;
  readonly waitMs?: number;
}

/** Asks for tokens. Resolves with undefined, or with the time after which to come again. */
export function ask(
  { tokens }: Pick<EventStore, "tokens">,
  rule: TokenRule,
  { name = "service", key = "", count = 1, waitMs = 0 }: AskOptions = {},
): Promise<number | undefined> {
  const bucket = tokens.of(name, key);
  if (bucket.takeNow(rule, count) !== undefined) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const use = () => {
      resolve(undefined);
      return true;
    };
    bucket.wait(rule, { count, waitMs, use, putOff: resolve, fail: reject });
  });
}

/** A caller of a service, in a process with a store. */
interface Caller {
  readonly store: EventStore;
  /** The time at which it calls again. */
  at: number;
}

/**
 * Has callers call a service again and again, each when it may, while a clock turns.
 *
 * @returns The times for which they were put off, in milliseconds.
 */
export async function callOften(
  service: LimitedService,
  stores: readonly EventStore[],
  clock: WallClock,
  { callers: count = 10, forMs }: { readonly callers?: number; readonly forMs: number },
): Promise<number[]> {
  const start = Date.now();
  const callers: Caller[] = stores.flatMap((store) =>
    Array.from({ length: count }, () => ({ store, at: start }))
  );
  const delays: number[] = [];
  for (;;) {
    const next = Math.min(...callers.map(({ at }) => at));
    if (next >= start + forMs) return delays;
    clock.advance(Math.max(0, next - Date.now()));
    const due = callers.filter(({ at }) => at <= Date.now());
    await Promise.all(due.map(async (caller) => {
      const afterMs = await ask(caller.store, service.rule);
      if (afterMs === undefined) service.call();
      else delays.push(afterMs);
      caller.at = Date.now() + Math.ceil(afterMs ?? 100 * Math.random());
    }));
  }
}
