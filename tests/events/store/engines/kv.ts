import { failingOnce } from "../../../../dev/harness/faulty_kv.ts";
import {
  type CommitEffects,
  type EventRecord,
  type EventStoreOptions,
  openEventStore,
} from "../../../../events/mod.ts";
import { notesOf, partsOf } from "../../../../events/store/kv/_layout.ts";
import { decodeValue } from "../../../../events/store/kv/value_codec.ts";
import { ON_DENO_2_5 } from "../../../_deno_version.ts";
import type { KvStore } from "../../../_kv_handlers.ts";
import { IS_LONG } from "../../../_length.ts";
import { perFile } from "../../../_per_file.ts";
import {
  ACCESS_TOKEN,
  type Denokv,
  DENOKV_MISSING,
  denokvPath,
  startDenokv,
} from "../kv/_denokv.ts";
import { expiringKv } from "../kv/_expiring_kv.ts";
import { openSimulatedKv } from "../../worker/_simulated_kv.ts";
import { keysOf, makeDue, recordKey } from "../kv/_keys.ts";
import { setNewer, valueAt } from "../kv/_values.ts";
import type {
  Contents,
  Damages,
  EngineUnderTest,
  HandlerEffects,
  Place,
  PlaceKind,
} from "./_engine.ts";

/** A KV that a store lies in. */
export interface KvPlace extends Place {
  readonly kv: Deno.Kv;
  open(options?: EventStoreOptions): Promise<KvStore>;
}

/** Place of a KV, and the way its workers are woken. */
interface KvAddress {
  readonly path: string;
  readonly notifier?: Notifier | undefined;
}

/** The address of a KV, for another process. */
export function addressOf(path: string, notifier?: Notifier): string {
  return JSON.stringify({ path, notifier } satisfies KvAddress);
}

/** Each kind has one notifier: its message is part of the commits, and matters to `listen()` alone. */
export type Notifier = "enqueue" | "watch";

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
const SHARED = ON_DENO_2_5 ? [] : [BY_TWO_ON_FILE];

/** Kinds of the long tests alone: all that is special about them is in one of the others. */
const LONG = IS_LONG ? [inFile("watch"), BY_TWO_ON_DENOKV] : [];

/** Stores in a Deno KV. */
export const KV: EngineUnderTest<KvPlace> = {
  name: "kv",
  kinds: [inMemory("enqueue"), ON_DENOKV, ...SHARED, ...LONG],
  shared: inFile("enqueue"),
  remote: ON_DENOKV,
  env: { DENO_KV_ACCESS_TOKEN: ACCESS_TOKEN },
  wakingKinds: [inMemory("watch"), inFile("enqueue")],
  async openAt(address, options) {
    const { path, notifier }: KvAddress = JSON.parse(address);
    const kv = await Deno.openKv(path);
    const store = await openEventStore(kv, { ...options, notifier });
    return { store, effects: effectsIn(kv), close: () => kv.close() };
  },
  damages: damagesIn,
  async openAging() {
    const { kv, pass, end } = await expiringKv();
    return { ...placeOf(kv, "enqueue", undefined, end), pass };
  },
  async openFailing({ kv }, fault, options) {
    const failing = failingOnce(kv, fault);
    const store = await openEventStore(failing.kv, { ...options, notifier: "watch" });
    return { store, arm: failing.arm };
  },
  openSimulated: (simulation) => openSimulatedKv(simulation, effectsIn),
};

function placeOf(
  kv: Deno.Kv,
  notifier: Notifier,
  path?: string,
  remove?: () => Promise<void>,
): KvPlace {
  const listened = listeningOf(kv);
  return {
    kv,
    path,
    address: path && addressOf(path, notifier),
    effects: effectsIn(kv),
    contents: () => contentsOf(kv),
    open: (options = {}) => openEventStore(kv, { ...options, notifier }),
    close: () => close(kv),
    async [Symbol.asyncDispose]() {
      close(kv);
      await listened();
      await remove?.();
    },
  };
}

/** Waits until nobody listens to a KV's queue any more: on a loaded machine, a while after the KV is closed. */
function listeningOf(kv: Deno.Kv): () => Promise<unknown> {
  const listening: Promise<void>[] = [];
  const listen = kv.listenQueue.bind(kv);
  kv.listenQueue = (handler) => {
    const ended = listen(handler);
    listening.push(ended);
    return ended;
  };
  return () => Promise.allSettled(listening);
}

function damagesIn({ kv }: KvPlace): Damages {
  return {
    async spoil(what, id) {
      if (what === "event") return await setNewer(kv, await recordKey(kv, id));
      if (what === "name") return await setNewer(kv, ["events", "waiter", id]);
      return await setNewer(kv, (await keysOf(kv, "content"))[0]!);
    },
    async spoilCell(...key) {
      await setNewer(kv, ["events", ...key]);
    },
    async lose(what, id) {
      if (what === "name") return await kv.delete(["events", "waiter", id]);
      const key = await recordKey(kv, id);
      if (what === "event") return await kv.delete(key);
      const { payload } = await valueAt<EventRecord>(kv, key);
      await kv.delete(["events", "payload", payload!.id, partsOf(payload!.size) - 1]);
    },
    makeDue: (id) => makeDue(kv, id),
  };
}

/** A version that nothing has. */
const NEVER = "0".repeat(20);

/** Takes the commit that handlers get of a KV; the tests do not know that it is one. */
const asEffects = (effects: CommitEffects<Deno.AtomicOperation>) => effects as CommitEffects;

function effectsIn(kv: Deno.Kv): HandlerEffects {
  return {
    set: (name, value) => asEffects((commit) => commit.set(keyOf(name), value)),
    add: (name, value) => asEffects((commit) => commit.sum(keyOf(name), BigInt(value))),
    create: (name, value) =>
      asEffects((commit) => {
        const key = keyOf(name);
        commit.check({ key, versionstamp: null }).set(key, value);
      }),
    refused: () => asEffects((commit) => commit.check({ key: ["refused"], versionstamp: NEVER })),
    refusal: "A check among the effects does not hold",
    async get(name) {
      return valueOf((await kv.get<EffectValue>(keyOf(name))).value);
    },
    async all(beginning) {
      const entries = kv.list<EffectValue>({ prefix: [beginning] });
      const named = ({ key, value }: Deno.KvEntry<EffectValue>) =>
        [String(key[1]), valueOf(value)] as const;
      return new Map(await Array.fromAsync(entries, named));
    },
  };
}

type EffectValue = string | number | Deno.KvU64;

/** The key of an effect: its name, or what is before the first slash and what is behind it. */
function keyOf(name: string): Deno.KvKey {
  const slash = name.indexOf("/");
  return slash < 0 ? [name] : [name.slice(0, slash), name.slice(slash + 1)];
}

function valueOf<T extends EffectValue | null>(value: T): Exclude<T, Deno.KvU64> | number {
  return value instanceof Deno.KvU64 ? Number(value.value) : value as Exclude<T, Deno.KvU64>;
}

/** Keys that stay without events: the key of emitted ids, sums and wake-ups. */
const OWN = [
  ...["emit", "keptBytes", "keptCounted", "notifier"],
  ...["problem", "problemNew", "problemHour", "problemLast"],
];

const COUNTED = [
  ...["event", "id", "due", "lane", "place", "payload", "upload", "waiter", "kept", "step"],
];

async function contentsOf(kv: Deno.Kv): Promise<Contents> {
  const keys = (await keysOf(kv)).filter(([, kind]) => !OWN.includes(String(kind)));
  const byKind = Map.groupBy(keys, ([, kind]) => kind);
  const count = (...kinds: string[]) =>
    kinds.reduce((sum, kind) => sum + (byKind.get(kind)?.length ?? 0), 0);
  const { value } = await kv.get<Deno.KvU64>(["events", "keptBytes"]);
  const inRecord = await payloadsInRecords(kv);
  return {
    ...{ events: count("event"), ids: count("id"), times: count("due") },
    ...{ positions: count("lane", "place"), uploads: count("upload"), names: count("waiter") },
    payloads: new Set(byKind.get("payload")?.map(([, , id]) => id)).size + inRecord,
    kept: { payloads: count("kept"), bytes: Number(value?.value ?? 0n) },
    results: count("step"),
    others: keys.length - count(...COUNTED),
  };
}

/** Counts the payloads that are parts of records. */
async function payloadsInRecords(kv: Deno.Kv): Promise<number> {
  let count = 0;
  for await (const { value } of kv.list({ prefix: ["events", "event"] })) {
    const record = decodeValue(value)?.value as EventRecord | undefined;
    if (record && notesOf(record).holdsPayload) count++;
  }
  return count;
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
