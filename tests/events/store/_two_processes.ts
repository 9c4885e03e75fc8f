import type { EventStore, EventStoreOptions } from "../../../events/mod.ts";
import type { Place } from "./engines/_engine.ts";
import { ENGINES } from "./engines/mod.ts";
import { type Call, decode, encode, type Reply } from "./_calls.ts";

/** Another process, in which a store can be opened. */
export interface Peer extends AsyncDisposable {
  call(method: Call["method"], args: unknown[]): Promise<unknown>;
}

/** Methods whose results cannot be sent: they have functions. */
const LOCAL = ["answers", "check", "listen", "portableEntries", "state", "states"];

/** A store of which each second call is executed by another process in the same place. */
export async function inTwoProcesses<TStore extends EventStore>(
  own: TStore,
  peer: Peer,
  engine: string,
  { address }: Place,
  options: EventStoreOptions,
): Promise<{ store: TStore } & AsyncDisposable> {
  await peer.call("open", [engine, address, options]);
  let calls = 0;
  const store = new Proxy(own, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      const isLocal = LOCAL.includes(String(name));
      if (typeof value !== "function" || isLocal) return bound(value, target);
      return (...args: unknown[]) => {
        // A function cannot be sent: effects of a settlement, and the report of a purge's progress.
        const isOwn = calls++ % 2 === 0 ||
          args.some((arg) => typeof arg === "function" || "effects" in Object(arg));
        if (isOwn) return Reflect.apply(value, target, args);
        const sent = name === "claim" ? [{ ...args[0] as object, holds: undefined }] : args;
        const result = peer.call(name as keyof EventStore, sent);
        return name === "list" ? each(result as Promise<unknown[]>) : result;
      };
    },
  });
  return { store, [Symbol.asyncDispose]: async () => void await peer.call("close", []) };
}

function bound(value: unknown, target: EventStore): unknown {
  return typeof value === "function" ? value.bind(target) : value;
}

async function* each<T>(values: Promise<T[]>): AsyncGenerator<T> {
  yield* await values;
}

/**
 * Starts another process, for all tests of a file. Its answers are read while one is waited for, and not
 * between two tests: the sanitizer would find a reading that one has started and the other has ended.
 */
export function startPeer(): Peer {
  const script = new URL("./_peer.ts", import.meta.url).href;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", "-A", script],
    env: Object.assign({}, ...ENGINES.map(({ env }) => env)),
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const input = process.stdin.getWriter();
  const output = process.stdout.getReader();
  const decoder = new TextDecoder();
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let parts: string[] = [];
  let isReading = false;

  function settle(line: string): void {
    const { id, value, error } = decode(line) as Reply;
    const { resolve, reject } = waiting.get(id)!;
    waiting.delete(id);
    if (error) reject(Object.assign(new Error(error.message), { name: error.name }));
    else resolve(value);
  }

  async function read(): Promise<void> {
    isReading = true;
    while (waiting.size > 0) {
      const { done, value } = await output.read();
      if (done) break;
      const [first, ...others] = decoder.decode(value, { stream: true }).split("\n");
      parts.push(first!);
      for (const next of others) {
        settle(parts.join(""));
        parts = [next];
      }
    }
    isReading = false;
    for (const { reject } of waiting.values()) reject(new Error("The other process ended"));
  }

  let calls = 0;
  return {
    async call(method, args) {
      const id = calls++;
      const reply = Promise.withResolvers<unknown>();
      waiting.set(id, reply);
      await input.write(encode({ id, method, args }));
      if (!isReading) read();
      return await reply.promise;
    },
    [Symbol.asyncDispose]: async () => {
      await input.close();
      await output.cancel();
      await process.status;
    },
  };
}
