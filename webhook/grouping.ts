import { checkKeys, checkString, isPromise, metSync, numberFrom } from "../core/check_options.ts";
import type { Delivery } from "../events/store/mod.ts";

/**
 * Group that a delivery belongs to, with the time for which it waits for others.
 *
 * @category Platforms
 */
export interface DeliveryGroup {
  /** Key of the group: events with the same one are handled one at a time and in the order received. */
  readonly key: string;
  /**
   * Time without a new event of the group, in milliseconds, after which one call of the handler gets all that
   * wait: the latest one, with all of them as {@linkcode WebhookEvent.batch}. From 0 to 86,400,000, a day. With 0
   * nothing waits for others, but events that came meanwhile are handled together.
   *
   * Events of another type or action have other handlers, and are not handled together. A call gets up
   * to 100 events, and up to 8 MB of payloads.
   *
   * @default {undefined} Each event is handled by itself.
   */
  readonly quietMs?: number | undefined;
  /**
   * Longest time for which the first event waits, in milliseconds: from `quietMs` to 604,800,000, a week.
   *
   * @default {10 * quietMs}
   */
  readonly maxWaitMs?: number | undefined;
}

/**
 * Returns the group of a delivery, or its key. Deliveries of one group are handled one at a time and in the
 * order received, or together; those without a group as they come.
 *
 * @category Platforms
 */
export type GroupBy = (delivery: Delivery) => string | DeliveryGroup | undefined;

const DOING = "group the delivery";

/** Longest time to wait until it is quiet: a day. */
const MAX_QUIET_MS = 86_400_000;

/** Longest time to wait for that: a week, for which done events are remembered. */
const MAX_WAIT_MS = 604_800_000;

/**
 * Puts a delivery into its group.
 *
 * @param delivery The delivery.
 * @param groupBy The function that chooses the group.
 * @returns The delivery with the key of its group, and the times for which it waits.
 * @throws {TypeError} If the function returns something else.
 * @throws {RangeError} If a time is out of range.
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
  checkKeys(DOING, group, ["key", "quietMs", "maxWaitMs"]);
  const { key, quietMs, maxWaitMs } = group as { readonly [name: string]: unknown };
  checkString(DOING, "key", key);
  const orderingKey = key as string;
  if (quietMs === undefined && maxWaitMs === undefined) return { ...delivery, orderingKey };
  numberFrom(0, MAX_QUIET_MS)(DOING, "quietMs", quietMs);
  if (maxWaitMs !== undefined) {
    numberFrom(quietMs as number, MAX_WAIT_MS)(DOING, "maxWaitMs", maxWaitMs);
  }
  return {
    ...delivery,
    orderingKey,
    quietMs: quietMs as number,
    maxWaitMs: maxWaitMs as number | undefined,
  };
}
