import type { LogRecord } from "../../../../core/mod.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import type { Delivery } from "../../../../events/mod.ts";

/** Opens a store in a file, and notes what it logs. */
export async function openIn(path: string) {
  const lines: LogRecord[] = [];
  const file = await openSqliteFile(path, { log: (record) => void lines.push(record) });
  const engine = openSqliteEngine(file);
  const store = createEventStore(engine);
  const size = (end = "") => Deno.statSync(`${path}${end}`).size;
  return { file, engine, store, lines, size, [Symbol.asyncDispose]: () => file.close() };
}

/** A delivery with a payload of a size. */
export function sized(deliveryId: string, bytes: number): Delivery {
  const body = new Uint8Array(bytes).fill(1);
  return {
    ...{ platform: "forge", source: "github", type: "push", payload: {} },
    deliveryId,
    body,
  };
}

/** Reads how often a log was begun anew: https://sqlite.org/fileformat2.html#the_write_ahead_log. */
export function timesBegun(path: string): number {
  using wal = Deno.openSync(`${path}-wal`);
  const header = new Uint8Array(32);
  wal.readSync(header);
  return new DataView(header.buffer).getUint32(12);
}
