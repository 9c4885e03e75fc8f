/**
 * Registers the tests of what a store promises, over all engines. They use a store's interface alone, and what the
 * fixtures in `engines/` offer beside it.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { EventStore, EventStoreOptions } from "../../../../events/mod.ts";
import { perFile } from "../../../_per_file.ts";
import { isGranted, testWith } from "../../../_permissions.ts";
import { inTwoProcesses, type Peer, startPeer } from "../_two_processes.ts";
import type {
  AgingPlace,
  Damages,
  EngineUnderTest,
  FailingStore,
  Place,
  PlaceKind,
} from "../engines/_engine.ts";
import { IN_CONTRACT } from "../engines/mod.ts";

/** Store that a place opens. */
type StoreIn<TPlace extends Place> = Awaited<ReturnType<TPlace["open"]>>;

/** A store, and the place that it lies in. */
export interface StoreUnderTest<TPlace extends Place = Place> {
  readonly store: StoreIn<TPlace>;
  readonly place: TPlace;
  /** Ways to spoil what lies there, for a test that needs them. */
  readonly damages: Damages;
  /** Opens an empty store of the same engine, which is gone when it goes out of scope. */
  elsewhere(options?: EventStoreOptions): Promise<OtherStore>;
}

/** A store in a place of its own. */
export interface OtherStore extends AsyncDisposable {
  readonly store: EventStore;
  readonly place: Place;
}

type StoreTest<TPlace extends Place = Place> = (
  sut: StoreUnderTest<TPlace>,
) => void | Promise<void>;

/** Act that a test needs beside a store, and that not every engine can do. */
export type Act = "damages" | "openAging" | "openFailing";

/** Registers a test once for each kind of places that stores lie in, in one process and in two. */
export function testStore(
  name: string,
  fn: StoreTest,
  options: EventStoreOptions = {},
  act?: Act,
): void {
  for (const engine of IN_CONTRACT) {
    for (const kind of engine.kinds) testKind(engine, kind, name, fn, options, act);
  }
}

/** Registers a test that makes no sense in two processes, such as one that turns the clock. */
export function testStoreInOneProcess(
  name: string,
  fn: StoreTest,
  options: EventStoreOptions = {},
  act?: Act,
): void {
  for (const engine of IN_CONTRACT) {
    for (const kind of engine.kinds) {
      if (kind.processes !== 2) testKind(engine, kind, name, fn, options, act);
    }
  }
}

/** Registers a test once for each engine: how it ends depends on nothing that places differ in. */
export function testStoreOnce(
  name: string,
  fn: StoreTest,
  options: EventStoreOptions = {},
  act?: Act,
): void {
  for (const engine of IN_CONTRACT) testKind(engine, engine.kinds[0], name, fn, options, act);
}

/** Registers a test of wake-ups, for each way to wake that an engine has. */
export function testNotifier(name: string, fn: StoreTest): void {
  testStoreInOneProcess(name, fn);
  for (const engine of IN_CONTRACT) {
    for (const kind of engine.wakingKinds ?? []) testKind(engine, kind, name, fn, {});
  }
}

/** Registers a test of what is forgotten, or must not be, on a place whose time it can turn. */
export function testAging(
  name: string,
  fn: (sut: { readonly store: EventStore; readonly place: AgingPlace }) => Promise<void>,
  options: EventStoreOptions = {},
): void {
  for (const engine of IN_CONTRACT) {
    testWith(engine.kinds[0].needs, `${name} [${engine.name}]`, async () => {
      await using place = await engine.openAging!();
      await fn({ store: await place.open(options), place });
    }, missingIn(engine, engine.kinds[0], "openAging"));
  }
}

/** Registers a test of a change that fails before it is made, or after. */
export function testFailing(
  fault: "before" | "after",
  name: string,
  fn: (sut: StoreUnderTest & { readonly failing: FailingStore }) => Promise<void>,
): void {
  for (const engine of IN_CONTRACT) {
    testKind(
      engine,
      engine.kinds[0],
      name,
      async (sut) => {
        const failing = await engine.openFailing!(sut.place, fault, { log: () => {} });
        await fn({ ...sut, failing });
      },
      {},
      "openFailing",
    );
  }
}

/** Checks that no event waits for anything: no time leads to one, and none is in a group. */
export async function assertNothingWaits({ place }: { readonly place: Place }): Promise<void> {
  const { times, positions } = await place.contents();
  assertEquals({ times, positions }, { times: 0, positions: 0 });
}

/** Checks that a store has nothing that comes of events. */
export async function assertEmpty({ place }: { readonly place: Place }): Promise<void> {
  const { kept, ...others } = await place.contents();
  assertEquals([...Object.values(others), ...Object.values(kept)].filter(Boolean), []);
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
  act?: Act,
): void {
  const missing = missingIn(engine, kind, act);
  if (!missing && isGranted(kind.needs)) {
    if (kind.processes === 2) peerOfFile ??= perFile(startPeer);
    kind.prepare?.();
  }
  testWith(kind.needs, `${name} [${engine.name}: ${kind.name}]`, async () => {
    await using place = await kind.open();
    const own = await place.open(options) as StoreIn<TPlace>;
    const elsewhere = (options?: EventStoreOptions) => openStore(engine, options);
    const sut = { store: own, place, damages: engine.damages?.(place)!, elsewhere };
    if (kind.processes !== 2) return await fn(sut);
    await using shared = await inTwoProcesses(own, peerOfFile!(), engine.name, place, options);
    await fn({ ...sut, store: shared.store });
  }, missing);
}

function missingIn<TPlace extends Place>(
  engine: EngineUnderTest<TPlace>,
  kind: PlaceKind<TPlace>,
  act: Act | undefined,
): string | undefined {
  return act && !engine[act] ? `${engine.name} has no ${act}` : kind.missing;
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
