import { type EventStore, type NotifierKind, openEventStore } from "../../../events/mod.ts";
import { type Need, testWith } from "../../_permissions.ts";
import { DENOKV_MISSING, denokvPath, startDenokv } from "./_denokv.ts";
import { inTwoProcesses } from "./_two_processes.ts";

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
  readonly notifiers: readonly NotifierKind[];
  /** Number of processes that do the store's work. */
  readonly processes: 1 | 2;
  /** Reason why it cannot be used here. */
  readonly missing?: string | undefined;
  open(): Promise<OpenedKv>;
}

const MEMORY: Engine = {
  name: "memory",
  needs: [],
  notifiers: ["enqueue", "watch"],
  processes: 1,
  open: openMemory,
};

const FILE: Engine = { ...MEMORY, name: "file", needs: ["read", "write"], open: openFile };

const DENOKV: Engine = {
  name: "denokv",
  needs: ["read", "write", "net", "run", "env"],
  notifiers: ["watch"],
  processes: 1,
  missing: denokvPath() === undefined ? DENOKV_MISSING : undefined,
  open: openRemote,
};

/** One notifier each: it matters to `listen()` alone, which is a process's own. */
const SHARED: readonly Engine[] = [
  {
    ...FILE,
    name: "two processes on a file",
    needs: ["read", "write", "run"],
    notifiers: ["enqueue"],
    processes: 2,
  },
  { ...DENOKV, name: "two processes on denokv", processes: 2 },
];

/** Registers a test once for each engine and notifier that a store can have, in one process and in two. */
export function testStore(name: string, fn: (sut: StoreUnderTest) => Promise<void>): void {
  testStoreInOneProcess(name, fn);
  for (const engine of SHARED) testEngine(name, engine, fn);
}

/** Registers a test that makes no sense in two processes: of the notifier, or on a store of its own. */
export function testStoreInOneProcess(
  name: string,
  fn: (sut: StoreUnderTest) => Promise<void>,
): void {
  for (const engine of [MEMORY, FILE, DENOKV]) testEngine(name, engine, fn);
}

function testEngine(
  name: string,
  engine: Engine,
  fn: (sut: StoreUnderTest) => Promise<void>,
): void {
  for (const notifier of engine.notifiers) {
    const title = `${name} [${engine.name}, ${notifier}]`;
    if (engine.missing) {
      Deno.test({ name: `${title} (skipped: ${engine.missing})`, ignore: true, fn: () => {} });
      continue;
    }
    testWith(engine.needs, title, async () => {
      await using opened = await engine.open();
      const { kv, url } = opened;
      const own = await openEventStore(kv, { notifier });
      const end = () => Promise.resolve();
      if (engine.processes === 1) return await fn({ kv, store: own, [Symbol.asyncDispose]: end });
      await using shared = await inTwoProcesses(own, url, notifier);
      await fn({ kv, store: shared.store, [Symbol.asyncDispose]: end });
    });
  }
}

/** Opens a store in memory. */
export async function memoryStore(): Promise<StoreUnderTest> {
  const opened = await openMemory();
  return { ...opened, store: await openEventStore(opened.kv) };
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

async function openRemote(): Promise<OpenedKv> {
  const server = await startDenokv();
  const { url } = server;
  const kv = await Deno.openKv(url);
  return {
    kv,
    url,
    [Symbol.asyncDispose]: async () => {
      close(kv);
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A test may have closed its KV already, to end what listens to it. */
function close(kv: Deno.Kv): void {
  try {
    kv.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
