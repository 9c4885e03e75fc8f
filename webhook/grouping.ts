import { checkKeys, checkString, isPromise, metSync } from "../core/check_options.ts";
import { groupRule } from "../events/store/batch_options.ts";
import type { BatchOptions, Delivery, NewerOptions, PlacesOptions } from "../events/store/mod.ts";

/**
 * Group that a delivery belongs to, with the time for which it waits for others, the rule for newer ones that come
 * while its handler runs, and the number that are handled at a time.
 *
 * @category Platforms
 */
export type DeliveryGroup = BatchOptions & NewerOptions & PlacesOptions & {
  /** Key of the group: events with the same one are handled in the order received, one at a time or as `places` says. */
  readonly key: string;
};

/**
 * Returns the group of a delivery, or its key. Deliveries of one group are handled in the order received, one
 * at a time, several, or together; those without a group as they come.
 *
 * @category Platforms
 */
export type GroupBy = (delivery: Delivery) => string | DeliveryGroup | undefined;

const DOING = "group the delivery";

const MEMBERS = [
  ...["key", "quietMs", "maxWaitMs", "together", "newer", "interrupt", "maxInterrupts", "places"],
] as const;

/**
 * Puts a delivery into its group.
 *
 * @param delivery The delivery.
 * @param groupBy The function that chooses the group.
 * @returns The delivery with the key of its group, and the times for which it waits.
 * @throws {TypeError} If the function returns something else.
 * @throws {RangeError} If a time is out of range, or one is missing.
 */
export function grouped(delivery: Delivery, groupBy: GroupBy): Delivery {
  const group: unknown = groupBy(delivery);
  if (group === undefined) return delivery;
  if (typeof group === "string") return { ...delivery, orderingKey: group };
  if (typeof group !== "object" || group === null || Array.isArray(group) || isPromise(group)) {
    throw new TypeError(
      `groupBy must return a key, a group with a 'key', or undefined, got ${metSync(group)}`,
    );
  }
  checkKeys(DOING, group, MEMBERS);
  const { key, ...rule } = group as DeliveryGroup;
  checkString(DOING, "key", key);
  return { ...delivery, orderingKey: key, ...groupRule(DOING, rule) };
}
