import { refuseOwnKey, withoutOwnKeys } from "./_own_keys.ts";

/**
 * The guard of a store's KV. A KV has one queue. If the notifier uses it, the store's listener takes every message: one
 * that somebody else sent would be lost without a word. So the views of the KV that leave the store, and the commits
 * that effects add to, refuse to send and to listen. No view changes a key of a store. And no view can be closed: if a
 * handler did so, the app could not store anything until it is started again.
 */

const ADVICE = "For messages of your own, open another KV, with a path of its own, or open the " +
  `store with the notifier "watch"`;

const SENDING =
  `Cannot enqueue in the KV of the event store: its queue wakes the store's workers, ` +
  `which drop all other messages. ${ADVICE}`;

const LISTENING = `Cannot listen to the queue of the event store's KV: its messages wake the ` +
  `store's workers. ${ADVICE}`;

const CLOSING =
  "Cannot close the KV of the event store: the store needs it. Close the KV that you " +
  "opened; an app closes its own when it stops";

/** The KV behind a view, and what the view refuses. */
interface Guarded {
  readonly kv: Deno.Kv;
  readonly refusesQueue: boolean;
  /** Namespaces of the stores that have been opened with the view: their keys are refused. */
  readonly namespaces: Set<string>;
}

/** Each view with what is behind it: a store that is opened with a view needs the KV itself. */
const views = new WeakMap<Deno.Kv, Guarded>();

/**
 * Makes a view of a KV that cannot be closed, changes no key of a store, and is otherwise the KV itself.
 *
 * @param kv The KV, or a view of it.
 * @param namespace The namespace of the store.
 * @param refusesQueue True if it refuses the use of its queue as well.
 * @returns The view.
 */
export function guardKv(kv: Deno.Kv, namespace: string, refusesQueue: boolean): Deno.Kv {
  const known = views.get(kv);
  if (known && (known.refusesQueue || !refusesQueue)) {
    known.namespaces.add(namespace);
    return kv;
  }
  const guarded: Guarded = {
    kv: withoutGuard(kv),
    refusesQueue,
    namespaces: new Set([...known?.namespaces ?? [], namespace]),
  };
  const view = new Proxy(guarded.kv, {
    get: (_, name) => guardedMember(guarded, name) ?? memberOf(guarded.kv, name),
  });
  views.set(view, guarded);
  return view;
}

/**
 * Finds the KV behind a guarded view.
 *
 * @param kv The KV, or a view of it.
 * @returns The KV.
 */
export function withoutGuard(kv: Deno.Kv): Deno.Kv {
  return views.get(kv)?.kv ?? kv;
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

function guardedMember({ kv, refusesQueue, namespaces }: Guarded, name: string | symbol): unknown {
  switch (name) {
    case "enqueue":
      return refusesQueue ? refuseToSend : undefined;
    case "listenQueue":
      return refusesQueue ? refuseToListen : undefined;
    case "atomic":
      return () => {
        const operation = kv.atomic();
        return withoutOwnKeys(refusesQueue ? refuseMessages(operation) : operation, namespaces);
      };
    case "set":
    case "delete":
      return (...args: Parameters<Deno.Kv["set"]>) => {
        refuseOwnKey(args[0], namespaces);
        return name === "set" ? kv.set(...args) : kv.delete(args[0]);
      };
    default:
      return undefined;
  }
}

function memberOf(kv: Deno.Kv, name: string | symbol): unknown {
  if (name === "close" || name === Symbol.dispose) return refuseToClose;
  const value: unknown = Reflect.get(kv, name);
  if (typeof value !== "function" || name === "constructor") return value;
  // Its methods use private fields, which a view does not have. `using` takes no bound function on Deno 2.5.
  return (...args: unknown[]): unknown => value.apply(kv, args);
}

function refuseToSend(): never {
  throw new TypeError(SENDING);
}

function refuseToClose(): never {
  throw new TypeError(CLOSING);
}

function refuseToListen(): never {
  throw new TypeError(LISTENING);
}
