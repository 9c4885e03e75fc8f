import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import {
  type Delivery,
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  RetryLaterError,
  type WebhookEvent,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../core/mod.ts";
import { writeLog } from "../../../core/mod.ts";
import { claimOne, delivery } from "../store/_events.ts";
import { reach, simulatedKv, testSimulated, until, withWorker } from "./_worker.ts";
import type { OpenedStore } from "./_worker.ts";

/** A delivery that is handled together with others of its key. */
function quiet(id: string, text = "{}"): Delivery {
  return { ...delivery(id, text, "key"), quietMs: 1_000, payload: JSON.parse(text) };
}

/** The events that a handler got. */
const idsOf = ({ batch }: WebhookEvent) => batch.map(({ id }) => id);

/** Takes events in, handles them, and tells what was handled and logged. */
async function handling(
  sut: OpenedStore,
  ids: readonly string[],
  handle: (event: WebhookEvent, context: HandlerContext) => unknown,
  state: "done" | "dead" = "done",
) {
  const [seen, logs]: [WebhookEvent[], LogRecord[]] = [[], []];
  const handler: EventHandler = async (event, context) => {
    seen.push(event);
    await handle(event, context);
  };
  const log = (record: LogRecord) => void logs.push(record);
  const retry = { minDelayMs: 10, maxAttempts: 2 };
  for (const id of ids) await sut.store.accept(quiet(id, JSON.stringify({ text: id })));
  await withWorker(sut, handler, { log, retry }, async () => {
    for (const id of ids) await reach(sut.store, id, state);
  });
  return { seen, logs };
}

testSimulated(
  "a handler gets the latest event with all of its batch, and logs the id of the first",
  async (sut) => {
    const { seen, logs } = await handling(sut, ["a", "b", "c"], (_, { log }) => {
      writeLog(log, "info", "seen");
    });
    assertEquals(seen.map(idsOf), [["a", "b", "c"]]);
    const [event] = seen;
    assertEquals([event!.payload.text, event!.id, event!.attempt], ["c", "a", 1]);
    assertEquals(event!.batch.map(({ payload }) => payload.text), ["a", "b", "c"]);
    assertEquals(logs.find(({ message }) => message === "seen")?.eventId, "a");
    const handled = logs.filter(({ message }) => message === "event handled");
    assertEquals(handled.map(({ eventId }) => eventId), ["a", "b", "c"]);
    assertEquals(handled.map(({ handledWith }) => handledWith), [undefined, "a", "a"]);
  },
);

testSimulated(
  "a batch that fails is tried again as it was, with the same key for calls",
  async (sut) => {
    const { store } = sut;
    const { seen, logs } = await handling(sut, ["a", "b"], async ({ attempt }) => {
      if (attempt > 1) return;
      await store.accept(quiet("c"));
      throw new Error("not yet");
    });
    assertEquals(seen.slice(0, 2).map(idsOf), [["a", "b"], ["a", "b"]]);
    assertEquals(seen.slice(0, 2).map(({ attempt }) => attempt), [1, 2]);
    assertEquals(seen[0]!.idempotencyKey(), seen[1]!.idempotencyKey());
    assertNotEquals(seen[0]!.idempotencyKey(), seen[0]!.batch[1]!.idempotencyKey());
    const failed = logs.filter(({ message }) => message === "event failed, to be tried again");
    assertEquals(failed.map(({ eventId }) => eventId), ["a"]);
  },
);

testSimulated("a batch dies with its first event, and each of them is logged", async (sut) => {
  const give = () => {
    throw new GiveUpError("no use");
  };
  const { seen, logs } = await handling(sut, ["a", "b"], give, "dead");
  assertEquals(seen.length, 1);
  const dead = logs.filter(({ message }) => message === "event given up, now dead");
  assertEquals(dead.map(({ eventId }) => eventId), ["a", "b"]);
  assertStringIncludes((await sut.store.get("b"))!.attempts[0]!.error!, "no use");
});

testSimulated("a batch is put off together", async (sut) => {
  const seen: string[][] = [];
  await handling(sut, ["a", "b"], (event) => {
    seen.push(idsOf(event));
    if (seen.length === 1) throw new RetryLaterError("night", { afterMs: 20_000 });
  });
  assertEquals(seen, [["a", "b"], ["a", "b"]]);
  const { putOff, attempt } = (await sut.store.get("a"))!;
  assertEquals([putOff?.times, attempt], [1, 1]);
});

testSimulated("effects are committed once for a batch, and so are its steps", async (sut) => {
  const { place: { effects } } = sut;
  let halves = 0;
  await handling(sut, ["a", "b"], async ({ attempt }, { step, settleWith }) => {
    await step("half", () => void halves++);
    if (attempt === 1) throw new Error("not yet");
    settleWith(effects.create("sum", 1));
  });
  assertEquals([await effects.get("sum"), halves], [1, 1]);
});

testSimulated(
  "a batch of which it is not known who is in it takes its steps again when it is replayed",
  async (sut) => {
    const { place: { effects }, store } = sut;
    const parts = Array.from({ length: 20 }, (_, i) => `part ${i}`);
    const ids = ["a", "b", "c"];
    let isMended = false;
    const seen: string[][] = [];
    const handler: EventHandler = async (event, { step }) => {
      seen.push(idsOf(event));
      for (const part of parts) {
        await step(part, ({ settleWith }) => settleWith(effects.add(part, 1)));
      }
      if (!isMended) throw new GiveUpError("not yet");
    };
    for (const id of ids) await store.accept(quiet(id));
    await withWorker(sut, handler, {}, async () => {
      for (const id of ids) await reach(store, id, "dead");
      isMended = true;
      assertEquals((await store.replayAll({})).changed, 3);
      for (const id of ids) await reach(store, id, "done");
    });
    assertEquals(seen, [ids, ids]);
    const counts = await Promise.all(parts.map((part) => effects.get(part)));
    assertEquals(new Set(counts), new Set([2]));
  },
);

Deno.test(
  "an event whose record was deleted is left out of its batch",
  simulatedKv(async (sut) => {
    const { store, kv } = sut;
    await store.accept(delivery("first", "{}", "key"));
    const first = await claimOne(store);
    for (const id of ["a", "b", "c"]) await store.accept({ ...quiet(id), quietMs: 0 });
    await store.complete(first);
    const { receivedAt } = (await store.get("b"))!;
    await kv.atomic().delete(["events", "event", receivedAt, "b"]).commit();
    const seen: string[][] = [];
    await withWorker(sut, (event) => seen.push(idsOf(event)), {}, async () => {
      await until(() => seen.length > 1);
      await reach(store, "c", "done");
    });
    assertEquals(seen, [["a"], ["c"]]);
  }),
);
