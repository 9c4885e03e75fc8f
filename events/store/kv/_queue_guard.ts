/**
 * The guard of a store's queue. A KV has one queue. Where the notifier uses it, the store's listener takes
 * every message: one that somebody else sent would be lost without a word. So the views of the KV that
 * leave the store, and the commits that effects add to, refuse to send and to listen.
 */

const ADVICE = "For messages of your own, open another KV, with a path of its own, or open the " +
  `store with the notifier "watch"`;

const SENDING =
  `Cannot enqueue in the KV of the event store: its queue wakes the store's workers, ` +
  `which drop all other messages. ${ADVICE}`;

const LISTENING = `Cannot listen to the queue of the event store's KV: its messages wake the ` +
  `store's workers. ${ADVICE}`;

/** The KV behind each guarded view: a store that is opened with a view needs the queue itself. */
const unguarded = new WeakMap<Deno.Kv, Deno.Kv>();

/**
 * Makes a view of a KV that refuses the use of its queue, and is otherwise the KV itself.
 *
 * @param kv The KV, or a view of it.
 * @returns The view.
 */
export function guardQueue(kv: Deno.Kv): Deno.Kv {
  if (unguarded.has(kv)) return kv;
  const guarded = new Proxy(kv, { get: getGuarded });
  unguarded.set(guarded, kv);
  return guarded;
}

/**
 * Finds the KV behind a guarded view.
 *
 * @param kv The KV, or a view of it.
 * @returns The KV.
 */
export function withoutGuard(kv: Deno.Kv): Deno.Kv {
  return unguarded.get(kv) ?? kv;
}

/**
 * Makes an operation refuse further messages. Those that it has already are sent.
 *
 * @param operation The operation.
 * @returns The same operation.
 */
export function refuseMessages(operation: Deno.AtomicOperation): Deno.AtomicOperation {
  operation.enqueue = refuseToSend;
  return operation;
}

function getGuarded(kv: Deno.Kv, name: string | symbol): unknown {
  if (name === "enqueue") return refuseToSend;
  if (name === "listenQueue") return refuseToListen;
  if (name === "atomic") return () => refuseMessages(kv.atomic());
  const value: unknown = Reflect.get(kv, name);
  if (typeof value !== "function" || name === "constructor") return value;
  // Its methods use private fields, which a view does not have. `using` takes no bound function on Deno 2.5.
  return (...args: unknown[]): unknown => value.apply(kv, args);
}

function refuseToSend(): never {
  throw new TypeError(SENDING);
}

function refuseToListen(): never {
  throw new TypeError(LISTENING);
}
