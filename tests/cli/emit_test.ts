import { assertEquals, assertStringIncludes } from "@std/assert";
import { claimOne, delivery } from "../events/store/_events.ts";
import { runHere, testCli } from "./_cli.ts";

testCli("emit stores an event of the app's own, once for an id", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store));
  const args = ["emit", "jobs", "report.due", '{"team":"a"}', "--id", "x", "--group", "g"];
  assertEquals(await cli(...args), { code: 0, out: ["emitted jobs:x"], err: [] });
  assertEquals(await cli(...args), { code: 0, out: ["known already: jobs:x"], err: [] });
  const lease = await claimOne(store);
  assertEquals([lease.record.type, lease.record.orderingKey], ["report.due", "g"]);
  assertEquals(new TextDecoder().decode(await store.load(lease)), '{"team":"a"}');
  const { out } = await cli("emit", "jobs", "report.due", "{}", "--delay", "1h", "--json");
  const { id, duplicate } = JSON.parse(out[0]!);
  const { dueAt, receivedAt } = (await store.get(id))!;
  assertEquals([dueAt! - receivedAt, duplicate], [3_600_000, false]);
});

testCli("emit reads the payload from the standard input", async ({ store, path }) => {
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store));
  const input = () => new Blob(['{"a":1}\n']).stream();
  const { code } = await runHere(["events", "emit", "jobs", "due", "--kv", path], { input });
  assertEquals(code, 0);
  assertEquals(new TextDecoder().decode(await store.load(await claimOne(store))), '{"a":1}');
});

testCli("emit refuses the name of a platform whose deliveries are stored", async (sut) => {
  const { cli, store } = sut;
  await store.emit("shop-jobs", "due", {});
  await store.accept({ ...delivery("d1"), platform: "standard", intake: "shop", source: "shop" });
  const forged = await cli("emit", "shop", "invoice.paid", "{}", "--id", "d2");
  assertEquals(forged.code, 2);
  assertStringIncludes(forged.err.join("\n"), 'the source must not be "shop", which is a platform');
  assertEquals((await cli("emit", "shop-jobs", "due", "{}", "--id", "x")).code, 0);
  assertEquals((await cli("emit", "sho", "due", "{}", "--id", "x")).code, 0);
  assertEquals(await store.get("shop:d2"), null);
});

testCli("emit refuses what no app could handle", async ({ cli, store }) => {
  const wrong: readonly (readonly [string[], string])[] = [
    [
      ["jobs", "due", "{}"],
      "The database holds no events yet: give the app's name with --namespace",
    ],
    [["jobs"], "Give the source and the type of the event"],
    [["jobs", "due", "{}", "{}"], "Give the source and the type of the event"],
    [["jobs", "due", "{", "--namespace", "bot"], "The payload must be a JSON object"],
    [["jobs", "due", "[]", "--namespace", "bot"], "'payload' must be a JSON object, got an array"],
    [["dead", "dead", "{}", "--namespace", "bot"], "the source must not be"],
    [["github", "push", "{}", "--namespace", "bot"], 'the source must not be "github", which is a'],
    [["jobs", "due", "{}", "--delay", "soon"], "--delay must be a time such as"],
    [["jobs", "due", "{}", "--delay", "999d", "--namespace", "bot"], "'delayMs' must be from 0"],
    [["jobs", "due", "{}", "--type", "push"], "events emit has no --type"],
  ];
  for (const [args, message] of wrong) {
    const { code, err } = await cli("emit", ...args);
    assertEquals(code, 2, message);
    assertStringIncludes(err.join("\n"), message);
  }
  assertEquals((await store.stats()).queued, 0);
});
