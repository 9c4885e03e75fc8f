import type { EventStore, Lease } from "../event_store.ts";
import { buried, completed, progressed, released, renewed, retried } from "../transitions.ts";
import { applyChange } from "./_apply.ts";
import type { StoreParts } from "./_parts.ts";
import { readPayload } from "./_payload.ts";
import { readRecord } from "./_records.ts";

/** The operations of a worker on an event that it has leased. */
type LeaseOperations = Pick<
  EventStore,
  "load" | "renew" | "checkpoint" | "recover" | "complete" | "retry" | "release" | "bury"
>;

/** Makes the operations on leased events of a store. */
export function leaseOperations(parts: StoreParts): LeaseOperations {
  const { kv, keys } = parts;
  return {
    async load({ record }) {
      const { payload, id } = record;
      if (!payload) throw new Error(`Cannot load event ${id}: it has no payload`);
      if (payload.chunks > 0) return await readPayload(kv, keys, payload);
      const now = await readRecord(kv, keys.event(record));
      if (now.body) return now.body;
      if (now.record?.payload?.chunks) return await readPayload(kv, keys, now.record.payload);
      throw new Error(`Cannot read the payload: the record of event ${id} does not hold it`);
    },

    renew(lease, leaseMs) {
      return applyChange(parts, lease, renewed(lease.record, leaseMs, Date.now()));
    },

    async checkpoint(lease, part, effects) {
      return await applyChange(parts, lease, progressed(lease.record, part), { effects });
    },

    async recover({ record: held }) {
      const { record, versionstamp, body } = await readRecord(kv, keys.event(held));
      const isSame = record?.state === "running" && record.run === held.run &&
        record.attempt === held.attempt && record.lease?.owner === held.lease?.owner &&
        record.lease?.startedAt === held.lease?.startedAt &&
        // An event that was purged and sent again within a millisecond has the same key.
        record.payload?.id === held.payload?.id;
      return isSame ? { record, versionstamp: versionstamp!, body } : null;
    },

    async complete(lease, options = {}) {
      const { effects, withinMs } = typeof options === "function" ? { effects: options } : options;
      const after = completed(lease.record, Date.now());
      // A cancelled event has no effects.
      const added = after.state === "done" ? effects : undefined;
      return await applyChange(parts, lease, after, { effects: added, withinMs }) !== null;
    },

    retry(lease, delayMs, error) {
      return settle(parts, lease, retried(lease.record, delayMs, error, Date.now()));
    },

    release(lease, delayMs = 0) {
      return settle(parts, lease, released(lease.record, delayMs, Date.now()));
    },

    bury(lease, error) {
      return settle(parts, lease, buried(lease.record, error, Date.now()));
    },
  };
}

async function settle(
  parts: StoreParts,
  lease: Lease,
  after: Lease["record"],
): Promise<boolean> {
  return await applyChange(parts, lease, after) !== null;
}
