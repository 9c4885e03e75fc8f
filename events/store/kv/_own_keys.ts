import { met } from "../../../core/check_options.ts";

/** Methods of a commit that change values. */
const CHANGES: ReadonlySet<unknown> = new Set(["set", "delete", "sum", "min", "max", "mutate"]);

/**
 * Makes a view of a commit for others than the store, such as a handler's effects. It refuses changes of the store's
 * own keys: what is written there is a record, a state or an index, and other values would break the store. Checks only
 * read, so they may name any key.
 *
 * @param commit The commit.
 * @param namespaces The namespaces of stores: all of their keys begin with one.
 * @returns The view.
 */
export function withoutOwnKeys(
  commit: Deno.AtomicOperation,
  namespaces: ReadonlySet<string>,
): Deno.AtomicOperation {
  const get = (_: Deno.AtomicOperation, name: string | symbol): unknown => {
    const member: unknown = Reflect.get(commit, name);
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
