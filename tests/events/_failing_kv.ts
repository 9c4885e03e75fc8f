/** Where a commit fails: before anything is written, or after all is. */
export type Fault = "before" | "after";

/** A KV whose next commit fails once it is armed. */
export function failingOnce(kv: Deno.Kv, fault: Fault): { kv: Deno.Kv; arm: () => void } {
  let armed = false;
  const atomic = () => {
    const operation = kv.atomic();
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      if (!armed) return await commit();
      armed = false;
      if (fault === "after") await commit();
      throw new Error("connection lost");
    };
    return operation;
  };
  const get = (_: Deno.Kv, name: keyof Deno.Kv) => name === "atomic" ? atomic : kv[name].bind(kv);
  return { kv: new Proxy(kv, { get } as ProxyHandler<Deno.Kv>), arm: () => void (armed = true) };
}
