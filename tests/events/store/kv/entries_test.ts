import { assertEquals } from "@std/assert";
import { exportEvents } from "../../../../events/mod.ts";
import { memoryStore, type StoreUnderTest } from "./_stores.ts";
import { damage, setValue } from "./_values.ts";

const HOUR_MS = 3_600_000;

const NOTE = { plan: "0 7 * * * UTC", at: 1_790_000_000_000 };

const draft = { text: "é\u200b\ud800", big: 2 ** 80, tags: ["a", null], ["__proto__"]: "b" };

/** Gives a store one entry of each kind, and two states. */
async function storeEntries({ store }: StoreUnderTest): Promise<void> {
  await (await store.state("chat:1")).set({ step: 2, text: "a" });
  const other = await store.state("chat:2", { intake: "telegram" });
  await other.set(draft, { expireAfterMs: HOUR_MS });
  await store.wake("early", { yes: true });
  await store.scheduleNotes.write("digest", NOTE, null);
}

Deno.test("an export names an entry that it cannot read, and has the others", async () => {
  await using sut = await memoryStore();
  await storeEntries(sut);
  await setValue(sut.kv, ["events", "state", "", "broken"], 1);
  await damage(sut.kv, ["events", "state", "", "broken"]);
  await setValue(sut.kv, ["events", "cron", "later"], { v: 9 });
  const left: string[] = [];
  const lines = exportEvents(sut.store, {}, { onLeftOut: ({ id }) => left.push(id) });
  assertEquals((await Array.fromAsync(lines)).length, 4);
  assertEquals(left, ['the state "broken"', 'the note of the schedule "later"']);
});
