import { UsageError } from "./_options.ts";

/** Finds the one store in a KV. Several, or none, make an error that names them. */
export async function findNamespace(kv: Deno.Kv): Promise<string> {
  const found: string[] = [];
  let start: Deno.KvKey = [""];
  for (;;) {
    // Strings sort before numbers, so this ends behind the last of them.
    const [entry] = await Array.fromAsync(kv.list({ start, end: [-Infinity] }, { limit: 1 }));
    if (!entry) break;
    const namespace = String(entry.key[0]);
    if (await hasEvents(kv, namespace)) found.push(namespace);
    start = [`${namespace}\0`];
  }
  if (found.length === 1) return found[0]!;
  throw new UsageError(
    found.length === 0
      ? "There are no events in this KV"
      : `There are several stores in this KV: choose one by --namespace (${found.join(", ")})`,
  );
}

async function hasEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  const events = kv.list({ prefix: [namespace, "event"] }, { limit: 1 });
  return (await Array.fromAsync(events)).length > 0;
}
