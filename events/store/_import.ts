import { untilDone } from "../../core/tries.ts";
import { arrive } from "./_acceptance.ts";
import type { Sources } from "./_emit.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import { arriving } from "./_waits.ts";
import { imported } from "./arrival.ts";
import { TooLargeError } from "./engine.ts";
import type { EventOperations, RestoreOutcome } from "./event_operations.ts";
import type { PayloadRef } from "./event_record.ts";
import { newPayloadRef } from "./payload.ts";
import { checkedEvent, type PortableEvent, type PortableRecord } from "./portable_event.ts";
import type { StoreCore } from "./store_core.ts";

/**
 * Makes the operation that stores an event which comes from another store, in one change: its record, payload and id,
 * and what leads to it by its state. An event whose id is known is left as it is.
 *
 * @param core The store.
 * @param kept The payloads that it keeps.
 * @param sources The sources of its events.
 * @returns The operation.
 */
export function restoring(
  core: StoreCore,
  kept: KeptPayloads,
  sources: Sources,
): EventOperations["restore"] {
  const { engine, retentionMs } = core;

  /** Tries once; undefined if something on which the change depends has changed meanwhile. */
  async function tryToRestore(
    { record: before, body }: PortableEvent,
    payload: PayloadRef | null,
  ): Promise<RestoreOutcome | undefined> {
    const isDone = before.state === "done";
    const here = imported(before, isDone ? null : payload, engine.now());
    const { record, cells = [] } = here.state === "parked" && here.waitingFor
      ? await arriving(core, here)
      : { record: here };
    const { id, intake, platform, orderingKey } = record;
    const keeping = isDone && payload ? kept.restore(record, payload) : undefined;
    const notes = sources.noteOf(intake, platform);
    const event = {
      before: { id, must: "absent" },
      record,
      orderingKey: before.group !== null && record.settledAt === null ? orderingKey : null,
      body: payload && fitsChange(payload) ? body! : undefined,
      keeps: keeping && payload!,
    } as const;
    const beside = {
      cells: [...cells, ...keeping?.cells ?? [], ...notes ?? []],
      sums: keeping?.sums,
      urgency: "work",
    } as const;
    const applied = await arrive(core, event, beside);
    if (!applied.ok) return applied.why === "id" ? "known" : undefined;
    sources.noted([intake]);
    return "restored";
  }

  function fitsChange({ size }: PayloadRef): boolean {
    return size <= engine.limits.bodyBytes;
  }

  async function restore(event: PortableEvent): Promise<RestoreOutcome> {
    const { record, body } = event;
    const payload = body && newPayloadRef(engine, body);
    if (!payload || fitsChange(payload)) return await untilDone(() => tryToRestore(event, payload));
    if ((await engine.get([record.id]))[0] !== null) return "known";
    await engine.upload(payload, body);
    const outcome = await untilDone(() => tryToRestore(event, payload));
    if (outcome === "known") await engine.apply({ drops: [payload], urgency: "work" });
    return outcome;
  }

  return async (given) => {
    const event = checkedEvent(given);
    if (isForgotten(event.record, engine.now(), retentionMs)) return "expired";
    try {
      return await restore(event);
    } catch (error) {
      if (!(error instanceof TooLargeError)) throw error;
      const message = `Cannot restore the event: it is too large for the store: ${error.message}`;
      throw new RangeError(message, { cause: error });
    }
  };
}

/** Checks whether an event has been done for longer than a store remembers that. */
function isForgotten(
  { state, settledAt }: PortableRecord,
  now: number,
  retentionMs: number,
): boolean {
  return state === "done" && settledAt! + retentionMs <= now;
}
