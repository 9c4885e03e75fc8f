import { openEventStore } from "../../../events/mod.ts";
import { deleteUploads } from "../store/_tidying.ts";
import type { HandlerEffects } from "../store/engines/_engine.ts";
import { keysOf } from "../store/kv/_keys.ts";
import { valueAt } from "../store/kv/_values.ts";
import { attempt, never, type SimulatedPlace, wakeSome, type Written } from "./_simulated_place.ts";
import type { Simulation } from "./_simulation.ts";

/** A KV as one process sees it. */
export interface SimulatedKv {
  readonly kv: Deno.Kv;
  /** Cuts the process off: no call of it reaches the KV any more, and no answer comes back. */
  cut(): void;
}

/**
 * Makes the view of a KV that a process has in a simulation: each of its calls waits for its turn, and at
 * a rate it goes wrong.
 *
 * @param kv The KV, which all processes share.
 * @param simulation Decides whose turn it is.
 * @param faultRate How many of the calls go wrong, from 0 to 1.
 * @param watchers Those who watch the KV, of all processes.
 * @param onCommit Told each commit that was made, whether the process hears of it or not.
 * @param repeatRate How many of the commits are made twice, as a KV's client does without an answer, from 0 to 1.
 */
export function simulateKv(
  kv: Deno.Kv,
  simulation: Simulation,
  faultRate: number,
  watchers: Set<() => void>,
  onCommit: (versionstamp: string) => void = () => {},
  repeatRate = 0,
): SimulatedKv {
  let isCut = false;

  const call = <T>(execute: () => Promise<T>): Promise<T> =>
    simulation.turn(() => isCut ? Promise.resolve(never) : attempt(execute, simulation, faultRate))
      .then((result) => result());

  async function commit(operation: Deno.AtomicOperation) {
    const result = await operation.commit();
    if (result.ok) {
      onCommit(result.versionstamp);
      wakeSome(watchers, simulation);
    }
    return result;
  }

  /** Commits, and at times again: the second one is refused because of the first. */
  async function commitAndRepeat(operation: Deno.AtomicOperation) {
    const isRepeated = repeatRate > 0 && simulation.random() < repeatRate;
    if (isRepeated) await call(() => commit(operation)).catch(() => {});
    return await call(() => commit(operation));
  }

  function atomic(): Deno.AtomicOperation {
    const operation: Deno.AtomicOperation = new Proxy(kv.atomic(), {
      get: (target, name) => (...args: unknown[]) => {
        if (name === "commit") return commitAndRepeat(target);
        Reflect.apply(Reflect.get(target, name), target, args);
        return operation;
      },
    });
    return operation;
  }

  async function* list(...args: Parameters<Deno.Kv["list"]>) {
    const entries = kv.list(...args);
    for (;;) {
      const { done, value } = await call(() => entries.next());
      if (done) return;
      yield value;
    }
  }

  const watch = () =>
    new ReadableStream({
      start: (controller) => void watchers.add(() => controller.enqueue([])),
    });

  const get = (key: Deno.KvKey) => call(() => kv.get(key));
  const getMany = (keys: readonly Deno.KvKey[]) => call(() => kv.getMany([...keys]));
  const view = { get, getMany, list, atomic, watch } as unknown as Deno.Kv;
  return { kv: view, cut: () => void (isCut = true) };
}

/** Kinds of the entries that lead to events. */
const LEADING = ["due", "lane", "place", "dead"] as const;

/** Opens an empty KV in a simulation. */
export async function openSimulatedKv(
  simulation: Simulation,
  effectsIn: (kv: Deno.Kv) => HandlerEffects,
): Promise<SimulatedPlace> {
  const kv = await Deno.openKv(":memory:");
  const watchers = new Set<() => void>();
  // The step in which each version of the KV came about.
  const steps = new Map<string, number>();
  const note = (versionstamp: string) => void steps.set(versionstamp, simulation.step);
  return {
    effects: effectsIn(kv),
    open: () => openEventStore(kv, { notifier: "watch" }),
    async process({ faultRate = 0, repeatRate = 0, keepPayloads, log = () => {} } = {}) {
      const view = simulateKv(kv, simulation, faultRate, watchers, note, repeatRate);
      const options = { notifier: "watch", keepPayloads, log } as const;
      return { store: await openEventStore(view.kv, options), cut: view.cut };
    },
    written: (beginning) => Array.fromAsync(kv.list({ prefix: [beginning] }), writtenIn),
    async lose() {
      const keys = await keysOf(kv, simulation.oneOf(LEADING));
      if (keys.length > 0) await kv.delete(simulation.oneOf(keys));
    },
    leftovers: () => leftoversIn(kv),
    [Symbol.asyncDispose]: () => Promise.resolve(kv.close()),
  };

  function writtenIn({ key, value, versionstamp }: Deno.KvEntry<unknown>): Written {
    return {
      name: String(key[1]),
      value: value instanceof Deno.KvU64 ? Number(value.value) : value as string,
      step: steps.get(versionstamp)!,
    };
  }
}

/** Purges all events of a KV once nothing is due any more, and tells what is left then. */
async function leftoversIn(kv: Deno.Kv): Promise<Deno.KvKey[]> {
  const store = await openEventStore(kv, { notifier: "watch" });
  await store.purge({});
  // A claim tidies up what is on the schedule without its event.
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await deleteUploads(store, 0);
  // Values that nobody has waited for are kept for a while.
  for (const key of await keysOf(kv, "waiter")) {
    const { for: waiting } = await valueAt<{ for?: unknown }>(kv, key);
    if (waiting === undefined) await kv.delete(key);
  }
  const { value } = await kv.get<Deno.KvU64>(["events", "keptBytes"]);
  const isEmpty = (value?.value ?? 0n) === 0n;
  const own: unknown[] = [
    "notifier",
    "emit",
    "state",
    "keptCounted",
    "checked",
    // The note of a process that was killed, which the KV forgets after a while.
    "process",
    // Notes of problems are kept for days.
    ...["problem", "problemNew", "problemHour", "problemLast"],
    ...isEmpty ? ["keptBytes"] : [],
  ];
  return (await keysOf(kv)).filter(([, part]) => !own.includes(part));
}
