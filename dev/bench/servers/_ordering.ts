import type { GroupBy } from "../../../mod.ts";

/**
 * Spreads deliveries over a number of ordering keys, by the number at the end of their ids.
 *
 * @param keys How many; 0 for no ordering.
 */
export function orderByNumber(keys: number): GroupBy | undefined {
  if (keys === 0) return undefined;
  return ({ deliveryId }) => String(Number(/\d+$/.exec(deliveryId ?? "")?.[0] ?? 0) % keys);
}
