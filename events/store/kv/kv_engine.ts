import type { Engine } from "../engine.ts";
import type { EventStoreOptions } from "../event_store.ts";
import { applying } from "./_apply_change.ts";
import { readingCells } from "./_cells.ts";
import { readingOf } from "./_engine_reads.ts";
import { GroupIntake } from "./_group_intake.ts";
import { openParts } from "./_open_parts.ts";
import type { StoreParts } from "./_parts.ts";

/** The engine of a Deno KV. */
export type KvEngine = Engine<Deno.AtomicOperation, Deno.Kv>;

/** Options of {@linkcode openKvEngine}. */
export type KvEngineOptions = Omit<EventStoreOptions, "keepPayloads">;

/**
 * Opens the engine of a Deno KV.
 *
 * @param kv The KV. The engine does not close it.
 * @param options The namespace, the notifier, the retention and the log.
 * @returns The engine.
 * @throws {TypeError} If the KV does not have the wanted notifier.
 */
export async function openKvEngine(
  kv: Deno.Kv,
  options: KvEngineOptions = {},
): Promise<KvEngine> {
  const parts = await openParts(kv, options);
  return kvEngineOf(parts, new GroupIntake(parts));
}

/** Makes the engine of the parts of a store. */
export function kvEngineOf(parts: StoreParts, joins: GroupIntake): KvEngine {
  return {
    ...readingOf(parts),
    ...readingCells(parts),
    ...applying(parts, joins),
    close: () => Promise.resolve(),
  };
}
