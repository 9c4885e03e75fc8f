import type { Engine } from "../engine.ts";
import { applying } from "./_apply_change.ts";
import { readingCells } from "./_cells.ts";
import { readingOf } from "./_engine_reads.ts";
import { GroupIntake } from "./_group_intake.ts";
import { type EngineOptions, openParts } from "./_open_parts.ts";

/** The engine of a Deno KV. */
export type KvEngine = Engine<Deno.AtomicOperation, Deno.Kv>;

/**
 * Opens the engine of a Deno KV.
 *
 * @param kv The KV. The engine does not close it.
 * @param options The namespace, the notifier, the payloads that are kept and the log.
 * @returns The engine.
 * @throws {TypeError} If the KV does not have the wanted notifier.
 */
export async function openKvEngine(
  kv: Deno.Kv,
  options: EngineOptions = {},
): Promise<KvEngine> {
  const parts = await openParts(kv, options);
  const joins = new GroupIntake(parts);
  return {
    ...readingOf(parts),
    ...readingCells(parts),
    ...applying(parts, joins),
  };
}
