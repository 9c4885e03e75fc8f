import { type EventStoreOptions, type LogRecord, openEventStore } from "../../../../events/mod.ts";
import { openStore, testKind } from "../contract/_contract.ts";
import type { PlaceKind } from "../engines/_engine.ts";
import { KV, type KvPlace } from "../engines/kv.ts";
import type { KvStore } from "../../../_kv_handlers.ts";

/** A store on a KV of its own, closed when it goes out of scope. */
export interface StoreUnderTest extends AsyncDisposable {
  readonly kv: Deno.Kv;
  readonly place: KvPlace;
  readonly store: KvStore;
}

/** Registers a test once for each engine and notifier that a store can have, in one process and in two. */
export function testStore(
  name: string,
  fn: (sut: StoreUnderTest) => Promise<void>,
  options: EventStoreOptions = {},
): void {
  for (const kind of KV.kinds) testOnKv(kind, name, fn, options);
}

/** Registers a test that makes no sense in two processes, such as one on a store of its own. */
export function testStoreInOneProcess(
  name: string,
  fn: (sut: StoreUnderTest) => Promise<void>,
  options: EventStoreOptions = {},
): void {
  for (const kind of KV.kinds) if (kind.processes !== 2) testOnKv(kind, name, fn, options);
}

/** Registers a test that adds to one of the contract what only the keys of a KV show. */
export function testInMemory(name: string, fn: (sut: StoreUnderTest) => Promise<void>): void {
  testOnKv(KV.kinds[0], name, fn, {});
}

/** Registers a test of the notifier, for each kind of it that an engine can have. */
export function testNotifier(name: string, fn: (sut: StoreUnderTest) => Promise<void>): void {
  testStoreInOneProcess(name, fn);
  for (const kind of KV.wakingKinds ?? []) testOnKv(kind, name, fn, {});
}

function testOnKv(
  kind: PlaceKind<KvPlace>,
  name: string,
  fn: (sut: StoreUnderTest) => Promise<void>,
  options: EventStoreOptions,
): void {
  const end = () => Promise.resolve();
  testKind(
    KV,
    kind,
    name,
    ({ store, place }) => fn({ kv: place.kv, place, store, [Symbol.asyncDispose]: end }),
    options,
  );
}

/** Opens a store in memory. */
export async function memoryStore(options: EventStoreOptions = {}): Promise<StoreUnderTest> {
  const { store, place, ...opened } = await openStore(KV, options);
  return { ...opened, kv: place.kv, place, store };
}
/** A store, and what it logs. */
export interface LoggedStore {
  readonly kv: Deno.Kv;
  readonly store: KvStore;
  readonly logged: LogRecord[];
  /** The messages alone. */
  readonly messages: string[];
}

/** Opens a store in a KV that keeps what it logs. */
export async function loggedStore(
  kv: Deno.Kv,
  options: EventStoreOptions = {},
): Promise<LoggedStore> {
  const [logged, messages]: [LogRecord[], string[]] = [[], []];
  const log = (record: LogRecord) => {
    logged.push(record);
    messages.push(record.message);
  };
  const store = await openEventStore(kv, { notifier: "watch", ...options, log });
  return { kv, store, logged, messages };
}

/** Does something with a store in memory that keeps what it logs. */
export async function withLoggedStore(fn: (sut: LoggedStore) => Promise<void>): Promise<void> {
  using kv = await Deno.openKv(":memory:");
  await fn(await loggedStore(kv));
}
