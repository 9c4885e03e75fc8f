/**
 * A store in a process of its own, which another process calls: a line of the standard input is a call,
 * a line of the standard output its answer. Its arguments are the KV's path or URL, and the notifier.
 */
import { type EventStore, type NotifierKind, openEventStore } from "../../../events/mod.ts";
import { type Call, decode, encode, lines, type Reply } from "./_calls.ts";

const [url, notifier] = Deno.args;
const kv = await Deno.openKv(url);
const store = await openEventStore(kv, { notifier: notifier as NotifierKind, log: () => {} });
const output = Deno.stdout.writable.getWriter();

async function answer({ id, method, args }: Call): Promise<void> {
  const reply = await execute(method, args).then(
    (value): Reply => ({ id, value }),
    (error): Reply => ({ id, error: { name: error.name, message: error.message } }),
  );
  await output.write(encode(reply));
}

async function execute(method: keyof EventStore, args: unknown[]): Promise<unknown> {
  const result = Reflect.apply(store[method] as () => unknown, store, args);
  return method === "list" ? await Array.fromAsync(result as AsyncIterable<unknown>) : await result;
}

for await (const line of lines(Deno.stdin.readable)) answer(decode(line) as Call);
kv.close();
