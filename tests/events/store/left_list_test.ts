import { assertEquals } from "@std/assert";
import { listEvents } from "../../../events/store/_lists.ts";
import type { Engine, Visit } from "../../../events/store/engine.ts";

Deno.test("a list that nobody reads any more ends, although its search has found nothing", async () => {
  const [begun, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let steps = 0;
  /** Comes by events that do not match, the first one before the reader has gone. */
  async function* scan(): AsyncGenerator<Visit> {
    for (; steps < 100; steps++) {
      yield { event: undefined, place: `${steps}`, reachedAt: 0 };
      begun.resolve();
      await left.promise;
    }
  }
  const list = listEvents({ scan } as unknown as Engine, { text: "nothing" });
  const next = list.next();
  await begun.promise;
  const end = list.return!();
  left.resolve();
  await end;
  assertEquals(await next, { done: true, value: undefined });
  assertEquals([steps, list.cursor], [1, "0"]);
});
