import type { Simulation } from "./_simulation.ts";

/** A KV as one process sees it. */
export interface SimulatedKv {
  readonly kv: Deno.Kv;
  /** Cuts the process off: no call of it reaches the KV any more, and no answer comes back. */
  cut(): void;
}

/** Faults of a KV's calls: a call does nothing, or does all of it and its answer is lost. */
const FAULTS = ["locked", "lost", "unheard", "hanging", "done and hanging"] as const;

/** Share of the wake-ups after a commit that reach another process. */
const HEARD = 0.5;

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
    simulation.turn(() => Promise.resolve(attempt(execute))).then((result) => result());

  /** Executes a call, and makes of it what the process hears. */
  async function attempt<T>(execute: () => Promise<T>): Promise<() => T | Promise<T>> {
    const never = () => new Promise<never>(() => {});
    if (isCut) return never;
    const fault = simulation.random() < faultRate ? simulation.oneOf(FAULTS) : undefined;
    if (fault === "hanging") return never;
    if (fault === "locked") return throwing("database is locked");
    if (fault === "lost") return throwing("The call was lost");
    const result = await execute().then((value) => () => value, (error) => throwing(error));
    if (fault === "done and hanging") return never;
    return fault === "unheard" ? throwing("The answer was lost") : result;
  }

  async function commit(operation: Deno.AtomicOperation) {
    const result = await operation.commit();
    if (result.ok) {
      onCommit(result.versionstamp);
      for (const wake of watchers) if (simulation.random() < HEARD) wake();
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

function throwing(error: unknown): () => never {
  return () => {
    throw error instanceof Error ? error : new Error(String(error));
  };
}
