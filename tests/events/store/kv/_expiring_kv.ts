import { withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { later } from "../_events.ts";

/** A KV that forgets by a clock that a test turns: a real one takes its time, up to a minute. */
export interface ExpiringKv {
  readonly kv: Deno.Kv;
  /** Lets time pass, for `Date.now` as well, and deletes what has expired by then. */
  pass(ms: number): Promise<void>;
  /** Sets the clock right again. */
  end(): Promise<void>;
}

/** Runs a test on a KV in memory whose time can be turned. */
export async function withExpiringKv(fn: (sut: ExpiringKv) => Promise<void>): Promise<void> {
  const sut = await expiringKv();
  try {
    await fn(sut);
  } finally {
    await sut.end();
    sut.kv.close();
  }
}

/** Opens a KV in memory whose time can be turned. */
export async function expiringKv(): Promise<ExpiringKv> {
  const kv = await Deno.openKv(":memory:");
  const { now } = Date;
  let passed = 0;
  const expiries = new Map<string, { readonly key: Deno.KvKey; readonly at: number }>();
  const expiring = withOperations(kv, (operation) => {
    const set = operation.set.bind(operation);
    operation.set = (key, value, options = {}) => {
      const name = JSON.stringify(key);
      if (options.expireIn === undefined) expiries.delete(name);
      else expiries.set(name, { key, at: Date.now() + options.expireIn });
      return set(key, value);
    };
  });
  const pass = async (ms: number) => {
    passed += ms;
    for (const [name, { key, at }] of expiries) {
      if (at > Date.now()) continue;
      expiries.delete(name);
      await kv.delete(key);
    }
    await later(0);
  };
  Date.now = () => now() + passed;
  const end = () => {
    Date.now = now;
    return Promise.resolve();
  };
  return { kv: expiring, pass, end };
}
