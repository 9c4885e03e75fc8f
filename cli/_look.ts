import type { EventRecord, EventStore, StoredEvent } from "../events/mod.ts";
import type { CliOptions } from "./_options.ts";
import { lastOf } from "./_last_of.ts";
import { agoOf, lineOf, readableJsonOf, STATE_WIDTH } from "./_output.ts";
import { ProgressLine } from "./_progress.ts";
import type { CliWorld } from "./_world.ts";

/** Writes a line for each event. */
export async function list(
  store: EventStore,
  { filter, limit, json }: CliOptions,
  { out }: CliWorld,
): Promise<boolean> {
  const events = store.list(filter);
  const write = (event: StoredEvent) => out(json ? JSON.stringify(event) : lineOf(event));
  if (limit === Infinity) { for await (const event of events) write(event); }
  else for (const event of await lastOf(events, limit)) write(event);
  return true;
}

/** Writes events with their payloads. */
export async function show(
  store: EventStore,
  { filter, json }: CliOptions,
  { out, err }: CliWorld,
): Promise<boolean> {
  const missing = new Set(filter.ids);
  let isWhole = true;
  for await (const event of store.list(filter)) {
    missing.delete(event.id);
    const payload = event.state === "unreadable" ? {} : await payloadOf(store, event);
    if ("payloadError" in payload) isWhole = false;
    out(json ? JSON.stringify({ ...event, ...payload }) : readableJsonOf(event, payload));
  }
  for (const id of missing) err(`There is no event ${id}`);
  return isWhole && missing.size === 0;
}

/** Writes how many events there are of each state. */
export async function stats(
  store: EventStore,
  { filter, json }: CliOptions,
  { out, terminal, now }: CliWorld,
): Promise<boolean> {
  const line = new ProgressLine(terminal, "");
  const result = await store.stats(filter, { onProgress: line.show }).finally(() => line.clear());
  const { oldestWaitingAt, ...counts } = result;
  if (json) {
    out(JSON.stringify(result));
    return true;
  }
  for (const [state, count] of Object.entries(counts)) out(`${state.padEnd(STATE_WIDTH)} ${count}`);
  if (oldestWaitingAt !== null) out(`oldest waiting since ${agoOf(oldestWaitingAt, now())}`);
  return true;
}

async function payloadOf(store: EventStore, record: EventRecord): Promise<object> {
  if (record.payload === null) return { payload: null };
  try {
    const body = await store.load({ record });
    return { payload: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) };
  } catch (error) {
    const payloadError = error instanceof Error ? error.message : String(error);
    return { payload: null, payloadError };
  }
}
