import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { openEventStore } from "../../events/mod.ts";
import { claimAll, claimOne, delivery, later } from "../events/store/_events.ts";
import { trimPayloads } from "../events/store/_tidying.ts";
import { bury, makeNewer, recordKey, testCli } from "./_cli.ts";
import { damage } from "../events/store/kv/_values.ts";

testCli("events list writes one line per event", async ({ cli, store }) => {
  await bury(store, "d1", new Error("two\nlines \x1b[31mred"));
  await store.accept(delivery("d2"));
  const { code, out } = await cli("list");
  assertEquals([code, out.length], [0, 2]);
  assert(out[0]!.endsWith("Z  dead          1  push  d1  Error: two lines  [31mred"), out[0]);
  assert(out[1]!.endsWith("Z  queued        0  push  d2"), out[1]);
});

testCli("events list filters, and writes JSON", async ({ cli, store }) => {
  for (const id of ["d1", "d2"]) await bury(store, id);
  await store.accept(delivery("d3"));
  const { out } = await cli("list", "--state", "dead", "--json");
  assertEquals(out.map((line) => JSON.parse(line).id), ["d1", "d2"]);
  assertEquals((await cli("list", "--type", "issues")).out, []);
  assertEquals((await cli("list", "--older-than", "1h")).out, []);
  assertEquals((await cli("list", "--newer-than", "1h", "--type", "push")).out.length, 3);
});

testCli("events list --limit writes the last ones, in their order", async ({ cli, store }) => {
  for (const id of ["d3", "d1", "d2"]) {
    await store.accept(delivery(id));
    await later(2);
  }
  const { out } = await cli("list", "--limit", "2", "--json");
  assertEquals(out.map((line) => JSON.parse(line).id), ["d1", "d2"]);
});

testCli("events list and stats show records that cannot be read", async ({ cli, store, kv }) => {
  for (const id of ["d1", "d2"]) await store.accept(delivery(id));
  await makeNewer(kv, "d1");
  await damage(kv, await recordKey(kv, "d2"));
  const { out } = await cli("list");
  assert(out[0]!.endsWith("Z  unreadable    -  -  d1  of another version, or damaged"), out[0]);
  assert(out[1]!.endsWith("Z  unreadable    -  -  d2  of another version, or damaged"), out[1]);
  const { out: lines } = await cli("list", "--state", "unreadable", "--newer-than", "1h", "--json");
  assertEquals(lines.map((line) => JSON.parse(line).id), ["d1", "d2"]);
  assertEquals((await cli("stats")).out[5], "unreadable 2");
  assertEquals(JSON.parse((await cli("stats", "--json")).out[0]!).unreadable, 2);
});

testCli("events list and show tell why an event is put off", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  const [first] = await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 });
  await store.retry(first!, 0, new Error("no"));
  const last = async () => (await cli("list")).out[0]!.split("  ").at(-1);
  assertEquals(await last(), "Error: no");
  // Later than that attempt has ended.
  await new Promise((resolve) => setTimeout(resolve, 2));
  const [second] = await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 });
  await store.release(second!, { delayMs: 0, reason: "night\u009b" });
  assertEquals(await last(), "put off: night");
  const { state, attempt, putOff } = JSON.parse((await cli("show", "d1")).out[0]!);
  assertEquals([state, attempt, putOff.times], ["queued", 1, 1]);
  assertEquals(putOff.since, new Date((await store.get("d1"))!.putOff!.since).toISOString());
  const [third] = await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 });
  await store.retry(third!, 0, new Error("again"));
  assertEquals(await last(), "Error: again");
  const [fourth] = await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 });
  await store.release(fourth!, { delayMs: 1, isLimited: true });
  assertEquals(await last(), "waits for a handler that has as many runs as it may");
  await new Promise((resolve) => setTimeout(resolve, 2));
  const [rated] = await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 });
  await store.release(rated!, { delayMs: 1, isLimited: true, limit: "github" });
  const until = new Date((await store.get("d1"))!.dueAt!).toISOString();
  assertEquals(await last(), `waits for room under the limit github until ${until}`);
  await new Promise((resolve) => setTimeout(resolve, 2));
  const [fifth] = await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 });
  await store.release(fifth!, { delayMs: 1, reason: "night" });
  assertEquals(await last(), "put off: night");
});

testCli("events list shows the errors of an event until it is over", async ({ cli, store }) => {
  const ids = ["cancelled", "dead", "done"];
  for (const id of ids) await store.accept(delivery(id));
  for (const lease of await claimAll(store)) await store.retry(lease, 0, new Error("no"));
  const shown = async () => (await cli("list")).out.map((line) => line.split("  ").at(-1)).sort();
  assertEquals(await shown(), ids.map(() => "Error: no"));
  await store.cancel("cancelled");
  for (const lease of await claimAll(store)) {
    if (lease.record.id === "done") await store.complete(lease);
    else await store.bury(lease, new Error("never"));
  }
  assertEquals(await shown(), ["Cancelled", "Error: never", "done"]);
});

testCli("events show writes records with their payloads", async ({ cli, store }) => {
  await store.accept(delivery("d1", `{"text":"🙂"}`));
  await store.accept(delivery("d2"));
  await store.complete((await store.claim({ limit: 1, owner: "o", leaseMs: 1_000 }))[0]!);
  const { code, out } = await cli("show", "d1", "d2", "--json");
  const [first, second] = out.map((line) => JSON.parse(line));
  assertEquals([code, out.length, first.id, second.id], [0, 2, "d1", "d2"]);
  const done = first.state === "done" ? first : second;
  assertEquals([done.state, done.payload], ["done", null]);
  assertStringIncludes((await cli("show", "d2")).out[0]!, `  "id": "d2",\n`);
});

testCli("events show writes times as dates, and no control characters", async ({ cli, store }) => {
  await store.accept(delivery("d1", JSON.stringify({ at: 1, text: "\x9b31m\u202e🙂" })));
  const { out } = await cli("show", "d1");
  const record = JSON.parse(out[0]!);
  assertEquals(record.payload, { at: 1, text: "\x9b31m\u202e🙂" });
  assertEquals(record.receivedAt, new Date((await store.get("d1"))!.receivedAt).toISOString());
  assertStringIncludes(out[0]!, String.raw`"\u009b31m\u202e🙂"`);
});

testCli(
  "events show writes the record also where the payload is lost",
  async ({ cli, store, kv }) => {
    await bury(store, "d1");
    for await (const { key } of kv.list({ prefix: ["bot", "payload"] })) await kv.delete(key);
    for (const args of [["show", "d1"], ["show", "d1", "--json"]]) {
      const { code, out } = await cli(...args);
      const { state, payload, payloadError } = JSON.parse(out[0]!);
      assertEquals([code, out.length, state, payload], [1, 1, "dead", null]);
      assertEquals(payloadError, "Cannot read the payload: 0 of 7 bytes are there");
    }
  },
);

testCli("events show writes the record also where the payload is no JSON", async (sut) => {
  await sut.store.accept(delivery("d1", "no JSON"));
  const { code, out } = await sut.cli("show", "d1", "--json");
  assertEquals(code, 1);
  assertStringIncludes(JSON.parse(out[0]!).payloadError, "is not valid JSON");
});

testCli("events show tells what there is not, and what it cannot read", async (sut) => {
  await sut.store.accept(delivery("d1"));
  await makeNewer(sut.kv, "d1");
  const { code, out, err } = await sut.cli("show", "d2", "d1", "--json");
  assertEquals([code, out.length, err], [1, 1, ["There is no event d2"]]);
  const { id, state } = JSON.parse(out[0]!);
  assertEquals([id, state], ["d1", "unreadable"]);
  assertEquals((await sut.cli("show", "d1")).code, 0);
});

testCli("events stats counts by state", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await claimOne(store);
  await store.accept(delivery("d2"));
  const { out } = await cli("stats");
  const counts = ["queued     1", "running    1", "parked     0", "done       0", "dead       0"];
  assertEquals(out.slice(0, 6), [...counts, "unreadable 0"]);
  const since = new Date((await store.get("d2"))!.receivedAt).toISOString();
  assertEquals(out[6], `oldest waiting since ${since} (0s ago)`);
  assertEquals(JSON.parse((await cli("stats", "--json")).out[0]!).queued, 1);
});

testCli("events stats counts what a filter lets through", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await store.accept({ ...delivery("d2"), type: "issues" });
  assertEquals((await cli("stats", "--type", "issues")).out[0], "queued     1");
  assertEquals((await cli("stats", "--older-than", "1h")).out[0], "queued     0");
});

testCli("events show finds an event by its delivery's id alone", async ({ cli, store }) => {
  await store.accept({ ...delivery("d1"), intake: "forge" });
  await store.accept({ ...delivery("d2"), intake: "gitea" });
  const { code, out } = await cli("show", "d1", "d2", "--json");
  const ids = out.map((line) => JSON.parse(line).id);
  assertEquals([code, ids.toSorted()], [0, ["forge:d1", "gitea:d2"]]);
});

testCli("events cancel refuses the id of two intakes' deliveries", async ({ cli, store }) => {
  for (const intake of ["forge", "gitea"]) await store.accept({ ...delivery("7"), intake });
  const { code, err } = await cli("cancel", "7");
  assertEquals(code, 2);
  assertEquals(err, ["7 is the delivery id of several events: forge:7, gitea:7"]);
  assertEquals((await cli("cancel", "forge:7")).out, ["1 cancelled"]);
});

testCli("events list tells how often an event was interrupted, and by which", async (sut) => {
  const { cli, store } = sut;
  const rule = { newer: "interrupt", interrupt: { steps: "drop" } } as const;
  for (const id of ["a", "b"]) await store.accept({ ...delivery(id, "{}", "key"), ...rule });
  const last = async () => (await cli("list")).out.map((line) => line.split("  ").at(-1));
  for (const how of ["once by b", "2 times, last by b"]) {
    assertEquals(await store.interrupt(await claimOne(store), "b"), true);
    assertEquals((await last())[0], `waits until it is quiet, interrupted ${how}`);
  }
  const { by } = JSON.parse((await cli("show", "a")).out.join("\n")).interrupted;
  assertEquals(by, "b");
});

testCli("events list tells which events wait for, or are handled with, others", async (sut) => {
  const { cli, store } = sut;
  const quiet = (id: string, quietMs: number) =>
    store.accept({ ...delivery(id, "{}", "key"), quietMs });
  const last = async () => (await cli("list")).out.map((line) => line.split("  ").at(-1));
  await quiet("a", 60_000);
  assertEquals(await last(), ["waits until it is quiet"]);
  await store.emit("jobs", "due", {}, { id: "late", group: "g", quietMs: 1, delayMs: 60_000 });
  assertEquals((await last()).at(-1)?.includes("waits"), false);
  await store.cancel("jobs:late");
  await store.cancel("a");
  await store.purge({});
  await store.accept(delivery("b", "{}", "key"));
  const before = await claimOne(store);
  for (const id of ["c", "d"]) await quiet(id, 0);
  await store.complete(before);
  const batch = await claimOne(store);
  await quiet("e", 0);
  assertEquals(await last(), ["b", "together with 1 more", "together with c", "e"]);
  await store.complete(batch);
  const settled = ["b", "together with 1 more", "handled with c", "waits until it is quiet"];
  assertEquals(await last(), settled);
});

testCli("events show has the payload of a done event while it is kept", async ({ cli, kv }) => {
  const keepPayloads = { forMs: 60_000, maxBytes: 9 };
  const store = await openEventStore(kv, { namespace: "bot", keepPayloads });
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store));
  const shown = async (...args: string[]) => JSON.parse((await cli("show", "d1", ...args)).out[0]!);
  assertEquals((await shown()).payload, { a: 1 });
  await trimPayloads(await openEventStore(kv, { namespace: "bot" }));
  for (const args of [[], ["--json"]]) {
    const { payload, payloadNote } = await shown(...args);
    assertEquals([payload, payloadNote], [null, "not kept"]);
  }
  assertEquals((await cli("show", "d1")).code, 0);
});

testCli("events list and show tell what a parked event waits for", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "approval:1", timeoutMs: 60_000 });
  const until = new Date((await store.get("d1"))!.dueAt!).toISOString();
  const { out } = await cli("list", "--state", "parked");
  assert(
    out[0]!.endsWith(`parked        0  push  d1  waits for approval:1 until ${until}`),
    out[0],
  );
  const shown = JSON.parse((await cli("show", "d1")).out.join("\n"));
  assertEquals([shown.waitingFor.name, shown.waitingFor.until], ["approval:1", until]);
});

/** Counts the keys that the tool reads from the KV, those of the events that it does not need among them. */
function countReads(): Disposable & { keys: number } {
  const { list, getMany } = Deno.Kv.prototype;
  const reads = {
    keys: 0,
    [Symbol.dispose]: () => void Object.assign(Deno.Kv.prototype, { list, getMany }),
  };
  Object.assign(Deno.Kv.prototype, {
    list(this: Deno.Kv, ...args: Parameters<typeof list>) {
      const entries = list.apply(this, args);
      const next = entries.next.bind(entries);
      entries.next = async () => {
        const result = await next();
        if (!result.done) reads.keys++;
        return result;
      };
      return entries;
    },
    getMany(this: Deno.Kv, keys: readonly Deno.KvKey[]) {
      reads.keys += keys.length;
      return getMany.call(this, keys as never);
    },
  });
  return reads;
}

testCli("events list --limit and show read no more in a large store", async ({ cli, store }) => {
  for (let i = 0; i < 8; i++) {
    await Promise.all(Array.from({ length: 50 }, (_, k) => store.accept(intake(`${i}-${k}`))));
    await later(2);
  }
  await store.cancelAll({ receivedBefore: Infinity });
  for (const id of ["last", "waits"]) await store.accept(intake(id));
  for (const lease of await store.claim({ limit: 2, owner: "o", leaseMs: 60_000 })) {
    if (lease.record.id.endsWith("waits")) {
      await store.park(lease, { name: "n", timeoutMs: 60_000 });
    }
  }
  using reads = countReads();
  const keysOf = async (...args: string[]) => {
    reads.keys = 0;
    const { code, out } = await cli(...args);
    assertEquals([code, out.length > 0], [0, true], args.join(" "));
    return reads.keys;
  };
  for (
    const args of [
      ["list", "--limit", "3"],
      ["list", "--limit", "3", "--state", "dead"],
      ["list", "--state", "running"],
      ["list", "--state", "parked"],
      ["show", "last"],
      ["show", "3-7"],
    ]
  ) {
    const read = await keysOf(...args);
    assert(read < 250, `${args.join(" ")}: ${read}`);
  }
});

const intake = (id: string) => ({ ...delivery(id), intake: "github" });

testCli(
  "events list --limit finds the last ones of a state and a type, in their order",
  async (sut) => {
    const { cli, store } = sut;
    for (const id of ["a", "b", "c", "d"]) {
      await store.accept({ ...delivery(id), type: id === "c" ? "issues" : "push" });
      await later(2);
    }
    await store.cancel("b");
    const ids = async (...args: string[]) =>
      (await cli("list", ...args, "--json")).out.map((line) => JSON.parse(line).id);
    assertEquals(await ids("--limit", "2", "--type", "push"), ["b", "d"]);
    assertEquals(await ids("--limit", "2", "--state", "queued"), ["c", "d"]);
    assertEquals(await ids("--limit", "9", "--state", "queued", "--type", "push"), ["a", "d"]);
  },
);

testCli("--json writes one document a line, whatever the command", async ({ cli, store }) => {
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, `{"a":\n1}`));
  const lines = ["list", "show d1 d2", "stats", "cancel d1 d2", "replay d1", "purge d2 --yes"];
  for (const [i, line] of lines.entries()) {
    const { code, out } = await cli(...line.split(" "), "--json");
    const documents = out.map((text) => JSON.parse(text));
    assertEquals([code, documents.length], [0, i < 2 ? 2 : 1], line);
  }
});
