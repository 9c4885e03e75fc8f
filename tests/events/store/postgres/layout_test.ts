import { assertEquals } from "@std/assert";
import type { EventRecord, EventStore } from "../../../../events/mod.ts";
import type { Session } from "../../../../events/store/postgres/_connections.ts";
import { buryAll, claimOne, listed } from "../_events.ts";
import { testPostgres } from "./_stores.ts";

/**
 * Changes an event as a program of the first layout does: with all columns of that, so that those of the problem stay as
 * they are.
 */
async function changeAsOlder(
  db: Session,
  id: string,
  change: (record: EventRecord) => EventRecord,
): Promise<void> {
  const [row] = await db.all<{ record: string }>(
    "select convert_from(record, 'UTF8') as record from @event where id = $1",
    id,
  );
  const record = change(JSON.parse(row!.record));
  const { state, dueAt, settledAt, attempt, receivedAt } = record;
  await db.run(
    `update @event set state = $2, own_due_at = $3::float8, settled_at = $4::float8, attempts = $5::float8,
      received_at = $6::float8, version = 'older', record = convert_to($7, 'UTF8') where id = $1`,
    ...[id, state, dueAt, settledAt, attempt, receivedAt, JSON.stringify(record)],
  );
}

/** Counts the dead events and those that are tried again of all problems, and lists them. */
async function countsOf(store: EventStore) {
  const { problems } = await store.inspect.problems();
  return await Promise.all(problems.map(async ({ id, dead, retrying }) => ({
    ...{ dead: dead.count, retrying: retrying.count, listed: await listed(store, { problem: id }) },
  })));
}

testPostgres(
  "an older program beside this one leaves the counts of problems exact",
  async (sut) => {
    const { store, place } = sut;
    const { db } = await place.openDatabase();
    await buryAll(store, ["d1", "d2", "d3", "d4"]);
    const all = ["d1", "d2", "d3", "d4"];
    assertEquals(await countsOf(store), [{ dead: 4, retrying: 0, listed: all }]);
    const now = Date.now();
    // It handles one, tries another one again, and takes in a delivery in the place of a third one.
    await changeAsOlder(db, "d1", (record) => ({ ...record, state: "done", outcome: "handled" }));
    await changeAsOlder(
      db,
      "d2",
      (record) => ({ ...record, state: "queued", dueAt: now + 60_000, settledAt: null }),
    );
    await changeAsOlder(db, "d3", ({ problem: _, outcome: __, ...record }) => ({
      ...{ ...record, state: "queued", dueAt: now + 60_000, settledAt: null },
      ...{ receivedAt: record.receivedAt + 1, attempt: 0, attempts: [] },
    }));
    assertEquals(await countsOf(store), [{ dead: 1, retrying: 1, listed: ["d2", "d4"] }]);
    const { problems: [problem] } = await store.inspect.problems();
    const { id } = problem!;
    assertEquals((await store.inspect.problems({ id })).problems[0]?.dead.count, 1);
    // What this one changes of them is right as well.
    assertEquals((await store.cancelAll({ problem: id, state: "queued" })).changed, 1);
    await store.cancel("d3");
    await store.replay("d3");
    await store.bury(await claimOne(store), new Error("no"));
    assertEquals(await listed(store, { problem: id, state: "dead" }), ["d3", "d4"]);
    assertEquals((await store.purge({ problem: id })).changed, 2);
    assertEquals(await countsOf(store), []);
  },
);
