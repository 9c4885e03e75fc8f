import { UsageError } from "./_usage_error.ts";

/** The store that is meant. */
export interface MeantStore {
  readonly namespace: string;
  /** What the one who asks should know; undefined if all is as expected. */
  readonly note?: string;
}

/**
 * Finds the store that is meant: the named one, or the only one there is.
 *
 * @throws {UsageError} If there are several to choose from. The message names them.
 */
export async function findStore(kv: Deno.Kv, wanted: string | undefined): Promise<MeantStore> {
  const found = await findNamespaces(kv);
  const [first = "events"] = found;
  const others = found.length === 0 ? "" : `, only of ${found.join(", ")}`;
  if (wanted === undefined && found.length > 1) {
    throw new UsageError(
      `The KV holds several stores, choose one by --namespace: ${found.join(", ")}`,
    );
  }
  if (found.includes(wanted ?? first)) return { namespace: wanted ?? first };
  const whose = wanted === undefined ? "" : ` of ${wanted}`;
  return { namespace: wanted ?? first, note: `There are no events${whose} in this KV${others}` };
}

async function findNamespaces(kv: Deno.Kv): Promise<string[]> {
  const found: string[] = [];
  let start: Deno.KvKey = [""];
  for (;;) {
    // Strings sort before numbers, so this ends behind the last of them.
    const [entry] = await Array.fromAsync(kv.list({ start, end: [-Infinity] }, { limit: 1 }));
    if (!entry) return found;
    const namespace = String(entry.key[0]);
    if (await hasEvents(kv, namespace)) found.push(namespace);
    start = [`${namespace}\0`];
  }
}

async function hasEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  const events = kv.list({ prefix: [namespace, "event"] }, { limit: 1 });
  return (await Array.fromAsync(events)).length > 0;
}
