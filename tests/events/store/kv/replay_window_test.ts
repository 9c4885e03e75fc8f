import { assertEquals, assertRejects } from "@std/assert";
import type { AcceptResult, EventStore } from "../../../../events/mod.ts";
import { UndecodableError } from "../../../../events/store/kv/_layout.ts";
import { delivery } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { testStoreInOneProcess } from "./_stores.ts";
import { setNewer, setValue } from "./_values.ts";

const HOUR_MS = 3_600_000;

/** Accepts a document, with a replay window of an hour. */
function accept(
  store: EventStore,
  id: string,
  { text = "{}", replayWindowMs = HOUR_MS } = {},
): Promise<AcceptResult> {
  return store.accept(delivery(id, text), { replayWindowMs });
}

testStoreInOneProcess("accept() ignores a document's note of an unknown shape", async (sut) => {
  const { kv, store } = sut;
  await accept(store, "d1");
  const [key] = await keysOf(kv, "content");
  const day = Date.now() + 24 * HOUR_MS;
  const damaged = [null, 5, {}, { id: 5, at: 1 }, { id: "a", at: "5" }, { id: "a", at: day }];
  for (const [i, seen] of damaged.entries()) {
    await setValue(kv, key!, seen);
    assertEquals(await accept(store, `n${i}`), { id: `n${i}`, duplicate: false });
  }
});

testStoreInOneProcess(
  "accept() rejects for a document's note that it cannot decode",
  async (sut) => {
    const { kv, store } = sut;
    await accept(store, "d1");
    const restore = await setNewer(kv, (await keysOf(kv, "content"))[0]!);
    await assertRejects(
      () => accept(store, "d2"),
      UndecodableError,
      "Cannot read the note of a doc",
    );
    await restore();
    assertEquals(await accept(store, "d2"), { id: "d1", duplicate: true });
  },
);
