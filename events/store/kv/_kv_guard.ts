import { met } from "../../../core/check_options.ts";
import { OWN_DATA } from "./_layout.ts";

/**
 * The guard of a store's KV. A KV has one queue. If the notifier uses it, the store's listener takes every message: one
 * that somebody else sent would be lost without a word. So the views of the KV that leave the store, and the commits
 * that effects add to, refuse to send and to listen. No view changes a key of a store, other than of the app's own data. And no view can be closed: if a
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

/**
 * Commit of a KV that settles an event, for what a handler adds to it: `Deno.AtomicOperation` without `commit`, which
 * the store calls. Each method returns the commit.
 *
 * @category Handlers
 */
export interface KvCommit {
  /** Makes the commit fail unless the keys have these versions. */
  check(...checks: Deno.AtomicCheck[]): this;
  /** Adds changes, as Deno describes them. */
  mutate(...mutations: Deno.KvMutation[]): this;
  /** Adds a number to a `Deno.KvU64`. */
  sum(key: Deno.KvKey, n: bigint): this;
  /** Makes a `Deno.KvU64` no larger than a number. */
  min(key: Deno.KvKey, n: bigint): this;
  /** Makes a `Deno.KvU64` no smaller than a number. */
  max(key: Deno.KvKey, n: bigint): this;
  /** Sets a value, of up to 64 KiB. It is deleted after `expireIn` milliseconds. */
  set(key: Deno.KvKey, value: unknown, options?: { readonly expireIn?: number }): this;
  /** Deletes a value. */
  delete(key: Deno.KvKey): this;
  /** Sends a message to the queue of the KV. With the notifier `enqueue`, that is the store's, and this throws. */
  enqueue(value: unknown, options?: Parameters<Deno.AtomicOperation["enqueue"]>[1]): this;
}

/** Methods of a commit that change values. */
const CHANGES: ReadonlySet<unknown> = new Set(["set", "delete", "sum", "min", "max", "mutate"]);

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

/**
 * Makes a view of a commit for a handler's effects, see {@linkcode withoutOwnKeys}. It refuses to be committed.
 *
 * @param commit The commit.
 * @param namespaces The namespaces of stores.
 * @returns The view.
 */
export function forEffects(
  commit: Deno.AtomicOperation,
  namespaces: ReadonlySet<string>,
): Deno.AtomicOperation {
  return withoutOwnKeys(commit, namespaces, refuseToCommit);
}

/**
 * Makes a view of a commit that is never made, and notes what is added to it, for another commit.
 *
 * @param commit The commit.
 * @param namespaces The namespaces of stores.
 * @returns The view, and effects that add the same; undefined if nothing has been added yet.
 */
export function recordEffects(
  commit: Deno.AtomicOperation,
  namespaces: ReadonlySet<string>,
): {
  readonly commit: Deno.AtomicOperation;
  readonly effects: ((commit: Deno.AtomicOperation) => void) | undefined;
} {
  const calls: ((commit: Deno.AtomicOperation) => unknown)[] = [];
  // What it refuses is refused at once.
  const first = forEffects(commit, namespaces);
  const get = (_: Deno.AtomicOperation, name: string | symbol): unknown => {
    const member: unknown = Reflect.get(first, name);
    if (typeof member !== "function" || name === "constructor") return member;
    return (...args: unknown[]): unknown => {
      const result: unknown = member(...args);
      if (result !== first) return result;
      calls.push((other) => (Reflect.get(other, name) as typeof member)(...args));
      return view;
    };
  };
  const view: Deno.AtomicOperation = new Proxy(commit, { get });
  return {
    commit: view,
    get effects() {
      return calls.length === 0 ? undefined : (other: Deno.AtomicOperation) => {
        for (const call of calls) call(other);
      };
    },
  };
}

function refuseToCommit(): never {
  throw new TypeError(
    "Cannot commit the effects: the store does, together with what it notes of the event. Leave out commit()",
  );
}

/**
 * Makes a view of a commit for others than the store, such as a handler's effects. It refuses changes of the store's
 * own keys: what is written there is a record, a state or an index, and other values would break the store. Checks only
 * read, so they may name any key.
 *
 * @param commit The commit.
 * @param namespaces The namespaces of stores: all of their keys begin with one.
 * @param commitInstead What its `commit` does; undefined for what it does in Deno.
 * @returns The view.
 */
function withoutOwnKeys(
  commit: Deno.AtomicOperation,
  namespaces: ReadonlySet<string>,
  commitInstead?: () => never,
): Deno.AtomicOperation {
  const get = (_: Deno.AtomicOperation, name: string | symbol): unknown => {
    const member: unknown = name === "commit" && commitInstead || Reflect.get(commit, name);
    if (typeof member !== "function" || name === "constructor") return member;
    return (...args: unknown[]): unknown => {
      const keys = name === "mutate" ? args.map((each) => Object(each).key) : args.slice(0, 1);
      if (CHANGES.has(name)) { for (const key of keys) refuseOwnKey(key, namespaces); }
      const result: unknown = member.apply(commit, args);
      return result === commit ? view : result;
    };
  };
  const view: Deno.AtomicOperation = new Proxy(commit, { get });
  return view;
}

/**
 * Refuses a key of a store. Those of the app's own data are no keys of the store.
 *
 * @param key The key.
 * @param namespaces The namespaces of stores.
 * @throws {TypeError} If the key begins with one of them, and is not of own data.
 */
function refuseOwnKey(key: unknown, namespaces: ReadonlySet<string>): void {
  const first: unknown = Array.isArray(key) ? key[0] : undefined;
  // A KV stores half of a surrogate pair as another character.
  if (typeof first !== "string" || !namespaces.has(first.toWellFormed())) return;
  if ((key as Deno.KvKey)[1] === OWN_DATA) return;
  throw new TypeError(
    `Cannot change the key: those that begin with ${met(first)} are the event store's own. ` +
      `Begin yours with [${
        met(first)
      }, "${OWN_DATA}"], and set states with 'state' of the context or the store`,
  );
}
