import { assertEquals, assertLess } from "@std/assert";
import { openEventStore } from "../../../webhook/mod.ts";
import { delivery } from "./_events.ts";

/** Notes what becomes of the commits of a KV, as they are made. */
function watchCommits(kv: Deno.Kv): string[] {
  const outcomes: string[] = [];
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      try {
        const result = await commit();
        outcomes.push(result.ok ? "made" : "stale");
        return result;
      } catch (error) {
        outcomes.push(String(error));
        throw error;
      }
    };
    return operation;
  };
  return outcomes;
}

Deno.test("deliveries that come together fill commits, and none is too large", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { bell: "watch" });
  const outcomes = watchCommits(kv);
  const ids = Array.from({ length: 500 }, (_, i) => `d${i}`);
  await Promise.all(ids.map((id) => store.accept(delivery(id))));
  assertEquals(new Set(outcomes), new Set(["made"]));
  assertLess(outcomes.length, 10);
});
