import type { Cell, CellKey } from "./engine.ts";
import { UNNAMED } from "./store_check.ts";

/** Checks for the cell of a list that stands for one whose key cannot be read. */
export function isUnnamed({ key }: Cell, begin: CellKey): boolean {
  return key.length === begin.length;
}

/** Names a cell of a list by the last part of its key. */
export function nameOfCell(cell: Cell, begin: CellKey): string {
  return isUnnamed(cell, begin) ? UNNAMED : String(cell.key.at(-1));
}
