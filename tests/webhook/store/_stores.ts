import { type BellKind, type EventStore, openEventStore } from "../../../webhook/mod.ts";
import { type Need, testWith } from "../../_permissions.ts";
import { DENOKV_MISSING, denokvPath, startDenokv } from "./_denokv.ts";

/** A store on a KV of its own, closed when it goes out of scope. */
export interface StoreUnderTest extends AsyncDisposable {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
}

interface Engine {
  readonly name: string;
  readonly needs: readonly Need[];
  readonly bells: readonly BellKind[];
  /** Why it cannot be used here. */
  readonly missing?: string | undefined;
  open(): Promise<{ kv: Deno.Kv } & AsyncDisposable>;
}

const ENGINES: readonly Engine[] = [
  { name: "memory", needs: [], bells: ["enqueue", "watch"], open: openMemory },
  { name: "file", needs: ["read", "write"], bells: ["enqueue", "watch"], open: openFile },
  {
    name: "denokv",
    needs: ["read", "write", "net", "run", "env"],
    bells: ["watch"],
    missing: denokvPath() === undefined ? DENOKV_MISSING : undefined,
    open: openRemote,
  },
];

/** Registers a test once for each engine and bell that a store can have. */
export function testStore(name: string, fn: (sut: StoreUnderTest) => Promise<void>): void {
  for (const engine of ENGINES) {
    for (const bell of engine.bells) {
      const title = `${name} [${engine.name}, ${bell}]`;
      if (engine.missing) {
        Deno.test({ name: `${title} (skipped: ${engine.missing})`, ignore: true, fn: () => {} });
        continue;
      }
      testWith(engine.needs, title, async () => {
        await using opened = await engine.open();
        const store = await openEventStore(opened.kv, { bell });
        await fn({ kv: opened.kv, store, [Symbol.asyncDispose]: () => Promise.resolve() });
      });
    }
  }
}

/** Opens a store in memory. */
export async function memoryStore(): Promise<StoreUnderTest> {
  const opened = await openMemory();
  return { ...opened, store: await openEventStore(opened.kv) };
}

async function openMemory() {
  const kv = await Deno.openKv(":memory:");
  return { kv, [Symbol.asyncDispose]: () => Promise.resolve(close(kv)) };
}

async function openFile() {
  const folder = await Deno.makeTempDir();
  const kv = await Deno.openKv(`${folder}/kv.db`);
  return {
    kv,
    [Symbol.asyncDispose]: async () => {
      close(kv);
      await Deno.remove(folder, { recursive: true });
    },
  };
}

async function openRemote() {
  const server = await startDenokv();
  const kv = await Deno.openKv(server.url);
  return {
    kv,
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
