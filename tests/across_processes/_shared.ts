import type { Place, PlaceKind, StoreAddress } from "../events/store/engines/_engine.ts";
import { IN_PROCESSES } from "../events/store/engines/mod.ts";
import { isGranted, testWith } from "../_permissions.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

/** A store that processes share. */
export interface SharedStore {
  readonly at: StoreAddress;
  readonly place: Place;
  /** The kind of its place. */
  readonly kind: PlaceKind;
}

/** Options of {@linkcode testShared}. */
interface SharedOptions {
  /** Set if it is a test of a database on another machine as well. */
  readonly isRemoteToo?: boolean;
  /**
   * Tells whether it is a test of an engine.
   *
   * @default {() => true} Of each.
   */
  readonly isOf?: (engine: string) => boolean;
  /** Reason to skip it with an engine; undefined if it runs. */
  readonly missing?: (engine: string) => string | undefined;
}

/** Registers a test of processes that share a store, once for each engine. */
export function testShared(
  name: string,
  fn: (store: SharedStore) => Promise<void>,
  { isRemoteToo = false, isOf = () => true, missing = () => undefined }: SharedOptions = {},
): void {
  for (const engine of IN_PROCESSES.filter(({ name }) => isOf(name))) {
    const kinds = isRemoteToo && engine.remote ? [engine.shared, engine.remote] : [engine.shared];
    for (const kind of kinds) {
      const reason = kind.missing ?? missing(engine.name);
      if (reason === undefined) kind.prepare?.();
      const where = kind === engine.remote ? `${engine.name}, remote` : engine.name;
      testWith(NEEDS, `${name} [${where}]`, async () => {
        await using place = await kind.open();
        await fn({ at: { engine: engine.name, address: place.address! }, place, kind });
      }, reason);
    }
  }
}

/** Registers a test of two versions of Deno that share a store, if `OTHER_DENO` has the path of another one. */
export function testTwoDenos(
  name: string,
  fn: (store: SharedStore, other: string) => Promise<void>,
  options: Pick<SharedOptions, "isRemoteToo"> = {},
): void {
  const other = isGranted(["env", "run"]) ? Deno.env.get("OTHER_DENO") : undefined;
  const missing = () => other ? undefined : "needs the path of another Deno in OTHER_DENO";
  testShared(name, (store) => fn(store, other!), { ...options, missing });
}
