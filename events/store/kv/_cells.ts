import type { Cell, CellKey, Engine } from "../engine.ts";
import type { StoreParts } from "./_parts.ts";
import { type Entry, isGap, list, readAll } from "./_reads.ts";

/** Makes the reading of cells. The key of a cell is that of its value, behind the namespace. */
export function readingCells({ kv, keys }: StoreParts): Pick<Engine, "cells" | "list"> {
  return {
    async cells(wanted) {
      const entries = await readAll(kv, wanted.map(keys.cell));
      return entries.map((entry, i) => cellOf(wanted[i]!, entry));
    },

    async *list(begin, { from, before, isReverse = false, atOnce } = {}) {
      const selector = selectorOf(
        keys.cell(begin),
        from && keys.cell(from),
        before && keys.cell(before),
      );
      const options = { reverse: isReverse, ...(atOnce !== undefined && { batchSize: atOnce }) };
      for await (const entry of list(kv, selector, options)) {
        yield cellOf(isGap(entry) ? begin : entry.key.slice(1) as unknown as CellKey, entry);
      }
    },
  };
}

function selectorOf(
  prefix: Deno.KvKey,
  start: Deno.KvKey | undefined,
  end: Deno.KvKey | undefined,
): Deno.KvListSelector {
  if (start && end) return { start, end };
  if (start) return { prefix, start };
  return end ? { prefix, end } : { prefix };
}

function cellOf(key: CellKey, { value, versionstamp }: Entry): Cell {
  return { key, value: value instanceof Deno.KvU64 ? signed(value) : value, version: versionstamp };
}

/** Reads a sum. If more was taken from it than was in it, it has wrapped around. */
function signed({ value }: Deno.KvU64): number {
  return Number(BigInt.asIntN(64, value));
}
