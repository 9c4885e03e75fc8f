import type { EventStore, NotifierKind } from "../../../events/mod.ts";
import { decode, encode, lines, type Reply } from "./_calls.ts";

/** A store in another process. */
interface Peer extends AsyncDisposable {
  call(method: keyof EventStore, args: unknown[]): Promise<unknown>;
}

/** A store of which each second call is executed by another process on the same KV. */
export async function inTwoProcesses(
  own: EventStore,
  url: string,
  notifier: NotifierKind,
): Promise<{ store: EventStore } & AsyncDisposable> {
  const peer = startPeer(url, notifier);
  // Without this the first call would wait for the process to start, and its lease expire meanwhile.
  await peer.call("stats", []);
  let calls = 0;
  const store = new Proxy(own, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== "function" || name === "listen") return bound(value, target);
      return (...args: unknown[]) => {
        // A function cannot be sent: effects of a settlement, and the report of a purge's progress.
        const isOwn = calls++ % 2 === 0 || args.some((arg) => typeof arg === "function");
        if (isOwn) return Reflect.apply(value, target, args);
        const sent = name === "claim" ? [{ ...args[0] as object, holds: undefined }] : args;
        const result = peer.call(name as keyof EventStore, sent);
        return name === "list" ? each(result as Promise<unknown[]>) : result;
      };
    },
  });
  return { store, [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose]() };
}

function bound(value: unknown, target: EventStore): unknown {
  return typeof value === "function" ? value.bind(target) : value;
}

async function* each<T>(values: Promise<T[]>): AsyncGenerator<T> {
  yield* await values;
}

function startPeer(url: string, notifier: NotifierKind): Peer {
  const script = new URL("./_peer.ts", import.meta.url).href;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", "-A", script, url, notifier],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const input = process.stdin.getWriter();
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const reading = (async () => {
    for await (const line of lines(process.stdout)) {
      const { id, value, error } = decode(line) as Reply;
      const { resolve, reject } = waiting.get(id)!;
      waiting.delete(id);
      if (error) reject(Object.assign(new Error(error.message), { name: error.name }));
      else resolve(value);
    }
    for (const { reject } of waiting.values()) reject(new Error("The other process ended"));
  })();
  let calls = 0;
  return {
    async call(method, args) {
      const id = calls++;
      const reply = Promise.withResolvers<unknown>();
      waiting.set(id, reply);
      await input.write(encode({ id, method, args }));
      return await reply.promise;
    },
    [Symbol.asyncDispose]: async () => {
      await input.close();
      await Promise.all([process.status, reading]);
    },
  };
}
