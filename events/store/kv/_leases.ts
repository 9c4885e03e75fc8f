import type { EventRecord } from "../event_record.ts";
import { deathOf, type Emission } from "../emission.ts";
import type { EventStore, Lease, NoteOptions } from "../event_store.ts";
import { isSameLease, renewed } from "../claims.ts";
import { inBrief, isCancelRequested, progressed } from "../record_notes.ts";
import { buried, completed, released, retried, settledWith } from "../settlement.ts";
import { applyChange, buryAhead, type ChangeOptions, isChanged, leaseOf } from "./_apply.ts";
import { inTurn } from "./_emit.ts";
import { readRecord } from "./_layout.ts";

import type { StoreParts } from "./_parts.ts";
import { loadPayload } from "./_payload.ts";
import { membersOf } from "../_batches.ts";
import { park, takeWake, wakeChange } from "../_waits.ts";
import type { StoreCore } from "../_core.ts";
import { encodeValue } from "../value_codec.ts";
import type { Wake } from "../waits.ts";
import { deferEntry } from "./_schedule.ts";
import { hasTooManyChecks, isTooMuch, untilDone } from "./_write.ts";

/** The time after which a lease that has waited for its turn was probably renewed meanwhile. */
const OLD_MS = 1_000;

/** The operations of a worker on an event that it has leased. */
type LeaseOperations = Pick<
  EventStore<Deno.AtomicOperation>,
  | "load"
  | "members"
  | "renew"
  | "checkpoint"
  | "recover"
  | "complete"
  | "retry"
  | "release"
  | "bury"
  | "takeWake"
  | "park"
>;

/** Makes the operations on leased events of a store: each applies one transition. */
export function leaseOperations(parts: StoreParts, core: StoreCore): LeaseOperations {
  const { kv, keys } = parts;

  async function recover({ record: held }: Lease): Promise<Lease | null> {
    const known = await readRecord(kv, keys.event(held));
    return isSameLease(held, known.record) ? leaseOf(known) : null;
  }

  /** Makes a change that may have waited for its turn: meanwhile the lease may have been renewed. */
  async function recovering(
    lease: Lease,
    change: (lease: Lease, hasTurn: boolean) => Promise<Lease | null>,
    hasTurn: boolean,
    waitedMs = 0,
    signal?: AbortSignal,
  ): Promise<Lease | null> {
    // A try with an old version takes others the time of four answers.
    const isOld = waitedMs > OLD_MS;
    const changed = isOld ? null : await change(lease, hasTurn);
    if (changed || !hasTurn) return changed;
    const renewed = await recover(lease);
    return renewed && !signal?.aborted && isOnlyRenewed(lease.record, renewed.record)
      ? await change(renewed, true)
      : null;
  }

  /** Makes a change with emitted events, in its turn if it needs one. */
  function emitting(
    lease: Lease,
    change: (lease: Lease, hasTurn: boolean) => Promise<Lease | null>,
    options: NoteOptions,
  ): Promise<Lease | null> {
    if (!options.emits) return change(lease, false);
    return inTurn(
      parts,
      lease.record,
      options,
      (hasTurn, waitedMs) => recovering(lease, change, hasTurn, waitedMs, options.signal),
    );
  }

  function settle(lease: Lease, after: EventRecord, options?: ChangeOptions) {
    return fitting(after, (after) => applyChange(parts, lease, after, options));
  }

  return {
    takeWake: (lease, name) => takeWake(core, lease, name),
    park: (lease, wait) => park(core, lease, wait),
    members: ({ record }) => membersOf(core.engine, record),

    async load({ record }) {
      const { payload, id, state } = record;
      if (!payload && state === "done") return await parts.kept.load(record);
      if (!payload) throw new Error(`Cannot load event ${id}: it has no payload`);
      return await loadPayload(parts, payload, record);
    },

    renew(lease, leaseMs) {
      return applyChange(parts, lease, renewed(lease.record, leaseMs, Date.now()));
    },

    async checkpoint(lease, part, effects, { emits, wakes, cells, signal } = {}) {
      const note = (lease: Lease, hasTurn: boolean) => {
        const after = progressed(lease.record, part);
        return applyWaking(parts, core, lease, after, { effects, cells, emits, hasTurn }, wakes);
      };
      return await emitting(lease, note, { emits, wakes, signal });
    },

    recover,

    async complete(lease, options = {}) {
      const { effects, cells, emits, wakes, withinMs, outcome } = options;
      const end = (lease: Lease, hasTurn: boolean) => {
        const after = completed(lease.record, Date.now(), outcome);
        // A cancelled event has no effects, emits nothing and wakes nobody.
        if (after.state !== "done") return settle(lease, after);
        if (!effects && !cells && !emits && !wakes) return settle(lease, after, { withinMs });
        // Others wait for their turn, so this waits for nobody.
        const change = { effects, cells, emits, hasTurn, withinMs: hasTurn ? 0 : withinMs };
        return applyWaking(parts, core, lease, after, change, wakes);
      };
      return await emitting(lease, end, { emits, wakes }) !== null;
    },

    async retry(lease, delayMs, error, { reason } = {}) {
      return await settle(lease, retried(lease.record, delayMs, error, Date.now(), reason)) !==
        null;
    },

    async release(lease, options = {}) {
      return await settle(lease, released(lease.record, options, Date.now())) !== null;
    },

    async bury(lease, error, { reports = false } = {}) {
      const dead = buried(lease.record, error, Date.now());
      const isReported = reports && dead.outcome === "failed";
      return await fitting(dead, async (after, isBrief) => {
        if (!isReported) return await applyChange(parts, lease, after) !== null;
        const reportsOf = (dead: readonly EventRecord[]) => deathsOf(dead, isBrief);
        if (!await buryAhead(parts, lease, after, reportsOf)) return false;
        const members = lease.record.batch ? await membersOf(core.engine, lease.record) : [];
        const emits = reportsOf([after, ...members.map((member) => settledWith(member, after))]);
        return await applyChange(parts, lease, after, { emits }) !== null;
      });
    },
  };
}

/**
 * Makes a change that a KV must take, or its event would be handled for ever: if it is too large, with the
 * shortest form of the record.
 */
async function fitting<T>(
  after: EventRecord,
  change: (after: EventRecord, isBrief: boolean) => Promise<T>,
): Promise<T> {
  try {
    return await change(after, false);
  } catch (error) {
    if (!isTooMuch(error) || hasTooManyChecks(error)) throw error;
    return await change(inBrief(after), true);
  }
}

/** Makes the reports of deaths; undefined if none is reported. */
function deathsOf(
  dead: readonly EventRecord[],
  isBrief: boolean,
): readonly Emission[] | undefined {
  const deaths = dead.flatMap((record) => deathOf(record, isBrief) ?? []);
  return deaths.length > 0 ? deaths : undefined;
}

/** Checks that a record was neither cancelled meanwhile nor changed by an earlier try of the same change. */
function isOnlyRenewed({ progress = [], emitted = 0 }: EventRecord, now: EventRecord): boolean {
  const isSame = (now.progress ?? []).length === progress.length && (now.emitted ?? 0) === emitted;
  return isSame && !isCancelRequested(now);
}

/** Applies a change of an event, and wakes names in the same commit, if there are any. */
function applyWaking(
  parts: StoreParts,
  core: StoreCore,
  lease: Lease,
  after: EventRecord,
  options: ChangeOptions,
  wakes: readonly Wake[] | undefined,
): Promise<Lease | null> {
  if (!wakes) return applyChange(parts, lease, after, options);
  const { keys, local } = parts;
  return untilDone(async () => {
    const { cells, moves, announce } = await wakeChange(core, wakes);
    const checks = cells.map(({ key, version }) => ({
      key: keys.cell(key),
      versionstamp: version!,
    }));
    const made = await applyChange(parts, lease, after, {
      ...options,
      checks,
      add: (write) => {
        for (const { key, after, forMs } of cells) {
          if (after === undefined) continue;
          const expiring = forMs === undefined ? {} : { expireIn: forMs };
          write.set(keys.cell(key), encodeValue(after), expiring);
        }
        for (const { event } of moves) deferEntry(write, keys, event, 0);
        write.notifies ||= announce;
      },
      onCommit: () => local.listener?.wake(),
    });
    return made ?? (await isChanged(parts, lease) ? null : undefined);
  });
}
