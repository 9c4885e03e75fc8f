import { checkInteger, checkKeys, checkObject, numberFrom } from "../../core/check_options.ts";
import type { KeepPayloads } from "./event_store.ts";

/** The time for which done events are remembered by default, in milliseconds: 7 days. */
export const DEFAULT_RETENTION_MS = 604_800_000;

/**
 * Checks the limits of the payloads that are kept.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param limits The limits.
 * @param retentionMs The retention. It is the longest time, since a payload without a record is of no use.
 * @throws {TypeError} If the limits are not an object, or there is another name among them.
 * @throws {RangeError} If a limit is out of range.
 */
export function checkKeepPayloads(
  doing: string,
  limits: KeepPayloads,
  retentionMs = DEFAULT_RETENTION_MS,
): void {
  checkObject(doing, limits, "'keepPayloads'");
  checkKeys(`${doing}, in 'keepPayloads'`, limits, ["forMs", "maxBytes"]);
  const { forMs, maxBytes } = limits;
  numberFrom(1, retentionMs, ", the retention")(doing, "keepPayloads.forMs", forMs);
  checkInteger(doing, "keepPayloads.maxBytes", maxBytes, { max: Number.MAX_SAFE_INTEGER });
}
