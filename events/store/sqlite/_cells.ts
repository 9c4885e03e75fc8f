import type { Cell, CellKey, Engine } from "../engine.ts";
import { behindAll, decodeCellKey, encodeCellKey } from "../cell_key.ts";
import type { Connection } from "./_connection.ts";

/** A row with a cell. Sums have a total, and all others a value. */
interface CellRow {
  readonly key: Uint8Array;
  readonly value: string | null;
  readonly total: number | null;
  readonly version: string;
}

/** The number of cells read at a time. */
const PAGE = 200;

const COLUMNS = "key, value, total, version";

/** Makes the methods that read cells. */
export function readingCells(
  db: Connection,
  now: () => number,
): Pick<Engine, "cells" | "list"> {
  return {
    // deno-lint-ignore require-await
    cells: async (keys) => keys.map((key) => readCell(db, key, now())),
    list: (begin, options) => listCells(db, now, begin, options),
  };
}

/** Reads a cell. */
export function readCell(db: Connection, key: CellKey, now: number): Cell {
  const sql = `select ${COLUMNS} from cell where key = ? and (forget_at is null or forget_at > ?)`;
  const row = db.one<CellRow>(sql, encodeCellKey(key), now);
  return row ? { key, value: valueOf(row), version: row.version } : {
    ...{ key, value: null, version: null },
  };
}

async function* listCells(
  db: Connection,
  now: () => number,
  begin: CellKey,
  options: Parameters<Engine["list"]>[1] = {},
): AsyncGenerator<Cell> {
  const { from, before, isReverse = false, atOnce = PAGE } = options;
  let low = encodeCellKey(from ?? begin);
  let high = before ? encodeCellKey(before) : behindAll(begin);
  const sql =
    `select ${COLUMNS} from cell where key >= ? and key < ? and (forget_at is null or forget_at > ?)
    order by key ${isReverse ? "desc" : "asc"} limit ?`;
  while (true) {
    const rows = db.all<CellRow>(sql, low, high, now(), atOnce);
    for (const row of rows) {
      yield { key: decodeCellKey(row.key), value: valueOf(row), version: row.version };
    }
    if (rows.length < atOnce) return;
    const { key: last } = rows.at(-1)!;
    if (isReverse) high = new Uint8Array(last);
    else low = new Uint8Array([...last, 0]);
  }
}

/** Returns the value of a cell; undefined if it cannot be read. */
function valueOf({ value, total }: CellRow): unknown {
  if (value === null) return total;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}
