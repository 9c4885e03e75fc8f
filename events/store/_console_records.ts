import type {
  ConsoleRecord,
  ConsoleRecordKey,
  ConsoleRecordKind,
  ConsoleRecords,
  NewConsoleRecord,
} from "./console_records.ts";
import type { CellChange, CellKey, Engine } from "./engine.ts";
import { isUnnamed, type StoreCore } from "./store_core.ts";

/** The number of records read at a time. */
const AT_ONCE = 500;

/** Kind of the cells of all records. */
const CONSOLE = "console";

/** Makes the console's records of a store. */
export function consoleRecords({ engine }: StoreCore): ConsoleRecords {
  return {
    async read(key) {
      const [record] = await engine.cells([keyOf(key)]);
      return record!.value ?? undefined;
    },

    between(kind, from, before) {
      return listed(engine, kind, {
        from: [CONSOLE, kind, from],
        before: [CONSOLE, kind, before],
        atOnce: AT_ONCE,
      });
    },

    async *last(kind, limit, before) {
      const options = {
        before: before && keyOf(before),
        isReverse: true,
        atOnce: Math.min(limit, AT_ONCE),
      };
      let left = limit;
      for await (const record of listed(engine, kind, options)) {
        if (left-- <= 0) return;
        yield record;
      }
    },

    async create(record) {
      const cells = [{ ...cellOf(record), version: null }];
      return (await engine.apply({ cells, urgency: "work" })).ok;
    },

    async write(records) {
      await engine.apply({ cells: records.map(cellOf), urgency: "work" });
    },

    async delete(key) {
      await engine.apply({ cells: [{ key: keyOf(key), after: null }], urgency: "work" });
    },
  };
}

async function* listed(
  engine: Engine,
  kind: ConsoleRecordKind,
  options: Parameters<Engine["list"]>[1],
): AsyncGenerator<ConsoleRecord> {
  const begin: CellKey = [CONSOLE, kind];
  for await (const record of engine.list(begin, options)) {
    const [number, id] = record.key.slice(-2);
    if (isUnnamed(record, begin)) continue;
    yield { kind, number: Number(number), id: String(id), value: record.value };
  }
}

function cellOf({ value, forMs, ...place }: NewConsoleRecord): CellChange {
  return { key: keyOf(place), after: value, forMs };
}

function keyOf({ kind, number, id }: ConsoleRecordKey): CellKey {
  return [CONSOLE, kind, number, id];
}
