import type { EventStore, EventStoreOptions } from "../../../events/mod.ts";
import type { HandlerEffects } from "../store/engines/_engine.ts";
import type { Simulation } from "./_simulation.ts";

/** A place of a store in a simulation. */
export interface SimulatedPlace extends AsyncDisposable {
  /** Writes of handlers beside the store. */
  readonly effects: PlainEffects;
  /** Opens a store of which nothing waits for a turn, and nothing goes wrong. */
  open(): Promise<EventStore>;
  /** Opens the store as a process of its own does. */
  process(options?: SimulatedProcessOptions): Promise<SimulatedProcess>;
  /** Reads what handlers have written, by the text that its names begin with before a slash. */
  written(beginning: string): Promise<Written[]>;
  /** Loses something that leads to an event, as if a commit had left it out. */
  lose(): Promise<void>;
  /** Names what is left of events that are all purged. */
  leftovers(): Promise<unknown[]>;
}

/** Writes of handlers, without those that are refused. */
export type PlainEffects = Pick<HandlerEffects, "set" | "add" | "create" | "get">;

/** Options of a process in a simulation. By default nothing goes wrong, and nothing is logged. */
export interface SimulatedProcessOptions extends Pick<EventStoreOptions, "keepPayloads" | "log"> {
  /** Share of the calls that go wrong, from 0 to 1. */
  readonly faultRate?: number;
  /** Share of the commits that are made twice, from 0 to 1, if the database's client does so. */
  readonly repeatRate?: number;
}

/** A process in a simulation. */
export interface SimulatedProcess {
  readonly store: EventStore;
  /** Cuts the process off: no call of it reaches the database any more, and no answer comes back. */
  cut(): void;
}

/** A value that a handler has written. */
export interface Written {
  /** The rest of its name. */
  readonly name: string;
  readonly value: string | number;
  /** The step in which it was committed. */
  readonly step: number;
}

/** Wakes those who listen to a database, or some of them. */
export function wakeSome(
  watchers: ReadonlySet<() => void>,
  { random, heardRate }: Pick<Simulation, "random" | "heardRate">,
): void {
  for (const wake of watchers) if (random() < heardRate) wake();
}

/** Faults of a database's calls: a call does nothing, or does all of it and its answer is lost. */
const FAULTS = ["locked", "lost", "unheard", "hanging", "done and hanging"] as const;

/** Executes a call that may go wrong, and makes of it what the process hears. */
export async function attempt<T>(
  execute: () => Promise<T>,
  { random, oneOf }: {
    readonly random: () => number;
    oneOf<V>(values: readonly V[]): V;
  },
  faultRate: number,
): Promise<() => T | Promise<T>> {
  const fault = random() < faultRate ? oneOf(FAULTS) : undefined;
  if (fault === "hanging") return never;
  if (fault === "locked") return throwing("database is locked");
  if (fault === "lost") return throwing("The call was lost");
  const result = await execute().then((value) => () => value, (error) => throwing(error));
  if (fault === "done and hanging") return never;
  return fault === "unheard" ? throwing("The answer was lost") : result;
}

/** The answer of a call that gets none. */
export const never = () => new Promise<never>(() => {});

function throwing(error: unknown): () => never {
  return () => {
    throw error instanceof Error ? error : new Error(String(error));
  };
}
