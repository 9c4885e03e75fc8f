import { behindAll, decodeCellKey, encodeCellKey } from "../cell_key.ts";
import type { Bytes, Cell, CellKey, Engine } from "../engine.ts";
import { bytesArray } from "./_arrays.ts";
import type { Session } from "./_connections.ts";

/** A row with a cell. Sums have a total, and all others a value. */
interface CellRow {
  readonly key: Bytes;
  readonly value: Bytes | null;
  readonly total: number | null;
  readonly version: string;
}

/** The number of cells read at a time. */
const PAGE = 200;

const COLUMNS = "key, value, total, version";

/** Makes the methods that read cells. */
export function readingCells(db: Session, now: () => number): Pick<Engine, "cells" | "list"> {
  return {
    cells: (keys) => readCells(db, keys, now()),
    list: (begin, options) => listCells(db, now, begin, options),
  };
}

async function readCells(db: Session, keys: readonly CellKey[], now: number): Promise<Cell[]> {
  if (keys.length === 0) return [];
  const encoded = keys.map(encodeCellKey);
  const rows = await db.all<CellRow>(
    `select ${COLUMNS} from @cell where key = any($1::bytea[]) and (forget_at is null or forget_at > $2::float8)`,
    ...[bytesArray(encoded), now],
  );
  const found = new Map(rows.map((row) => [row.key.toHex(), row]));
  return keys.map((key, i) => {
    const row = found.get(encoded[i]!.toHex());
    return row ? { key, value: valueOf(row), version: row.version } : {
      ...{ key, value: null, version: null },
    };
  });
}

async function* listCells(
  db: Session,
  now: () => number,
  begin: CellKey,
  options: Parameters<Engine["list"]>[1] = {},
): AsyncGenerator<Cell> {
  const { from, before, isReverse = false, atOnce = PAGE } = options;
  let low = encodeCellKey(from ?? begin);
  let high = before ? encodeCellKey(before) : behindAll(begin);
  const sql =
    `select ${COLUMNS} from @cell where key >= $1 and key < $2 and (forget_at is null or forget_at > $3::float8)
    order by key ${isReverse ? "desc" : "asc"} limit $4`;
  while (true) {
    const rows = await db.all<CellRow>(sql, low, high, now(), atOnce);
    for (const row of rows) {
      yield { key: decodeCellKey(row.key), value: valueOf(row), version: row.version };
    }
    if (rows.length < atOnce) return;
    const { key: last } = rows.at(-1)!;
    if (isReverse) high = new Uint8Array(last);
    else low = new Uint8Array([...last, 0]);
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Returns the value of a cell; undefined if it cannot be read. */
function valueOf({ value, total }: CellRow): unknown {
  if (value === null) return total;
  try {
    return JSON.parse(decoder.decode(value));
  } catch {
    return undefined;
  }
}
