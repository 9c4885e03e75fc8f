import { readingOf } from "../../../../events/store/kv/_engine_reads.ts";
import { openParts } from "../../../../events/store/kv/_open_parts.ts";

/** Opens the reading side of an engine on a KV, and its parts. */
export async function reading(kv: Deno.Kv, namespace = "events") {
  const parts = await openParts(kv, { namespace, notifier: "watch", log: () => {} });
  return { engine: readingOf(parts), parts };
}
