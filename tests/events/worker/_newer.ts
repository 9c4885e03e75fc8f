/** Handlers that hear of newer events, for tests. */
import type { Delivery, EventHandler, HandlerContext, WebhookEvent } from "../../../events/mod.ts";
import type { LogRecord } from "../../../core/mod.ts";
import { delivery } from "../store/_events.ts";
import { type OpenedStore, reach, withWorker } from "./_worker.ts";

/** A delivery of one chat that interrupts, and may be interrupted. */
export function urgent(id: string, more: Partial<Delivery> = {}): Delivery {
  const text = JSON.stringify({ text: id });
  return {
    ...{ ...delivery(id, text, "chat"), payload: JSON.parse(text) },
    ...{ newer: "interrupt", interrupt: { steps: "drop" }, ...more },
  };
}

/** The ids of the events that a run of a handler has got. */
export const idsOf = ({ batch }: WebhookEvent): string[] => batch.map(({ id }) => id);

/** Waits until the signal of a handler is aborted, and throws the reason. */
export async function aborted({ signal }: Pick<HandlerContext, "signal">): Promise<never> {
  if (!signal.aborted) {
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  }
  throw signal.reason;
}

/** What a test has seen. */
export interface Heard {
  /** The ids of the events of each run. */
  readonly runs: string[][];
  readonly logs: LogRecord[];
}

/**
 * Handles the first event until all that are named are done.
 *
 * @param ids Ids of the events, of which the first one is taken in before.
 * @param handle Handles a run, which has its number, from 1. It may take in others.
 */
export async function hearing(
  { store, place }: OpenedStore,
  ids: readonly string[],
  handle: (run: number, event: WebhookEvent, context: HandlerContext) => unknown,
  more?: Partial<Delivery>,
): Promise<Heard> {
  const heard: Heard = { runs: [], logs: [] };
  const handler: EventHandler = async (event, context) => {
    await handle(heard.runs.push(idsOf(event)), event, context);
  };
  await store.accept(urgent(ids[0]!, more));
  const log = (record: LogRecord) => void heard.logs.push(record);
  await withWorker({ store, place }, handler, { log, retry: { minDelayMs: 10 } }, async () => {
    for (const id of ids) await reach(store, id, "done");
  });
  return heard;
}
