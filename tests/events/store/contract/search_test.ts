import { assertEquals } from "@std/assert";
import type { Delivery, EventFilter, EventList, EventStore } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { testStoreOnce } from "./_contract.ts";

/** Takes in events of all kinds. */
async function someEvents(store: EventStore): Promise<void> {
  const repository = {
    id: 7,
    fullName: "Octo-Org/Hello.World",
    owner: "Octo-Org",
    name: "Hello.World",
  };
  const sender = { id: 1, name: "Ada", isBot: false };
  const events: Partial<Delivery>[] = [
    { deliveryId: "72d3162e", intake: "github", type: "issues", action: "opened", repository },
    { deliveryId: "72d39999", intake: "github", description: '#1442 Crash on "start" in Größe' },
    { deliveryId: "100", intake: "bot", source: "telegram", chat: { id: -1006, type: "group" } },
    { deliveryId: "101", intake: "bot", source: "telegram", requestId: "REQ-5", sender },
  ];
  for (const event of events) await store.accept({ ...delivery(), ...event });
  for (const lease of await claimAll(store)) {
    if (lease.record.id === "bot:100") await store.bury(lease, new Error("ECONNREFUSED 10.0.0.1"));
    else await store.release(lease, { delayMs: 60_000, reason: "50% is\\full" });
  }
}

/** Filters, and the events that they find. */
const FOUND: readonly (readonly [EventFilter, ids: readonly string[]])[] = [
  [{ text: "crash ON" }, ["github:72d39999"]],
  [{ text: '"START" in GRÖSSE' }, []],
  [{ text: '"START" in GRÖ' }, ["github:72d39999"]],
  [{ text: "ö" }, ["github:72d39999"]],
  [{ text: "econnrefused" }, ["bot:100"]],
  [{ text: "50% IS\\F" }, ["github:72d3162e", "github:72d39999", "bot:101"]],
  [{ text: "5_% is" }, []],
  [{ text: "ada" }, ["bot:101"]],
  [{ text: "lease" }, []],
  [{ text: "x".repeat(60_000) }, []],
  [{ name: "ada" }, []],
  [{ name: "crash" }, []],
  [{ name: "hello.world" }, ["github:72d3162e"]],
  [{ name: "issues.OPENED" }, ["github:72d3162e"]],
  [{ name: "req-5" }, ["bot:101"]],
  [{ name: "-1006" }, ["bot:100"]],
  [{ name: "72D3" }, ["github:72d3162e", "github:72d39999"]],
  [{ name: "TELEGRAM", state: "dead" }, ["bot:100"]],
  [{ text: "econnrefused", state: "queued" }, []],
  [{ type: "issues.opened" }, ["github:72d3162e"]],
  [{ type: "issues" }, ["github:72d3162e"]],
  [{ type: "issue" }, []],
  [{ source: "bot" }, ["bot:100", "bot:101"]],
  [{ source: "telegram", outcome: "failed" }, ["bot:100"]],
  [{ repository: "Octo-Org/Hello.World" }, ["github:72d3162e"]],
  [{ repository: "octo-org/hello.world" }, []],
  [{ chat: -1006 }, ["bot:100"]],
  [{ chat: -100 }, []],
];

testStoreOnce(
  "list() finds texts in what names events, and says what they are about",
  async (sut) => {
    await someEvents(sut.store);
    for (const [filter, expected] of FOUND) {
      for (const order of ["oldest", "newest"] as const) {
        const events = await Array.fromAsync(sut.store.list({ ...filter, order }));
        const ids = events.map(({ id }) => id);
        const found = order === "oldest" ? ids : ids.toReversed();
        assertEquals(found.toSorted(), expected.toSorted(), JSON.stringify(filter));
      }
    }
  },
);

testStoreOnce(
  "list() goes on with a text where it ended, and tells how far it has come",
  async ({ store }) => {
    // Engines look through some hundreds at a time.
    await Promise.all(Array.from({ length: 600 }, (_, i) => {
      const description = i % 200 === 0 ? "Crash" : "fine";
      return store.accept({ ...delivery(`e${i}`), description });
    }));
    const found: string[] = [];
    let pages = 0;
    for (let cursor: string | undefined = ""; cursor !== undefined; pages++) {
      const list: EventList = store.list({ text: "crash", order: "newest", limit: 1, cursor });
      for await (const { id, receivedAt } of list) {
        found.push(id);
        assertEquals(typeof list.reachedAt, "number");
        assertEquals(list.reachedAt! <= receivedAt, true);
      }
      cursor = list.cursor;
    }
    assertEquals([found.toSorted(), pages], [["e0", "e200", "e400"], 3]);
  },
);

testStoreOnce("the inspector finds events by the beginnings of their ids", async ({ store }) => {
  for (const intake of ["a", "b", undefined]) {
    for (const id of ["72d3162e", "72d3ffff", "8"]) await store.accept({ ...delivery(id), intake });
  }
  const find = async (text: string, max = 20) =>
    (await store.inspect.withIdBeginning(text, max)).toSorted();
  assertEquals(await find("72d31"), ["72d3162e", "a:72d3162e", "b:72d3162e"]);
  assertEquals(await find("a:72d3"), ["a:72d3162e", "a:72d3ffff"]);
  assertEquals(await find("72d3", 1), []);
  assertEquals(await find("9"), []);
  assertEquals(await find("9".repeat(5_000)), []);
});

testStoreOnce("list() finds done events behind many that wait", async ({ store }) => {
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await Promise.all(Array.from({ length: 300 }, (_, i) => store.accept(delivery(`q${i}`))));
  const list = store.list({ state: "done", order: "newest", limit: 1 });
  assertEquals(await Array.fromAsync(list, ({ id }) => id), ["done"]);
});
