/**
 * Stores in a process of its own, which another process calls: a line of the standard input is a call,
 * a line of the standard output its answer. One store is open at a time.
 */
import type { EventStore, EventStoreOptions } from "../../../events/mod.ts";
import { type Call, decode, encode, lines, type Reply } from "./_calls.ts";
import type { OpenedStore } from "./engines/_engine.ts";
import { ENGINES } from "./engines/mod.ts";

let opened: OpenedStore;
const output = Deno.stdout.writable.getWriter();

async function answer({ id, method, args }: Call): Promise<void> {
  const reply = await execute(method, args).then(
    (value): Reply => ({ id, value }),
    (error): Reply => ({ id, error: { name: error.name, message: error.message } }),
  );
  await output.write(encode(reply));
}

async function execute(method: Call["method"], args: unknown[]): Promise<unknown> {
  if (method === "open") return await open(...args as Parameters<typeof open>);
  if (method === "close") return opened.close();
  const store: EventStore = opened.store;
  const result = Reflect.apply(store[method] as () => unknown, store, args);
  return method === "list" ? await Array.fromAsync(result as AsyncIterable<unknown>) : await result;
}

async function open(name: string, address: string, options: EventStoreOptions): Promise<void> {
  const engine = ENGINES.find((each) => each.name === name)!;
  opened = await engine.openAt(address, { ...options, log: () => {} });
}

for await (const line of lines(Deno.stdin.readable)) answer(decode(line) as Call);
