import { openParts } from "../../../../events/store/kv/_parts.ts";
import { engineOf } from "../../../../events/store/kv/kv_engine.ts";

/** Opens an engine on a KV, and its parts. */
export async function reading(kv: Deno.Kv, namespace = "events") {
  const parts = await openParts(kv, { namespace, notifier: "watch", log: () => {} });
  return { engine: engineOf(parts), parts };
}
