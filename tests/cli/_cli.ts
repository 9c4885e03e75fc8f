import { runCli } from "../../cli/_run.ts";
import type { CliWorld } from "../../cli/_world.ts";
import { type EventStore, openEventStore } from "../../events/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { setNewer } from "../events/store/kv/_values.ts";

/** Outcome of a run of the tool. */
export interface Result {
  readonly code: number;
  /** The lines of its result. */
  readonly out: readonly string[];
  /** The lines for the one who runs it. */
  readonly err: readonly string[];
}

/** Runs the tool on the KV of a test. */
export type Cli = (...args: string[]) => Promise<Result>;

/** A test's KV, and a store in it that stays open as an app's would. */
export interface Sut {
  readonly cli: Cli;
  readonly store: EventStore;
  readonly kv: Deno.Kv;
  readonly path: string;
}

/** Runs the tool in this process. */
export async function runHere(
  args: readonly string[],
  world: Partial<CliWorld> = {},
): Promise<Result> {
  const [out, err]: [string[], string[]] = [[], []];
  const code = await runCli(args, {
    env: () => undefined,
    now: () => Date.now(),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    input: () => undefined,
    terminal: undefined,
    ask: undefined,
    onInterrupt: () => () => {},
    sleep: () => Promise.reject(new Error("Nothing waits")),
    ...world,
  });
  return { code, out, err };
}

/** Registers a test of the tool on a KV file of its own. */
export function testCli(name: string, fn: (sut: Sut) => Promise<void>): void {
  testWith(["read", "write"], name, () =>
    withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      using kv = await Deno.openKv(path);
      const store = await openEventStore(kv, { namespace: "bot" });
      const cli: Cli = (...args) => runHere(["events", ...args, "--kv", path]);
      await fn({ cli, store, kv, path });
    }));
}

/** Takes an event in that dies. */
export async function bury(store: EventStore, id: string, error = new Error("no")): Promise<void> {
  await store.accept(delivery(id));
  await store.bury(await claimOne(store), error);
}

/** The key of an event's record. */
export async function recordKey(kv: Deno.Kv, id: string): Promise<Deno.KvKey> {
  for await (const { key } of kv.list({ prefix: ["bot", "event"] })) {
    if (key.at(-1) === id) return key;
  }
  throw new Error(`There is no record of ${id}`);
}

/** Makes an event's record one of another version. */
export async function makeNewer(kv: Deno.Kv, id: string): Promise<void> {
  await setNewer(kv, await recordKey(kv, id));
}
