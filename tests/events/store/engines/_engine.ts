import type { CommitEffects, EventStore, EventStoreOptions } from "../../../../events/mod.ts";
import type { Need } from "../../../_permissions.ts";
import type { SimulatedPlace } from "../../worker/_simulated_place.ts";
import type { Simulation } from "../../worker/_simulation.ts";

/** All that the tests have to know of an engine. */
export interface EngineUnderTest<TPlace extends Place = Place> {
  /** Its name, for people. */
  readonly name: string;
  /** The kinds of places that its stores lie in. The first one is the quickest: it has the tests that need only one. */
  readonly kinds: readonly [PlaceKind<TPlace>, ...PlaceKind<TPlace>[]];
  /** The kind of places that several processes share, to be killed in the midst. */
  readonly shared: PlaceKind<TPlace>;
  /** The kind of places on another machine, if there is one. */
  readonly remote?: PlaceKind<TPlace>;
  /** Further kinds for tests of wake-ups, if there are other ways to wake. */
  readonly wakingKinds?: readonly PlaceKind<TPlace>[];
  /** Variables of other processes that open its stores. */
  readonly env?: Readonly<Record<string, string>>;
  /** Opens a store where another process has one, see {@linkcode Place.address}. */
  openAt(address: string, options: EventStoreOptions): Promise<OpenedStore>;
  /** Has ways to spoil what lies in a place. Without them, the tests of unreadable values are skipped. */
  damages?(place: TPlace): Damages;
  /** Makes an empty place whose time can be turned. Without it, the tests of what is forgotten are skipped. */
  openAging?(): Promise<AgingPlace>;
  /**
   * Opens a store whose next change fails once it is armed: before it is made, or after. Without it, the tests of
   * answers that are lost are skipped.
   */
  openFailing?(
    place: TPlace,
    fault: "before" | "after",
    options?: EventStoreOptions,
  ): Promise<FailingStore>;
  /** Makes an empty place in a simulation. */
  openSimulated(simulation: Simulation): Promise<SimulatedPlace>;
}

/** A kind of places, such as files. */
export interface PlaceKind<TPlace extends Place = Place> {
  /** Its name, behind the name of each test. */
  readonly name: string;
  readonly needs: readonly Need[];
  /** Reason why it cannot be used here. */
  readonly missing?: string | undefined;
  /**
   * Number of processes that do the store's work.
   *
   * @default {1}
   */
  readonly processes?: 1 | 2;
  /** Called while a test file registers its tests, if it has some of this kind: it may start a server for all of them. */
  prepare?(): void;
  /** Makes an empty place. */
  open(): Promise<TPlace>;
}

/** A place of one store, which is empty when a test begins, and is gone when it goes out of scope. */
export interface Place extends AsyncDisposable {
  /** Address by which another process finds it; undefined if none does. */
  readonly address?: string | undefined;
  /** The path or URL of its database, as the variable of an app has it; undefined if no other process finds it. */
  readonly path?: string | undefined;
  /** Writes of handlers beside the store. */
  readonly effects: HandlerEffects;
  /** Opens a store in it, of this process. Each one sees what the others write. */
  open(options?: EventStoreOptions): Promise<EventStore>;
  /** Counts what the store has there. */
  contents(): Promise<Contents>;
  /** Ends what listens to its stores, and all else that keeps a process alive. */
  close(): void;
}

/** Address of a store, for another process. */
export interface StoreAddress {
  /** Name of its engine. */
  readonly engine: string;
  /** Its place, see {@linkcode Place.address}. */
  readonly address: string;
}

/** Numbers of what a store has. */
export interface Contents {
  /** Records of events, also those that cannot be read. */
  readonly events: number;
  /** Ids that are known to be those of events. */
  readonly ids: number;
  /** Times at which events are due. */
  readonly times: number;
  /** Positions in ordering groups, and whatever else there is of groups. */
  readonly positions: number;
  /** Payloads, also those that are kept of done events, and uploads. */
  readonly payloads: number;
  /** Uploads that are no event's payload yet. */
  readonly uploads: number;
  /** Names that are waited for or woken. */
  readonly names: number;
  /** Payloads that are kept of done events, and the sum of their bytes as it was noted. */
  readonly kept: { readonly payloads: number; readonly bytes: number };
  /** Results of steps, or parts of them. */
  readonly results: number;
  /** All else that comes of events, and should go with them. */
  readonly others: number;
}

/** A handler's own writes, in the commit that settles its event. */
export interface HandlerEffects {
  /** Makes effects that set a value. */
  set(name: string, value: string | number): CommitEffects;
  /** Makes effects that add to a number. */
  add(name: string, value: number): CommitEffects;
  /** Makes effects that set a value, and are refused if there is one. */
  create(name: string, value: string | number): CommitEffects;
  /** Makes effects that cannot be committed. */
  refused(): CommitEffects;
  /** Describes the error that they are refused with. */
  readonly refusal: string;
  /** Reads a value; null if there is none. */
  get(name: string): Promise<string | number | null>;
  /** Reads all values whose names begin with a text and a slash, by the rest of their names. */
  all(beginning: string): Promise<Map<string, string | number>>;
}

/** Ways to spoil what lies in a place. */
export interface Damages {
  /**
   * Makes the record of an event, the name that it waits for, or the only note of a document unreadable, as if another
   * version had written it. Returns what undoes it.
   */
  spoil(what: "event" | "name" | "document", id: string): Promise<() => Promise<void>>;
  /** Makes a cell unreadable. */
  spoilCell(...key: [kind: string, ...rest: string[]]): Promise<void>;
  /** Loses the record of an event, a part of its payload, or what is noted of a name. */
  lose(what: "event" | "payload" | "name", id: string): Promise<void>;
  /** Makes an event due that was put off because it could not be read. */
  makeDue(id: string): Promise<void>;
}

/** A place whose time can be turned. */
export interface AgingPlace extends Place {
  /** Lets time pass, for `Date.now` as well, and forgets what is forgotten by then. */
  pass(ms: number): Promise<void>;
}

/** A store whose next change fails once it is armed. */
export interface FailingStore {
  readonly store: EventStore;
  arm(): void;
}

/** A store, what handlers write beside it, and what closes it. */
export interface OpenedStore {
  readonly store: EventStore;
  readonly effects: HandlerEffects;
  close(): void | Promise<void>;
}
