/**
 * Registers the tests of what a store promises, over all engines. They use a store's interface alone, and what the
 * fixtures in `engines/` offer beside it.
 *
 * @module
 */
import type { EventStore, EventStoreOptions } from "../../../../events/mod.ts";
import { perFile } from "../../../_per_file.ts";
import { isGranted, testWith } from "../../../_permissions.ts";
import { inTwoProcesses, type Peer, startPeer } from "../_two_processes.ts";
import type { EngineUnderTest, Place, PlaceKind } from "../engines/_engine.ts";
import { ENGINES } from "../engines/mod.ts";

/** What a place opens. */
type StoreIn<TPlace extends Place> = Awaited<ReturnType<TPlace["open"]>>;

/** A store, and the place that it lies in. */
export interface StoreUnderTest<TPlace extends Place = Place> {
  readonly store: StoreIn<TPlace>;
  readonly place: TPlace;
  /** Opens an empty store of the same engine, which is gone when it goes out of scope. */
  elsewhere(options?: EventStoreOptions): Promise<OtherStore>;
}

/** A store in a place of its own. */
export interface OtherStore extends AsyncDisposable {
  readonly store: EventStore;
  readonly place: Place;
}

type StoreTest<TPlace extends Place = Place> = (sut: StoreUnderTest<TPlace>) => Promise<void>;

/** Registers a test once for each kind of places that stores lie in, in one process and in two. */
export function testStore(name: string, fn: StoreTest, options: EventStoreOptions = {}): void {
  for (const engine of ENGINES) {
    for (const kind of engine.kinds) testKind(engine, kind, name, fn, options);
  }
}

/** Registers a test that makes no sense in two processes, such as one that turns the clock. */
export function testStoreInOneProcess(
  name: string,
  fn: StoreTest,
  options: EventStoreOptions = {},
): void {
  for (const engine of ENGINES) {
    for (const kind of engine.kinds) {
      if (kind.processes !== 2) testKind(engine, kind, name, fn, options);
    }
  }
}

/** Registers a test once for each engine: how it ends depends on nothing that places differ in. */
export function testStoreOnce(name: string, fn: StoreTest, options: EventStoreOptions = {}): void {
  for (const engine of ENGINES) testKind(engine, engine.kinds[0], name, fn, options);
}

/** Registers a test of wake-ups, for each way to wake that an engine has. */
export function testNotifier(name: string, fn: StoreTest): void {
  testStoreInOneProcess(name, fn);
  for (const engine of ENGINES) {
    for (const kind of engine.wakingKinds ?? []) testKind(engine, kind, name, fn, {});
  }
}

/** The other process of the tests of this file. */
let peerOfFile: (() => Peer) | undefined;

/** Registers a test for one kind of places. */
export function testKind<TPlace extends Place>(
  engine: EngineUnderTest<TPlace>,
  kind: PlaceKind<TPlace>,
  name: string,
  fn: StoreTest<TPlace>,
  options: EventStoreOptions,
): void {
  if (!kind.missing && isGranted(kind.needs)) {
    if (kind.processes === 2) peerOfFile ??= perFile(startPeer);
    kind.prepare?.();
  }
  testWith(kind.needs, `${name} [${engine.name}: ${kind.name}]`, async () => {
    await using place = await kind.open();
    const own = await place.open(options) as StoreIn<TPlace>;
    const elsewhere = (options?: EventStoreOptions) => openStore(engine, options);
    if (kind.processes !== 2) return await fn({ store: own, place, elsewhere });
    await using shared = await inTwoProcesses(own, peerOfFile!(), engine.name, place, options);
    await fn({ store: shared.store, place, elsewhere });
  }, kind.missing);
}

/** Opens an empty store in a place of the quickest kind. */
export async function openStore<TPlace extends Place>(
  engine: EngineUnderTest<TPlace>,
  options: EventStoreOptions = {},
): Promise<OtherStore & { readonly place: TPlace; readonly store: StoreIn<TPlace> }> {
  const place = await engine.kinds[0].open();
  const store = await place.open(options) as StoreIn<TPlace>;
  return { store, place, [Symbol.asyncDispose]: () => place[Symbol.asyncDispose]() };
}
