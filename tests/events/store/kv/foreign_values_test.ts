import { assert, assertEquals, assertRejects } from "@std/assert";
import { type EventStore, exportEvents } from "../../../../events/mod.ts";
import { UndecodableError } from "../../../../events/store/kv/_layout.ts";
import { list } from "../../../../events/store/kv/_reads.ts";
import { listNamespaces } from "../../../../events/store/kv/kv_database.ts";
import { withFolder } from "../../../_folder.ts";
import { testWith } from "../../../_permissions.ts";
import { openSqlite } from "../../../_sqlite.ts";
import { buryAll, claimAll, claimOne, delivery, idsOf } from "../_events.ts";
import { makeDue } from "./_keys.ts";
import { type LoggedStore, loggedStore } from "./_stores.ts";
import { deleteUploads, repairGroups, repairTimes, trimPayloads } from "../_tidying.ts";
import { setValue } from "./_values.ts";

/**
 * Values below the namespace of a store that Deno itself cannot read: what another program has written with a newer
 * Deno, in V8's format. The store writes no such value.
 */
interface Sut extends LoggedStore {
  /** Makes values foreign, by a part of their keys and what comes behind it. Returns what writes them back. */
  readonly makeForeign: (kind: string, name: string) => () => void;
}

function testFile(name: string, fn: (sut: Sut) => Promise<void>): void {
  testWith(["read", "write"], name, () =>
    withFolder(async (folder) => {
      using kv = await Deno.openKv(`${folder}/kv.db`);
      using file = openSqlite(`${folder}/kv.db`);
      const { database } = file;
      const isMeant = "hex(k) like '%' || hex(?) || '00%' || hex(?) || '00%'";
      const select = database.prepare(`select k, v from kv where ${isMeant}`);
      const change = database.prepare("update kv set v = ?, v_encoding = ? where k = ?");
      const makeForeign: Sut["makeForeign"] = (kind, name) => {
        const found = select.all(kind, name) as { k: Uint8Array; v: Uint8Array }[];
        assert(found.length > 0);
        for (const { k } of found) change.run(new Uint8Array([255, 99]), 1, k);
        return () => found.forEach(({ k, v }) => change.run(v, 3, k));
      };
      const keepPayloads = { forMs: 60_000, maxBytes: 1e6 };
      await fn({ ...await loggedStore(kv, { keepPayloads }), makeForeign });
    }));
}

/** Handles all that is due, one after the other, and returns the ids of what could be settled in that order. */
async function drain(store: EventStore): Promise<string[]> {
  const handled = [];
  for (let leases = await claimAll(store); leases.length > 0; leases = await claimAll(store)) {
    for (const lease of leases) {
      const isHandled = await store.complete(lease).catch((error) => {
        assert(error instanceof UndecodableError);
        return false;
      });
      if (isHandled) handled.push(lease.record.id);
    }
  }
  return handled.toSorted();
}

const LETTERS = ["a", "b", "c"];

/** Names of three values of a kind. */
const three = (kind: string) => LETTERS.map((letter) => `${kind}-${letter}`);

/** Stores three values of each kind. */
async function fill({ kv, store }: Sut): Promise<void> {
  const notes = store.scheduleNotes;
  for (const name of three("cron")) await notes.write(name, { plan: "p", at: 1 }, null);
  for (const name of three("state")) await (await store.state(name)).set(1);
  for (const name of three("name")) await store.wake(name, 1);
  for (const id of three("done")) await store.accept(delivery(id));
  await drain(store);
  await buryAll(store, three("dead"));
  for (const id of three("open")) await store.accept(delivery(id));
  for (const id of three("group")) await store.accept(delivery(id, "{}", id));
  for (const id of three("upload")) {
    await setValue(kv, ["events", "upload", id], { startedAt: 1, size: 1 });
  }
}

interface Row {
  /** The kind by which a check names it; none for what is found by others only. */
  readonly kind?: string;
  /** The events that are not handled meanwhile. */
  readonly waits?: string;
  /** Event that is not listed. */
  readonly hides?: string;
  /** Checks of what goes on. */
  readonly more?: (sut: Sut) => Promise<void>;
}

const ROWS: Readonly<Record<string, Row>> = {
  "id open-b": {
    kind: "id",
    more: async ({ store }) => {
      for (const operation of [() => store.get("open-b"), () => store.accept(delivery("open-b"))]) {
        await assertRejects(operation, UndecodableError);
      }
      assertEquals((await store.get("open-a"))?.id, "open-a");
    },
  },
  "event open-b": {
    kind: "event",
    waits: "open-b",
    hides: "open-b",
    more: async ({ store }) => {
      await assertRejects(() => store.get("open-b"), Error, "Cannot read the record of event");
      await assertRejects(() => store.accept(delivery("open-b")), Error, "unreadable");
    },
  },
  "due open-b": { kind: "schedule entry", waits: "open-b" },
  "lane group-b": {
    kind: "ordering group",
    waits: "group-b",
    more: async ({ store }) => {
      await assertRejects(() => store.accept(delivery("d1", "{}", "group-b")), UndecodableError);
    },
  },
  "place group-b": { kind: "position", waits: "group-b" },
  "waiter name-b": {
    kind: "name",
    more: async ({ store }) => {
      for (const prefix of ["", "name-"]) {
        const answers = await Array.fromAsync(store.answers({ prefix }), ({ name }) => name);
        assertEquals(answers, ["name-a", "name-c"]);
      }
      await assertRejects(() => store.wake("name-b", 2), Error, "Cannot wake");
    },
  },
  "state state-b": {
    kind: "state",
    more: async ({ store }) => {
      const unnamed = "(written by a newer version of Deno)";
      for (const options of [{}, { intake: "", prefix: "state-" }]) {
        const states = await Array.fromAsync(store.states(options));
        assertEquals(states.map(({ key }) => key), ["state-a", unnamed, "state-c"]);
        assertEquals(states[1]?.isUnreadable, true);
        assertEquals(await states[1]!.delete(), false);
      }
      await assertRejects(() => store.state("state-b"), Error, "another version wrote it");
    },
  },
  "cron cron-b": {
    kind: "schedule",
    more: async ({ store }) => {
      const notes = store.scheduleNotes;
      assertEquals((await notes.read("cron-c")).value, { plan: "p", at: 1 });
      await assertRejects(() => notes.read("cron-b"), UndecodableError);
      // An export leaves out no entry without a word.
      const leftOut: string[] = [];
      const options = { onLeftOut: ({ id }: { id: string }) => void leftOut.push(id) };
      const lines = await Array.fromAsync(exportEvents(store, {}, options));
      assertEquals(leftOut, ['the note of the schedule "(written by a newer version of Deno)"']);
      assertEquals(lines.filter((each) => each.includes(".schedule")).length, 2);
    },
  },
  "kept done-b": {
    kind: "kept payload",
    more: async ({ store }) => {
      assertEquals(await trimPayloads(store), 0);
      assertEquals((await store.replayAll({ state: "done" })).changed > 0, true);
    },
  },
  "dead dead-b": {
    more: async ({ store }) => {
      const dead = await Array.fromAsync(store.list({ state: "dead" }), ({ id }) => id);
      assertEquals(dead, ["dead-a", "dead-c"]);
      assertEquals((await store.inspect.count(9)).dead.count, 3);
    },
  },
  "upload upload-b": {
    more: async ({ store }) => assertEquals(await deleteUploads(store, 0), 2),
  },
};

for (const [place, { kind, waits, hides, more }] of Object.entries(ROWS)) {
  testFile(`a foreign value is named, and all else goes on: ${place}`, async (sut) => {
    const { kv, store, makeForeign } = sut;
    await fill(sut);
    const [part, name] = place.split(" ") as [string, string];
    makeForeign(part, name);
    const findings = (await Array.fromAsync(store.check())).flatMap((page) => page.findings);
    assertEquals(
      findings.map((each) => each.is === "unreadable" && [each.kind, each.name]),
      kind ? [[kind, "(written by a newer version of Deno)"]] : [],
    );
    assertEquals((await store.lastCheck())?.unreadable, findings.length);
    const ids = ["done", "dead", "open", "group"].flatMap(three).filter((id) => id !== hides);
    const found = await Array.fromAsync(store.list(), ({ id }) => id);
    assertEquals(found.toSorted(), ids.toSorted());
    const newest = await Array.fromAsync(store.list({ order: "newest" }), ({ id }) => id);
    assertEquals(newest, found.toReversed());
    assertEquals(await listNamespaces(kv), ["events"]);
    await more?.(sut);
    const open = ["group", "open"].flatMap(three).filter((id) => id !== waits);
    const handled = await drain(store);
    assertEquals(handled.filter((id) => !id.startsWith("done")), open);
    await repairGroups(store);
    await repairTimes(store);
  });
}

testFile("a foreign record holds its group, and no other", async ({ kv, store, makeForeign }) => {
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id, "{}", "key"));
  for (const id of ["o1", "o2"]) await store.accept(delivery(id, "{}", "other"));
  const restore = makeForeign("event", "d2");
  assertEquals(await drain(store), ["d1", "o1", "o2"]);
  restore();
  await makeDue(kv, "d2");
  assertEquals(await drain(store), ["d2", "d3"]);
});

testFile("a foreign position in a group holds it until it can be read", async (sut) => {
  const { store, messages, makeForeign } = sut;
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id, "{}", "key"));
  const first = await claimOne(store);
  await store.accept(delivery("o1", "{}", "other"));
  const restore = makeForeign("place", "key");
  await assertRejects(() => store.complete(first), UndecodableError);
  assertEquals(await drain(store), ["o1"]);
  assertEquals([await repairGroups(store), messages], [0, []]);
  restore();
  assert(await store.complete(first));
  assertEquals(await drain(store), ["d2", "d3"]);
});

testFile("a foreign record is claimed around, among however many, and named once", async (sut) => {
  const { store, messages, makeForeign } = sut;
  const ids = Array.from({ length: 40 }, (_, i) => `d${100 + i}`);
  await Promise.all(ids.map((id) => store.accept(delivery(id, JSON.stringify({ id })))));
  makeForeign("event", "d120");
  const leases = await claimAll(store);
  const claimed = leases.map(({ record, body }) => [record.id, new TextDecoder().decode(body)]);
  const others = ids.filter((id) => id !== "d120");
  assertEquals(claimed.toSorted(), others.map((id) => [id, JSON.stringify({ id })]));
  assertEquals(await claimAll(store), []);
  assertEquals(messages, ["event record unreadable, left unhandled"]);
});

testFile("a foreign schedule entry costs a claim few reads, and is told once", async (sut) => {
  const { kv, store, messages, makeForeign } = sut;
  const ids = Array.from({ length: 150 }, (_, i) => `d${1_000 + i}`);
  for (const id of ids) await store.accept(delivery(id));
  makeForeign("due", "d1000");
  let lists = 0;
  const listOf = kv.list.bind(kv);
  kv.list = (...args: Parameters<typeof listOf>) => (lists++, listOf(...args)) as never;
  const claimed = [...idsOf(await claimAll(store)), ...idsOf(await claimAll(store))];
  assertEquals(claimed, ids.slice(1));
  assert(lists <= 16, `${lists} lists`);
  assertEquals(messages, ["schedule entry unreadable, passed over"]);
  assert(await store.cancel("d1000"));
  assert(await store.replay("d1000"));
  assertEquals(idsOf(await claimAll(store)), ["d1000"]);
});

testFile(
  "the records of a console are read around a foreign one",
  async ({ store, makeForeign }) => {
    const records = store.consoleRecords;
    for (const number of [1, 2, 3]) {
      const id = `id${number}`;
      await records.write([{ kind: "act", number, id, value: number, forMs: 60_000 }]);
    }
    makeForeign("act", "id2");
    assertEquals(await Array.fromAsync(records.last("act", 10), ({ value }) => value), [3, 1]);
    assertEquals(await Array.fromAsync(records.last("act", 1), ({ value }) => value), [3]);
    assertEquals(await Array.fromAsync(records.between("act", 0, 9), ({ value }) => value), [1, 3]);
  },
);

testFile("list() reads what is before and behind a foreign value, in order", async (sut) => {
  const { kv, makeForeign } = sut;
  const numbers = Array.from({ length: 8 }, (_, i) => i);
  for (const i of numbers) await setValue(kv, ["ns", "part", i, `key${i}`], i);
  const selectors = [
    { prefix: ["ns", "part"] },
    { start: ["ns", "part", 0], end: ["ns", "part", Infinity] },
  ];
  for (const foreign of [[0], [3], [7], [2, 5]]) {
    const restore = foreign.map((i) => makeForeign("part", `key${i}`));
    const [first, last] = [foreign[0]!, foreign.at(-1)!];
    const wanted = numbers.flatMap((i) =>
      i === first ? [undefined] : i < first || i > last ? i : []
    );
    for (const selector of selectors) {
      for (const batchSize of [1, 3, 100]) {
        for (const reverse of [false, true]) {
          const entries = await Array.fromAsync(list(kv, selector, { batchSize, reverse }));
          const found = entries.map(({ value }) => value);
          assertEquals(found, reverse ? wanted.toReversed() : wanted);
          assertEquals(entries.find(({ value }) => value === undefined)?.key, ["ns", "part"]);
        }
      }
    }
    for (const back of restore) back();
  }
});
