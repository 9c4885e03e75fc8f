/**
 * The engines that the contract tests run over. A new one is a file beside `kv.ts`, and an entry here.
 *
 * Its file has an `EngineUnderTest`, which `_engine.ts` describes:
 *
 * 1. **Kinds of places**, the quickest first. Each opens an empty place, and says which permissions that takes, and why
 *    it cannot be used on a machine that lacks something (`missing`: these tests are skipped). If two processes can
 *    share a place, there is a kind with `processes: 2`, whose places have an `address` that `openAt` takes in the other
 *    process. Such a kind is `shared`, too: the tests that kill processes use it.
 * 2. **A place** opens stores by `createEventStore`, hands on all options but the engine's, and counts its `contents`.
 *    These are what tests compare with nothing: count what is stored and not what the engine would show. Leave out what
 *    stays by design, such as a sum of 0.
 * 3. **Effects** write a handler's values by the engine's transaction, where another process can read them.
 * 4. **A simulated place** (`openSimulated`) opens stores as processes of their own do, of which each call waits for its
 *    turn and may go wrong: random histories, which come about again from their seeds.
 * 5. **Acts**, each of which may be missing: `damages` writes bytes that `decodeValue` cannot read in the place of a
 *    record or a cell; `openAging` turns `Date.now`, and lets the engine forget what is over; `openFailing` has one
 *    `apply` fail before it is made, or after.
 *
 * Then these must pass:
 *
 * ```sh
 * deno test -A --unstable-kv tests/events/store/contract
 * TEST_LENGTH=full deno test -A --unstable-kv tests/events/store/contract/properties_test.ts
 * ```
 *
 * A test that is about one engine alone does not belong there, but beside `../kv/`. The suite has no number of an engine
 * in it: sizes come from `store.room` and `store.maxPayloadBytes`.
 *
 * @module
 */
import type { EventStoreOptions } from "../../../../events/mod.ts";
import { ON_DENO_2_5 } from "../../../_deno_version.ts";
import { IS_LONG } from "../../../_length.ts";
import type { EngineUnderTest, OpenedStore, StoreAddress } from "./_engine.ts";
import { KV } from "./kv.ts";
import { POSTGRES } from "./postgres.ts";
import { SQLITE } from "./sqlite.ts";

/** All engines. The names of their tests have theirs: `--filter sqlite`. */
export const ENGINES: readonly EngineUnderTest[] = [KV, SQLITE, POSTGRES];

/**
 * The engines that the contract tests run over: on the oldest Deno, Postgres is tested beside its engine alone, since a
 * server takes most of the time.
 */
export const IN_CONTRACT: readonly EngineUnderTest[] = ON_DENO_2_5 ? [KV, SQLITE] : ENGINES;

/** The engines of tests of workers and of several processes: over Postgres they run in the long tests only. */
export const IN_PROCESSES: readonly EngineUnderTest[] = IS_LONG ? ENGINES : [KV, SQLITE];

/** Opens a store that another process has, of whichever engine. */
export function openAt(
  { engine, address }: StoreAddress,
  options: EventStoreOptions = {},
): Promise<OpenedStore> {
  return ENGINES.find(({ name }) => name === engine)!.openAt(address, options);
}
