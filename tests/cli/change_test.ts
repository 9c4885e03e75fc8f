import { assertEquals } from "@std/assert";
import { openEventStore } from "../../events/mod.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { bury, makeNewer, runHere, testCli } from "./_cli.ts";

testCli("events replay puts dead events back, and tells which it could not", async (sut) => {
  const { cli, store } = sut;
  await bury(store, "d1");
  await store.accept(delivery("d2"));
  const { code, out } = await cli("replay", "d1", "d2", "d3");
  assertEquals([code, out], [1, [
    "1 replayed",
    "not replayed: d2 (it is queued)",
    "not replayed: d3 (there is no such event)",
  ]]);
  assertEquals((await store.get("d1"))?.state, "queued");
});

testCli("events replay takes several ids and filters", async ({ cli, store }) => {
  for (const id of ["d1", "d2", "d3"]) await bury(store, id);
  const some = await cli("replay", "d1", "d2", "--type", "issues");
  assertEquals(some.out.at(-1), "not replayed: d2 (the filter leaves it out)");
  const { code, out } = await cli("replay", "d1", "d2", "--state", "dead", "--type", "push");
  assertEquals([code, out], [0, ["2 replayed"]]);
  assertEquals((await store.get("d3"))?.state, "dead");
});

testCli("events replay takes all that a filter lets through", async ({ cli, store }) => {
  for (const id of ["d1", "d2"]) await bury(store, id);
  const { code, out } = await cli("replay", "--state", "dead", "--type", "push", "--json");
  assertEquals([code, out], [0, [`{"replayed":2,"left":[]}`]]);
});

testCli("events cancel gives up events that wait or run", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await claimOne(store);
  for (const id of ["d2", "d3"]) await store.accept(delivery(id));
  assertEquals((await cli("cancel", "d2", "--json")).out, [`{"cancelled":1,"left":[]}`]);
  assertEquals((await cli("cancel", "--state", "running")).out, ["1 cancelled"]);
  assertEquals((await cli("cancel", "--all")).out, ["1 cancelled"]);
  assertEquals((await store.stats()).dead, 2);
  assertEquals(typeof (await store.get("d1"))?.cancelRequestedAt, "number");
});

testCli("events cancel counts an event as cancelled whose handler still runs", async (sut) => {
  const { cli, store } = sut;
  await store.accept(delivery("d1"));
  await claimOne(store);
  await cli("cancel", "d1");
  const { code, out } = await cli("cancel", "d1");
  assertEquals([code, out], [0, ["0 cancelled", "being cancelled: d1 (its handler still runs)"]]);
  const others = await cli("cancel", "d1", "d2", "--json");
  const result = `{"cancelled":0,"left":["d2"],"beingCancelled":["d1"]}`;
  assertEquals([others.code, others.out], [1, [result]]);
  assertEquals((await cli("list")).out[0]?.endsWith("  d1  cancel requested"), true);
});

testCli("events purge deletes what is settled", async ({ cli, store }) => {
  for (const id of ["d1", "d2"]) await bury(store, id);
  await store.accept(delivery("d3"));
  const { code, out } = await cli("purge", "d1", "d3");
  assertEquals([code, out], [1, ["1 purged", "not purged: d3 (it is queued)"]]);
  assertEquals((await cli("purge", "--all", "--json")).out, [`{"purged":1,"left":[]}`]);
  assertEquals((await store.stats()).queued, 1);
});

testCli("events purge deletes unreadable records if just they are meant", async (sut) => {
  const { cli, store, kv } = sut;
  for (const id of ["d1", "d2"]) await bury(store, id);
  await makeNewer(kv, "d2");
  assertEquals((await cli("purge", "--all")).out, ["1 purged"]);
  assertEquals((await cli("purge", "d2")).out[1], "not purged: d2 (it is unreadable)");
  assertEquals((await cli("purge", "--state", "unreadable")).out, ["1 purged"]);
  assertEquals((await store.stats()).unreadable, 0);
});

testCli("events purge tells how far it came when it is interrupted", async ({ store, path }) => {
  for (const id of ["d1", "d2"]) await bury(store, id);
  const onInterrupt = (listener: () => void) => {
    listener();
    return () => {};
  };
  const args = ["events", "purge", "--all", "--kv", path];
  const result = await runHere(args, { onInterrupt });
  assertEquals(result, { code: 130, out: ["0 purged, interrupted"], err: [] });
  const { out } = await runHere([...args, "--json"], { onInterrupt });
  assertEquals(out, [`{"purged":0,"left":[],"interrupted":true}`]);
});

testCli("events replay puts done events back only with --state done", async ({ cli, kv }) => {
  const keepPayloads = { forMs: 60_000, maxBytes: 7 };
  const store = await openEventStore(kv, { namespace: "bot", keepPayloads });
  for (const id of ["d1", "d2"]) {
    await store.accept(delivery(id));
    await store.complete(await claimOne(store));
  }
  await store.trimPayloads();
  await store.trimPayloads();
  const some = await cli("replay", "d2");
  assertEquals([some.code, some.out], [1, ["0 replayed", "not replayed: d2 (it is done)"]]);
  const { code, out } = await cli("replay", "d1", "d2", "--state", "done");
  assertEquals([code, out], [1, ["1 replayed", "not replayed: d1 (its payload is not kept)"]]);
  assertEquals((await store.get("d2"))?.state, "queued");
});

testCli("events wake gives the event that waits for a name its value", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "a", timeoutMs: 60_000 });
  const runs = [["a", '{"yes":true}'], ["a", "2"], ["b"], ["b", "1", "--json"]];
  const results = [];
  for (const args of runs) {
    const { code, out } = await cli("wake", ...args);
    results.push([code, ...out]);
  }
  assertEquals(results, [
    [0, "woken: d1"],
    [1, "not woken: a has an earlier value that no event has taken yet"],
    [0, "kept for 7 days: no event waits for b yet"],
    [1, '{"outcome":"late"}'],
  ]);
  assertEquals((await claimOne(store)).record.woken?.[0]?.value, '{"yes":true}');
});

testCli("events cancel ends the wait of a parked event", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "a", timeoutMs: 60_000 });
  assertEquals((await cli("purge", "d1")).out.at(-1), "not purged: d1 (it is parked)");
  assertEquals((await cli("cancel", "--state", "parked")).out, ["1 cancelled"]);
  assertEquals((await store.get("d1"))?.outcome, "cancelled");
});
