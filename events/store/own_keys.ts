import { met } from "../../core/check_options.ts";

/** Methods of a commit that change one key, which is their first argument. */
const CHANGES: ReadonlySet<unknown> = new Set(["set", "delete", "sum", "min", "max"]);

/** The commits behind the views that effects get. */
const commits = new WeakMap<Deno.AtomicOperation, Deno.AtomicOperation>();

/**
 * Makes a view of a commit for a handler's effects, which refuses changes of the store's own keys: what is written
 * there is a record, a state or an index, and other values would break the store. Checks only read, so they may name
 * any key.
 *
 * @param commit The commit.
 * @param namespace The store's namespace, with which all of its keys begin.
 * @returns The view.
 */
export function withoutOwnKeys(
  commit: Deno.AtomicOperation,
  namespace: string,
): Deno.AtomicOperation {
  const get = (_: Deno.AtomicOperation, name: string | symbol): unknown => {
    const member: unknown = Reflect.get(commit, name);
    if (typeof member !== "function" || name === "constructor") return member;
    return (...args: unknown[]): unknown => {
      if (CHANGES.has(name)) checkKey(args[0], namespace);
      if (name === "mutate") { for (const { key } of args.map(Object)) checkKey(key, namespace); }
      const result: unknown = member.apply(commit, args);
      return result === commit ? view : result;
    };
  };
  const view: Deno.AtomicOperation = new Proxy(commit, { get });
  commits.set(view, commit);
  return view;
}

/**
 * Finds the commit behind a view, by which the package itself changes keys of the store, such as states.
 *
 * @param commit The view that effects get.
 * @returns The commit.
 */
export function withOwnKeys(commit: Deno.AtomicOperation): Deno.AtomicOperation {
  return commits.get(commit) ?? commit;
}

function checkKey(key: unknown, namespace: string): void {
  const first: unknown = Array.isArray(key) ? key[0] : undefined;
  // A KV stores half of a surrogate pair as another character.
  if (typeof first !== "string" || first.toWellFormed() !== namespace) return;
  throw new TypeError(
    `Cannot commit the effects: the keys that begin with ${
      met(namespace)
    } are the event store's own. ` +
      "Begin yours with another text, and set states with 'state' of the context",
  );
}
