/** Methods of a KV that are replaced by others. */
export type KvChanges = { readonly [Name in keyof Deno.Kv]?: unknown };

/** Makes a view of a KV in which some methods are replaced. */
export function changedKv(kv: Deno.Kv, changes: KvChanges): Deno.Kv {
  const get = (_: Deno.Kv, name: keyof Deno.Kv) => changes[name] ?? kv[name].bind(kv);
  return new Proxy(kv, { get } as ProxyHandler<Deno.Kv>);
}

/** Makes a view of a KV in which each atomic operation is changed before it is used. */
export function withOperations(
  kv: Deno.Kv,
  change: (operation: Deno.AtomicOperation) => void,
): Deno.Kv {
  const atomic = () => {
    const operation = kv.atomic();
    change(operation);
    return operation;
  };
  return changedKv(kv, { atomic });
}

/**
 * Makes a view of a KV whose commits are repeated, as Deno's client of a remote KV does if it gets no answer:
 * the second one is refused because of the first.
 *
 * @param kv The KV.
 * @param meanwhile Called between the two, for what others do then.
 * @param isMeant Chooses the commits; all by default.
 * @returns The view.
 */
export function repeating(
  kv: Deno.Kv,
  meanwhile: () => void | Promise<void> = () => {},
  isMeant: () => boolean = () => true,
): Deno.Kv {
  return withOperations(kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      if (!isMeant()) return await commit();
      await commit();
      await meanwhile();
      return await commit();
    };
  });
}

/**
 * Way in which a commit fails: before anything is written, after all is, or by being repeated, as with
 * {@linkcode repeating}.
 */
export type Fault = "before" | "after" | "repeated";

/** Time after which a commit is repeated, in milliseconds. */
const REPEATED_AFTER_MS = 300;

/** Makes a view of a KV whose next commit fails once it is armed. */
export function failingOnce(kv: Deno.Kv, fault: Fault): { kv: Deno.Kv; arm: () => void } {
  let armed = false;
  const failing = withOperations(kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      if (!armed) return await commit();
      armed = false;
      if (fault !== "before") await commit();
      if (fault !== "repeated") throw new Error("connection lost");
      await new Promise((resolve) => setTimeout(resolve, REPEATED_AFTER_MS));
      return await commit();
    };
  });
  return { kv: failing, arm: () => void (armed = true) };
}
