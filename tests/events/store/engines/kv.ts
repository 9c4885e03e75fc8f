import { type EventStore, type EventStoreOptions, openEventStore } from "../../../../events/mod.ts";
import { ON_DENO_2_5 } from "../../../_deno_version.ts";
import type { KvStore } from "../../../_kv_handlers.ts";
import { FULL_LENGTH } from "../../../_length.ts";
import { perFile } from "../../../_per_file.ts";
import { type Denokv, DENOKV_MISSING, denokvPath, startDenokv } from "../kv/_denokv.ts";
import type { EngineUnderTest, Place, PlaceKind } from "./_engine.ts";

/** A KV that a store lies in. */
export interface KvPlace extends Place {
  readonly kv: Deno.Kv;
  open(options?: EventStoreOptions): Promise<KvStore>;
}

/** Each kind has one notifier: its message is part of the commits, and matters to `listen()` alone. */
type Notifier = EventStore["notifier"];

const inMemory = (notifier: Notifier): PlaceKind<KvPlace> => ({
  name: `memory, ${notifier}`,
  needs: [],
  open: async () => placeOf(await Deno.openKv(":memory:"), notifier),
});

const inFile = (notifier: Notifier): PlaceKind<KvPlace> => ({
  name: `file, ${notifier}`,
  needs: ["read", "write"],
  async open() {
    const folder = await Deno.makeTempDir();
    const path = `${folder}/kv.db`;
    const remove = () => Deno.remove(folder, { recursive: true });
    return placeOf(await Deno.openKv(path), notifier, path, remove);
  },
});

/** The server of the tests of a file. */
let denokvOfFile: (() => Denokv) | undefined;

const ON_DENOKV: PlaceKind<KvPlace> = {
  name: "denokv, watch",
  needs: ["read", "write", "net", "run", "env"],
  missing: denokvPath() === undefined ? DENOKV_MISSING : undefined,
  prepare: () => void (denokvOfFile ??= perFile(startDenokv)),
  /** All tests of a file share a server, and each begins by emptying its database. */
  async open() {
    const { url } = denokvOfFile!();
    const kv = await Deno.openKv(url);
    await empty(kv);
    return placeOf(kv, "watch", url);
  },
};

const BY_TWO_ON_FILE: PlaceKind<KvPlace> = {
  ...inFile("enqueue"),
  name: "two processes on a file, enqueue",
  needs: ["read", "write", "run"],
  processes: 2,
};

const BY_TWO_ON_DENOKV: PlaceKind<KvPlace> = {
  ...ON_DENOKV,
  name: "two processes on denokv, watch",
  processes: 2,
};

/**
 * Kinds that two processes share. How they affect each other depends on the store and not on its KV: so they
 * share a remote KV in the long tests only, and none with the oldest Deno, whose time is short.
 */
const SHARED = ON_DENO_2_5
  ? []
  : FULL_LENGTH
  ? [BY_TWO_ON_FILE, BY_TWO_ON_DENOKV]
  : [BY_TWO_ON_FILE];

/** Stores in a Deno KV. */
export const KV: EngineUnderTest<KvPlace> = {
  name: "kv",
  kinds: [inMemory("enqueue"), inFile("watch"), ON_DENOKV, ...SHARED],
  wakingKinds: [inMemory("watch"), inFile("enqueue")],
  async openAt(address, options) {
    const { path, notifier }: { path: string; notifier: Notifier } = JSON.parse(address);
    const kv = await Deno.openKv(path);
    const store = await openEventStore(kv, { ...options, notifier });
    return { store, close: () => kv.close() };
  },
};

function placeOf(
  kv: Deno.Kv,
  notifier: Notifier,
  path?: string,
  remove?: () => Promise<void>,
): KvPlace {
  return {
    kv,
    address: path && JSON.stringify({ path, notifier }),
    open: (options = {}) => openEventStore(kv, { ...options, notifier }),
    close: () => close(kv),
    async [Symbol.asyncDispose]() {
      close(kv);
      await remove?.();
    },
  };
}

/** Number of keys deleted in one commit. */
const DELETED_AT_ONCE = 100;

async function empty(kv: Deno.Kv): Promise<void> {
  const keys = await Array.fromAsync(kv.list({ prefix: [] }), ({ key }) => key);
  for (let from = 0; from < keys.length; from += DELETED_AT_ONCE) {
    const commit = kv.atomic();
    for (const key of keys.slice(from, from + DELETED_AT_ONCE)) commit.delete(key);
    await commit.commit();
  }
}

/** A test may have closed its KV already, to end what listens to it. */
function close(kv: Deno.Kv): void {
  try {
    kv.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
