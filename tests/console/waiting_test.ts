import { assertEquals } from "@std/assert";
import { waitOf } from "../../console/_format.ts";
import type { EventRecord } from "../../events/mod.ts";
import { type BoardUnderTest, delivery, openBoard } from "./_board.ts";

const HOUR = 3_600_000;

/** Stores an event and leases it: the others are not due. */
async function claimed({ store }: BoardUnderTest, id: string) {
  await store.accept(delivery(id));
  return (await store.claim({ limit: 1, owner: "w", leaseMs: HOUR }))[0]!;
}

/** Tells what an event waits for, some time before its own. */
async function waitAt({ store }: BoardUnderTest, id: string, leftMs: number) {
  const record = await store.get(id) as EventRecord;
  return waitOf(record, (record.waitingFor?.until ?? record.dueAt ?? 0) - leftMs);
}

Deno.test("an open event says what it waits for", async () => {
  await using board = await openBoard();
  const { store } = board;
  await store.retry(await claimed(board, "retried"), HOUR, new Error("busy"));
  await store.release(await claimed(board, "off"), { delayMs: HOUR, reason: "night" });
  await store.release(await claimed(board, "limited"), { delayMs: HOUR, isLimited: true });
  const rated = { delayMs: HOUR, isLimited: true, limit: "github" };
  await store.release(await claimed(board, "rated"), rated);
  await store.park(await claimed(board, "asking"), { name: "approval", timeoutMs: HOUR });
  await claimed(board, "runs");
  await store.cancel((await claimed(board, "stopped")).record.id);
  await store.emit("jobs", "digest", {}, { id: "later", delayMs: HOUR });
  const together = { id: "together", delayMs: HOUR, group: "g", quietMs: HOUR };
  await store.emit("jobs", "digest", {}, together);
  await store.accept(delivery("quiet", { orderingKey: "q", quietMs: HOUR, maxWaitMs: 2 * HOUR }));
  for (const id of ["first", "second"]) await store.accept(delivery(id, { orderingKey: "k" }));
  const cases: readonly (readonly [string, number, string | undefined])[] = [
    ["github:retried", 90_000, "retry in 1 min 30 s"],
    ["github:retried", -90_000, "due for 1 min 30 s"],
    ["github:off", 90_000, "put off, in 1 min 30 s"],
    ["github:limited", 90_000, "handler busy, in 1 min 30 s"],
    ["github:rated", 90_000, "no room, in 1 min 30 s"],
    ["github:limited", -90_000, "due for 1 min 30 s"],
    ["github:asking", 90_000, "1 min 30 s at most"],
    ["github:asking", -1, "its time is over"],
    ["github:runs", 90_000, undefined],
    ["github:runs", -90_000, "lease over for 1 min 30 s"],
    ["github:stopped", 90_000, "cancelled"],
    ["jobs:later", 90_000, "planned in 1 min 30 s"],
    ["jobs:together", 90_000, "planned in 1 min 30 s"],
    ["github:quiet", 90_000, "until quiet, in 1 min 30 s"],
    ["github:first", 0, "due"],
    ["github:first", -90_000, "due for 1 min 30 s"],
    ["github:second", 0, "behind others"],
  ];
  for (const [id, leftMs, expected] of cases) {
    assertEquals(await waitAt(board, id, leftMs), expected, `${id}, ${leftMs}`);
  }
});

Deno.test("an event that has failed after it was put off waits for a retry", async () => {
  await using board = await openBoard();
  const { store } = board;
  const claim = async () => (await store.claim({ limit: 1, owner: "w", leaseMs: HOUR }))[0]!;
  await store.accept(delivery("1"));
  await store.release(await claim(), { delayMs: 0, reason: "night" });
  await store.retry(await claim(), HOUR, new Error("busy"));
  const { putOff, attempts, ...others } = await store.get("github:1") as EventRecord;
  const failedAt = putOff!.at + 1;
  const record = { ...others, putOff, attempts: [{ ...attempts[0]!, endedAt: failedAt }] };
  assertEquals(waitOf(record, others.dueAt! - 1_000), "retry in 1.0 s");
});

Deno.test("the list of deliveries says what each waits for", async () => {
  await using board = await openBoard();
  for (const id of ["1", "2"]) await board.store.accept(delivery(id, { orderingKey: "k" }));
  const response = await board.get("/deliveries", { Cookie: await board.login() });
  assertEquals((await response.text()).match(/behind others|>due/g), ["behind others", ">due"]);
});
