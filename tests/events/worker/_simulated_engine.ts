import type { Engine } from "../../../events/store/engine.ts";
import { attempt, never, wakeSome } from "./_simulated_place.ts";
import type { Simulation } from "./_simulation.ts";

/** An engine as one process sees it. */
export interface SimulatedEngine<TTx, TReader> {
  readonly engine: Engine<TTx, TReader>;
  /** Cuts the process off: no call of it reaches the engine any more, and no answer comes back. */
  cut(): void;
}

/** Options of {@linkcode simulateEngine}. */
interface SimulationOptions {
  /** Share of the calls that go wrong, from 0 to 1. */
  readonly faultRate: number;
  /** Those who listen, of all processes. */
  readonly watchers: Set<() => void>;
  /**
   * Set if a call has no turns within it: it takes its whole time in its turn.
   *
   * @default {false}
   */
  readonly isWholeInTurn?: boolean;
}

/**
 * Makes the view of an engine that a process has in a simulation: each of its calls begins in its turn, and the engine
 * has turns of its own.
 */
export function simulateEngine<TTx, TReader>(
  real: Engine<TTx, TReader>,
  simulation: Simulation,
  { faultRate, watchers, isWholeInTurn = false }: SimulationOptions,
): SimulatedEngine<TTx, TReader> {
  let isCut = false;

  async function call<T>(execute: () => Promise<T>): Promise<T> {
    const attempted = () =>
      isCut ? Promise.resolve(never) : attempt(execute, simulation, faultRate);
    if (!isWholeInTurn) await simulation.turn(() => Promise.resolve());
    const answer = await (isWholeInTurn ? simulation.turn(attempted) : attempted());
    return await (isCut ? never() : answer());
  }

  async function* each<T>(iterator: AsyncIterableIterator<T>): AsyncGenerator<T> {
    for (;;) {
      const { done, value } = await call(() => iterator.next());
      if (done) return;
      yield value;
    }
  }

  const engine: Engine<TTx, TReader> = {
    ...real,
    place: {},
    apply: (change) =>
      call(async () => {
        // By no timer: time stands still during a call.
        const applied = await real.apply({ ...change, withinMs: 0 });
        if (applied.ok) wakeSome(watchers, simulation);
        return applied;
      }),
    get: (events) => call(() => real.get(events)),
    ids: (options) => call(() => real.ids(options)),
    due: (options) => call(() => real.due(options)),
    group: (key, options) => call(() => real.group(key, options)),
    scan: (scan) => each(real.scan(scan)),
    count: (max, signal) => call(() => real.count(max, signal)),
    problems: (limits) => call(() => real.problems(limits)),
    upload: (ref, body) => call(() => real.upload(ref, body)),
    payload: (ref, of) => call(() => real.payload(ref, of)),
    cells: (keys) => call(() => real.cells(keys)),
    list: (begin, options) => each(real.list(begin, options)),
    listen: (wake) => {
      watchers.add(wake);
      return never();
    },
    tidy: (what) => call(() => real.tidy(what)),
    check: (options) => each(real.check(options)),
  };
  return { engine, cut: () => void (isCut = true) };
}
