import { assertEquals, assertStringIncludes } from "@std/assert";
import { type EventStore, openEventStore } from "../../events/mod.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { trimPayloads } from "../events/store/_tidying.ts";
import { bury, makeNewer, runHere, type Sut, testCli } from "./_cli.ts";

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
  const some = await cli("replay", "d1", "d2", "--type", "issues", "--yes");
  assertEquals(some.out.at(-1), "not replayed: d2 (the filter leaves it out)");
  const push = ["--state", "dead", "--type", "push", "--yes"];
  const { code, out } = await cli("replay", "d1", "d2", ...push);
  assertEquals([code, out], [0, ["2 replayed"]]);
  assertEquals((await store.get("d3"))?.state, "dead");
  const rest = await cli("replay", ...push, "--json");
  assertEquals([rest.code, rest.out], [0, [`{"replayed":1,"left":[]}`]]);
});

testCli("events cancel gives up events that wait or run", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await claimOne(store);
  for (const id of ["d2", "d3"]) await store.accept(delivery(id));
  assertEquals((await cli("cancel", "d2", "--json")).out, [`{"cancelled":1,"left":[]}`]);
  assertEquals((await cli("cancel", "--state", "running", "--yes")).out, ["1 cancelled"]);
  assertEquals((await cli("cancel", "--all", "--yes")).out, ["1 cancelled"]);
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
  const { code, out } = await cli("purge", "d1", "d3", "--yes");
  assertEquals([code, out], [1, ["1 purged", "not purged: d3 (it is queued)"]]);
  assertEquals((await cli("purge", "--all", "--json", "--yes")).out, [`{"purged":1,"left":[]}`]);
  assertEquals((await store.stats()).queued, 1);
});

testCli("events purge deletes unreadable records if just they are meant", async (sut) => {
  const { cli, store, kv } = sut;
  for (const id of ["d1", "d2"]) await bury(store, id);
  await makeNewer(kv, "d2");
  assertEquals((await cli("purge", "--all", "--yes")).out, ["1 purged"]);
  assertEquals((await cli("purge", "d2", "--yes")).out[1], "not purged: d2 (it is unreadable)");
  assertEquals((await cli("purge", "--state", "unreadable", "--yes")).out, ["1 purged"]);
  assertEquals((await store.stats()).unreadable, 0);
});

testCli("events purge tells how far it came when it is interrupted", async ({ store, path }) => {
  for (const id of ["d1", "d2"]) await bury(store, id);
  const onInterrupt = (listener: () => void) => {
    listener();
    return () => {};
  };
  const args = ["events", "purge", "--all", "--yes", "--kv", path];
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
  await trimPayloads(store);
  await trimPayloads(store);
  const some = await cli("replay", "d2");
  assertEquals([some.code, some.out], [1, ["0 replayed", "not replayed: d2 (it is done)"]]);
  const left = "not replayed: d1 (its payload is not kept)";
  const done = ["replay", "d1", "d2", "--state", "done"];
  assertEquals((await cli(...done, "--dry-run")).out, ["1 would be replayed", left]);
  assertEquals((await store.stats()).done, 2);
  const { code, out } = await cli(...done, "--yes");
  assertEquals([code, out], [1, ["1 replayed", left]]);
  assertEquals((await store.get("d2"))?.state, "queued");
});

/** Takes an event in that somebody cancels. */
async function cancelled(store: EventStore, id: string): Promise<void> {
  await store.accept(delivery(id));
  await store.cancel(id);
}

testCli(
  "events replay puts back what has failed, and what was cancelled if it is named",
  async (sut) => {
    const { cli, store } = sut;
    await bury(store, "failed");
    for (const id of ["c1", "c2"]) await cancelled(store, id);
    for (const choice of [["--state", "dead"], ["--all"], ["--type", "push"]]) {
      const { out } = await cli("replay", ...choice, "--dry-run");
      assertEquals(out, ["1 would be replayed"], choice.join(" "));
    }
    assertEquals((await cli("replay", "--state", "dead", "--yes")).out, ["1 replayed"]);
    assertEquals((await store.get("failed"))?.state, "queued");
    assertEquals((await store.stats()).dead, 2);
    assertEquals((await cli("replay", "c1")).out, ["1 replayed"]);
    assertEquals((await cli("replay", "--outcome", "cancelled", "--yes")).out, ["1 replayed"]);
    assertEquals((await store.stats()).dead, 0);
  },
);

testCli("--outcome chooses events by how they ended", async ({ cli, store }) => {
  for (const id of ["f1", "f2"]) await bury(store, id);
  await cancelled(store, "c1");
  for (const [id, outcome] of [["h1", "handled"], ["i1", "ignored"]] as const) {
    await store.accept(delivery(id));
    await store.complete(await claimOne(store), { outcome });
  }
  const ids = async (outcome: string) =>
    (await cli("list", "--outcome", outcome, "--json")).out.map((line) => JSON.parse(line).id);
  assertEquals((await ids("failed")).toSorted(), ["f1", "f2"]);
  assertEquals(await ids("cancelled"), ["c1"]);
  assertEquals(await ids("handled"), ["h1"]);
  assertEquals((await cli("purge", "--outcome", "ignored", "--yes")).out, ["1 purged"]);
  assertEquals((await cli("purge", "--outcome", "cancelled", "--yes")).out, ["1 purged"]);
  assertEquals((await store.stats()).done + (await store.stats()).dead, 3);
});

/** Commands that ask, each with what it would change, its question, and its word. */
const ASKING: readonly (readonly [string[], string, string])[] = [
  [["replay", "--all"], "Replay 2 events, to be handled again?", "replayed"],
  [["cancel", "--all"], "Cancel 2 events?", "cancelled"],
  [["purge", "--all"], "Delete 3 events for good?", "purged"],
  [["purge", "f1"], "Delete 1 event for good?", "purged"],
  [["delete-states", "--all"], "Delete 2 states for good?", "deleted"],
  [["delete-answers", "--all"], "Delete 1 answer for good?", "deleted"],
];

/** Lists everything that the commands that ask can change. */
async function contentOf(store: EventStore): Promise<string> {
  const states = await Array.fromAsync(store.states(), ({ key }) => key);
  const answers = await Array.fromAsync(store.answers(), ({ name }) => name);
  return JSON.stringify([await store.stats(), states, answers]);
}

for (const [args, question, word] of ASKING) {
  const command = `events ${args.join(" ")}`;
  const [count] = /\d+/.exec(question)!;

  /** Registers a test on some events, states and answers, and checks whether any is changed. */
  const testAsking = (what: string, isChanged: boolean, fn: (sut: Sut) => Promise<void>) =>
    testCli(`${command} ${what}`, async (sut) => {
      const { store } = sut;
      for (const id of ["f1", "f2"]) await bury(store, id);
      await cancelled(store, "c1");
      for (const id of ["q1", "q2"]) await store.accept(delivery(id));
      for (const key of ["a", "b"]) await (await store.state(key)).set(1);
      await store.wake("early", 1);
      const before = await contentOf(store);
      await fn(sut);
      assertEquals(await contentOf(store) !== before, isChanged);
    });

  testAsking("needs --yes where no terminal is", false, async ({ cli }) => {
    assertEquals(await cli(...args), {
      ...{ code: 2, out: [] },
      err: ["There is no terminal to ask at: give --yes, or --dry-run to see what would be done"],
    });
  });

  const isFirst = args === ASKING[0]![0];
  for (const answer of isFirst ? ["n", "", "\n", "yess", "no", "Nope\n"] : ["n"]) {
    testAsking(`does nothing if the answer is ${JSON.stringify(answer)}`, false, async (sut) => {
      const asked: string[] = [];
      const ask = (text: string) => (asked.push(text), Promise.resolve(answer));
      const result = await runHere(["events", ...args, "--kv", sut.path], { ask });
      assertEquals(result, { code: 1, out: [], err: ["Nothing was done"] });
      assertEquals(asked, [`${question} [y/N] `]);
    });
  }

  for (const answer of isFirst ? ["y", "Y\n", "yes\r\n"] : ["y"]) {
    testAsking(`does it if the answer is ${JSON.stringify(answer)}`, true, async ({ path }) => {
      const ask = () => Promise.resolve(answer);
      const { code, out } = await runHere(["events", ...args, "--kv", path], { ask });
      assertEquals([code, out], [0, [`${count} ${word}`]]);
    });
  }

  testAsking("says what it would do, and does nothing", false, async ({ cli }) => {
    const would = { code: 0, out: [`${count} would be ${word}`], err: [] };
    assertEquals(await cli(...args, "--dry-run"), would);
    assertEquals(await cli(...args, "--dry-run", "--yes"), would);
    const [line] = (await cli(...args, "--dry-run", "--json")).out;
    assertEquals(JSON.parse(line!), { [word]: Number(count), left: [], dryRun: true });
  });

  testAsking("ends at Ctrl-C in the place of an answer", false, async ({ path }) => {
    let interrupt = () => {};
    const result = await runHere(["events", ...args, "--kv", path], {
      onInterrupt: (listener) => {
        interrupt = listener;
        return () => {};
      },
      ask: () => {
        interrupt();
        return new Promise(() => {});
      },
    });
    assertEquals(result, { code: 130, out: [], err: [] });
  });
}

testCli("events does not ask about nothing", async ({ cli, path, store }) => {
  await store.accept(delivery("d1"));
  const ask = () => Promise.reject(new Error("It asks"));
  const { code, out } = await runHere(["events", "purge", "--all", "--kv", path], { ask });
  assertEquals([code, out], [0, ["0 purged"]]);
  assertEquals((await cli("purge", "d1", "d2", "--dry-run")).out, [
    "0 would be purged",
    "not purged: d1 (it is queued)",
    "not purged: d2 (there is no such event)",
  ]);
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

testCli("events wake answers no question, and says what does", async ({ cli, store }) => {
  const { code, out, err } = await cli("wake", `ask/${"q".repeat(22)}`, '"yes"');
  assertEquals([code, out], [1, []]);
  assertStringIncludes(err.join("\n"), "events answer");
  assertEquals(await Array.fromAsync(store.answers()), []);
});

testCli("events cancel ends the wait of a parked event", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "a", timeoutMs: 60_000 });
  assertEquals((await cli("purge", "d1", "--yes")).out.at(-1), "not purged: d1 (it is parked)");
  assertEquals((await cli("cancel", "--state", "parked", "--yes")).out, ["1 cancelled"]);
  assertEquals((await store.get("d1"))?.outcome, "cancelled");
});
