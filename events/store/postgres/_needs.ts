import { encodeCellKey } from "../cell_key.ts";
import type { Change } from "../engine.ts";
import { idOf } from "../sql/change_making.ts";
import type { Needs } from "./_working_set.ts";

/** Findings of an earlier try. */
export interface Met {
  /** Groups that must be locked. */
  readonly groups: Set<string>;
  /** Payloads that are not there. */
  readonly lost: Set<string>;
}

/**
 * Finds what changes need.
 *
 * @param changes The changes.
 * @param met What an earlier try has met.
 * @returns The rows that are read before the changes are made.
 */
export function needsOf(changes: readonly Change[], met: Met): Needs {
  const needs: Needs = {
    ...{ ids: new Set(), groups: new Map(), cells: new Map(), payloads: new Set() },
  };
  for (const key of met.groups) needGroup(needs, key, {});
  // Those that leave groups which only their rows tell.
  let leaving = 0;
  for (const { puts = [], unchanged = [], moves = [], cells = [], leave } of changes) {
    for (const put of puts) {
      const { before, joins, body, keeps } = put;
      if (!("must" in before && before.must === "free")) needs.ids.add(idOf(before));
      if (joins !== undefined) needGroup(needs, joins, { places: put.places });
      if ("must" in before) {
        if (!body && keeps) needs.payloads.add(keeps.id);
      } else if (leave && before.record?.group) {
        needGroup(needs, before.record.group.key, { ...leave, leaving: 1 });
      } else if (!before.record) {
        leaving++;
      }
    }
    for (const { record } of unchanged) needs.ids.add(record.id);
    for (const { event, leavesGroup } of moves) {
      needs.ids.add(event.id);
      if (leavesGroup) leaving++;
    }
    for (const { key, version } of cells) {
      // Others are written over, whatever they are.
      if (version === undefined) continue;
      const bytes = encodeCellKey(key);
      needs.cells.set(bytes.toHex(), bytes);
    }
  }
  for (const group of needs.groups.values()) group.leaving += leaving;
  // Whatever else is among them, at most as many leave as there are events that are changed.
  for (const key of met.groups) needs.groups.get(key)!.leaving += needs.ids.size;
  return needs;
}

function needGroup(
  { groups }: Needs,
  key: string,
  { through = -Infinity, leaving = 0, places = 1 }: {
    readonly through?: number | undefined;
    readonly leaving?: number;
    readonly places?: number | undefined;
  },
): void {
  const group = groups.get(key) ?? { through: -Infinity, leaving: 0, places: 1 };
  group.places = Math.max(group.places, places);
  group.through = Math.max(group.through, through);
  group.leaving += leaving;
  groups.set(key, group);
}
