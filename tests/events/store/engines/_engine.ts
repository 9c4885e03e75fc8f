import type { EventStore, EventStoreOptions } from "../../../../events/mod.ts";
import type { Need } from "../../../_permissions.ts";

/** All that the tests have to know of an engine. */
export interface EngineUnderTest<TPlace extends Place = Place> {
  /** Its name, for people. */
  readonly name: string;
  /** The kinds of places that its stores lie in. The first one is the quickest: it has the tests that need only one. */
  readonly kinds: readonly [PlaceKind<TPlace>, ...PlaceKind<TPlace>[]];
  /** Further kinds for tests of wake-ups, if there are other ways to wake. */
  readonly wakingKinds?: readonly PlaceKind<TPlace>[];
  /** Opens a store where another process has one, see {@linkcode Place.address}. */
  openAt(address: string, options: EventStoreOptions): Promise<OpenedStore>;
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
  /** Where another process finds it; undefined if none does. */
  readonly address?: string | undefined;
  /** Opens a store in it, of this process. Each one sees what the others write. */
  open(options?: EventStoreOptions): Promise<EventStore>;
  /** Ends what listens to its stores, and all else that keeps a process alive. */
  close(): void;
}

/** A store, and what closes it. */
export interface OpenedStore {
  readonly store: EventStore;
  close(): void;
}
