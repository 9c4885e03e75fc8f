import { assert, assertEquals, assertRejects } from "@std/assert";
import { type EventStore, openEventStore } from "../../../../events/mod.ts";
import { claimAll, idsOf } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { STORED } from "./_stored.ts";
import { repairGroups, repairTimes } from "../_tidying.ts";

const encoder = new TextEncoder();

/** Time at which the events of the fixture were received. */
const AT = 1_700_000_000_000;

const BODY = encoder.encode(`{"a":1}`);

interface Sut {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
  readonly messages: unknown[];
}

/** Opens a store on what was written, after a change of the bytes. */
async function withStored(
  fn: (sut: Sut) => Promise<void>,
  change: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array = (bytes) => bytes,
): Promise<void> {
  using kv = await Deno.openKv(":memory:");
  for (const [key, head, json, body = ""] of STORED) {
    const bytes = [...Uint8Array.fromHex(head), ...encoder.encode(json + body)];
    await kv.set(["events", ...key], change(Uint8Array.from(bytes)));
    const { payload, engine } = Object(JSON.parse(json));
    if (payload && !engine?.holdsPayload) await kv.set(["events", "payload", payload.id, 0], BODY);
  }
  const messages: unknown[] = [];
  const log = ({ message, level }: { message: string; level: string }) => {
    if (level === "error") messages.push(message);
  };
  await fn({ kv, store: await openEventStore(kv, { notifier: "watch", log }), messages });
}

async function completeAll(store: EventStore): Promise<string[]> {
  const leases = await claimAll(store);
  for (const lease of leases) {
    assertEquals(await store.load(lease), BODY);
    assert(await store.complete(lease));
  }
  return idsOf(leases).toSorted();
}

Deno.test("events in all states are read from the bytes that the first version has written", () =>
  withStored(async ({ kv, store, messages }) => {
    const { queued, running, parked, done, dead, unreadable } = await store.stats();
    assertEquals([queued, running, parked, done, dead, unreadable], [4, 4, 1, 1, 1, 0]);
    assertEquals(await store.oldestDueAt(), AT);
    const record = (await store.get("queued"))!;
    assertEquals([record.causedBy, record.sender?.name], ["b", "é"]);
    assertEquals(record.putOff, { since: AT + 1, at: AT + 2, times: 2, reason: "Rate limit" });
    assertEquals((await Array.fromAsync(store.list({ state: "dead" }))).length, 1);
    const firsts = ["first", "parked", "queued", "retried", "running", "shared1", "shared2"];
    assertEquals(await completeAll(store), firsts);
    assertEquals((await store.get("parked"))?.woken?.[0]?.timedOut, true);
    assertEquals((await store.get("flagged"))?.outcome, "cancelled");
    assertEquals(await completeAll(store), ["second"]);
    for (const id of ["dead", "flagged"]) assert(await store.replay(id));
    assertEquals(await completeAll(store), ["dead", "flagged"]);
    const left = ["due", "lane", "place", "payload", "dead"].map((each) => keysOf(kv, each));
    assertEquals((await Promise.all(left)).flat(), []);
    assertEquals(messages, []);
  }));

Deno.test("what a store has beside its events is read from the bytes of the first version", () =>
  withStored(async ({ store }) => {
    const { value } = await store.state("chat:1", { intake: "telegram" });
    assertEquals(value, { step: 1, text: "é" });
    const note = { plan: "0 7 * * * UTC", at: AT };
    assertEquals((await store.scheduleNotes.read("digest")).value, note);
    assertEquals(await store.wake("answer", 1), { outcome: "woken", eventId: "parked" });
    const lease = (await claimAll(store)).find(({ record }) => record.id === "parked")!;
    assertEquals(lease.record.woken?.[0]?.value, "1");
  }));

Deno.test("nothing is read whose version is not known, and all of it stays as it is", () =>
  withStored(async ({ kv, store }) => {
    const dump = async () => await Array.fromAsync(kv.list({ prefix: ["events"] }));
    const before = await dump();
    assertEquals((await store.stats()).unreadable, 11);
    assertEquals(await claimAll(store), []);
    assertEquals([await repairTimes(store), await repairGroups(store)], [0, 0]);
    await assertRejects(() => store.get("queued"), Error, "Cannot read the entry of the id queued");
    await assertRejects(() => store.state("chat:1", { intake: "telegram" }));
    await assertRejects(() => store.wake("early", 1));
    await assertRejects(() => store.scheduleNotes.read("digest"));
    assertEquals(await dump(), before);
  }, (bytes) => bytes.with(0, 2)));
