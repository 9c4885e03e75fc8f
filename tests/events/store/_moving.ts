import {
  type EventRecord,
  type EventStore,
  exportEvents,
  importEvents,
  type ImportResult,
  type PortableEvent,
} from "../../../events/mod.ts";
import { lineOf } from "../../../events/store/portable_event.ts";
import { claimOne, delivery } from "./_events.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** All lines of an export. */
export function linesOf(store: EventStore): Promise<string[]> {
  return Array.fromAsync(exportEvents(store));
}

/** Imports lines. */
export function importLines(
  store: EventStore,
  lines: readonly string[],
): Promise<ImportResult> {
  return importEvents(store, ReadableStream.from(lines));
}

/** Everything of a store's events that survives a move, by their ids, with their payloads. */
export async function contentOf(store: EventStore): Promise<Record<string, unknown>> {
  const events = await Array.fromAsync(store.list());
  const contents = await Promise.all(events.map(async (event) => {
    const record = event as EventRecord;
    const body = record.payload && decoder.decode(await store.load({ record }));
    return [record.id, { ...facts(record), body }];
  }));
  return Object.fromEntries(contents);
}

/** The facts of a record that mean the same in every KV. */
export function facts(record: EventRecord): object {
  const { payload: _, group, engine: __, dueAt, delayMs, ...kept } = record;
  // What is due at once is due later by the time that the move takes.
  const due = delayMs ? { dueAt } : { isDue: dueAt !== null };
  // A member that is undefined and one that is missing are the same to all readers of a record.
  return JSON.parse(JSON.stringify({ ...kept, ...due, group: group?.key }));
}

/** Names of the parts of an event that is tried again, long enough to matter. */
const PARTS = ["one", "two \u{1f600}"];

/** Takes in events of all states, with all that can become of them, and a payload of 3 MB. */
export async function storeAll(store: EventStore): Promise<void> {
  const facts = {
    ...{ intake: "forge", action: "opened", requestId: "r1" },
    repository: { id: 2 ** 52, fullName: "a/b", owner: "a", name: "b" },
    chat: { id: -100, type: undefined },
    sender: { id: 7, name: "me\u202e", isBot: false },
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  };
  await store.accept({ ...delivery("done"), ...facts });
  await store.complete(await claimOne(store));
  await store.accept({ ...delivery("ignored"), ...facts });
  await store.complete(await claimOne(store), { outcome: "ignored" });
  await store.accept({ ...delivery("dead", `{"id":12345678901234567890}`), ...facts });
  await store.bury(await claimOne(store), new Error("no\u009b\n"));
  await store.accept({ ...delivery("retried", `{ "a":\r\n[1.0] }\n`), ...facts });
  const first = await claimOne(store);
  const noted = await store.note(first, { is: "handler", name: PARTS[0]! });
  await store.retry(
    (await store.note(noted!, { is: "handler", name: PARTS[1]! }))!,
    3_600_000,
    new Error("once"),
  );
  await store.accept({ ...delivery("off", `{"zero\u200bwidth":"\u{1f468}\u200d"}`), ...facts });
  await store.release(await claimOne(store), { delayMs: 7_200_000, reason: "busy", isBegun: true });
  await store.accept(delivery("large", JSON.stringify({ text: "é".repeat(1_500_000) })));
  for (const id of ["a1", "a2", "a3"]) await store.accept(delivery(id, `{"${id}":1}`, "a"));
  for (const id of ["b1", "b2"]) {
    await store.accept({ ...delivery(id, `"${id}"`, "b"), intake: "forge" });
  }
}

/** A queued event from elsewhere, with some fields of its record changed. */
export function event(
  changes: Record<string, unknown> = {},
  text: string | null = "{}",
): PortableEvent {
  const record: PortableEvent["record"] = {
    ...{ id: "d1", platform: "forge", source: "github", type: "push", requestId: null },
    ...{ receivedAt: 1_000, state: "queued", attempt: 0, dueAt: 1_000, orderingKey: null },
    ...{ group: null, settledAt: null, attempts: [] },
  };
  const body = text === null ? null : encoder.encode(text);
  return { record: { ...record, ...changes }, body };
}

/** A line with some of its members changed. */
export async function line(changes: Record<string, unknown>): Promise<string> {
  return JSON.stringify({ ...JSON.parse(await lineOf(event())), ...changes });
}
