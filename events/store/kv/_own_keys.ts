import { met } from "../../../core/check_options.ts";

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
export function withoutOwnKeys(
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
 * Refuses a key of a store.
 *
 * @param key The key.
 * @param namespaces The namespaces of stores.
 * @throws {TypeError} If the key begins with one of them.
 */
export function refuseOwnKey(key: unknown, namespaces: ReadonlySet<string>): void {
  const first: unknown = Array.isArray(key) ? key[0] : undefined;
  // A KV stores half of a surrogate pair as another character.
  if (typeof first !== "string" || !namespaces.has(first.toWellFormed())) return;
  throw new TypeError(
    `Cannot change the key: those that begin with ${met(first)} are the event store's own. ` +
      "Begin yours with another text, and set states with 'state' of the context or the store",
  );
}
