import {
  type EventStore,
  type EventStoreOptions,
  type LogRecord,
  openEventStore,
} from "../../../events/mod.ts";
import { ON_DENO_2_5 } from "../../_deno_version.ts";
import { FULL_LENGTH } from "../../_length.ts";
import { perFile } from "../../_per_file.ts";
import { isGranted, type Need, testWith } from "../../_permissions.ts";
import { type Denokv, DENOKV_MISSING, denokvPath, startDenokv } from "./kv/_denokv.ts";
import { inTwoProcesses, type Peer, startPeer } from "./_two_processes.ts";

/** A store on a KV of its own, closed when it goes out of scope. */
export interface StoreUnderTest extends AsyncDisposable {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
}

/** A KV, and where another process finds it. */
interface OpenedKv extends AsyncDisposable {
  readonly kv: Deno.Kv;
  readonly url: string;
}

interface Engine {
  readonly name: string;
  readonly needs: readonly Need[];
  readonly notifier: EventStore["notifier"];
  /** Number of processes that do the store's work. */
  readonly processes: 1 | 2;
  /** Reason why it cannot be used here. */
  readonly missing?: string | undefined;
  open(): Promise<OpenedKv>;
}

/** Each engine has one notifier: its message is part of the commits, and matters to `listen()` alone. */
const MEMORY: Engine = {
  name: "memory",
  needs: [],
  notifier: "enqueue",
  processes: 1,
  open: openMemory,
};

const FILE: Engine = {
  ...MEMORY,
  name: "file",
  needs: ["read", "write"],
  notifier: "watch",
  open: openFile,
};

const DENOKV: Engine = {
  name: "denokv",
  needs: ["read", "write", "net", "run", "env"],
  notifier: "watch",
  processes: 1,
  missing: denokvPath() === undefined ? DENOKV_MISSING : undefined,
  open: openRemote,
};

const ON_FILE: Engine = {
  ...FILE,
  name: "two processes on a file",
  needs: ["read", "write", "run"],
  notifier: "enqueue",
  processes: 2,
};

const ON_DENOKV: Engine = { ...DENOKV, name: "two processes on denokv", processes: 2 };

/**
 * Engines that two processes share. How they affect each other depends on the store and not on its KV: so they
 * share a remote KV in the long tests only, and none with the oldest Deno, whose time is short.
 */
const SHARED = ON_DENO_2_5 ? [] : FULL_LENGTH ? [ON_FILE, ON_DENOKV] : [ON_FILE];

/** The other process of the tests of this file, and the server of those on a remote KV. */
let peerOfFile: (() => Peer) | undefined;
let denokvOfFile: (() => Denokv) | undefined;

/** Registers a test once for each engine and notifier that a store can have, in one process and in two. */
export function testStore(
  name: string,
  fn: (sut: StoreUnderTest) => Promise<void>,
  options: EventStoreOptions = {},
): void {
  testStoreInOneProcess(name, fn, options);
  for (const engine of SHARED) testEngine(name, engine, fn, options);
}

/** Registers a test that makes no sense in two processes, such as one on a store of its own. */
export function testStoreInOneProcess(
  name: string,
  fn: (sut: StoreUnderTest) => Promise<void>,
  options: EventStoreOptions = {},
): void {
  for (const engine of [MEMORY, FILE, DENOKV]) testEngine(name, engine, fn, options);
}

/** Registers a test of the notifier, for each kind of it that an engine can have. */
export function testNotifier(name: string, fn: (sut: StoreUnderTest) => Promise<void>): void {
  testStoreInOneProcess(name, fn);
  testEngine(name, { ...MEMORY, notifier: "watch" }, fn, {});
  testEngine(name, { ...FILE, notifier: "enqueue" }, fn, {});
}

function testEngine(
  name: string,
  engine: Engine,
  fn: (sut: StoreUnderTest) => Promise<void>,
  options: EventStoreOptions,
): void {
  const isUsable = !engine.missing && isGranted(engine.needs);
  if (isUsable && engine.processes === 2) peerOfFile ??= perFile(startPeer);
  if (isUsable && engine.open === openRemote) denokvOfFile ??= perFile(startDenokv);
  const { notifier } = engine;
  const title = `${name} [${engine.name}, ${notifier}]`;
  testWith(engine.needs, title, async () => {
    await using opened = await engine.open();
    const { kv, url } = opened;
    const own = await openEventStore(kv, { ...options, notifier });
    const end = () => Promise.resolve();
    if (engine.processes === 1) return await fn({ kv, store: own, [Symbol.asyncDispose]: end });
    await using shared = await inTwoProcesses(own, peerOfFile!(), url, { ...options, notifier });
    await fn({ kv, store: shared.store, [Symbol.asyncDispose]: end });
  }, engine.missing);
}

/** Opens a store in memory. */
export async function memoryStore(options: EventStoreOptions = {}): Promise<StoreUnderTest> {
  const opened = await openMemory();
  return { ...opened, store: await openEventStore(opened.kv, options) };
}

/** A store, and what it logs. */
export interface LoggedStore {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
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

async function openMemory(): Promise<OpenedKv> {
  const url = ":memory:";
  const kv = await Deno.openKv(url);
  return { kv, url, [Symbol.asyncDispose]: () => Promise.resolve(close(kv)) };
}

async function openFile(): Promise<OpenedKv> {
  const folder = await Deno.makeTempDir();
  const url = `${folder}/kv.db`;
  const kv = await Deno.openKv(url);
  return {
    kv,
    url,
    [Symbol.asyncDispose]: async () => {
      close(kv);
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** All tests of a file share a server, and each begins by emptying its database. */
async function openRemote(): Promise<OpenedKv> {
  const { url } = denokvOfFile!();
  const kv = await Deno.openKv(url);
  await empty(kv);
  return { kv, url, [Symbol.asyncDispose]: () => Promise.resolve(close(kv)) };
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
