import { assertEquals, assertMatch } from "@std/assert";
import { balanceLine, balanceOf } from "../../console/_balance.ts";
import { readOverview } from "../../console/_overview_page.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import type { Activity } from "../../watch/activity.ts";
import { delivery } from "./_board.ts";
import { openData, until } from "./_data.ts";

const NONE = {
  ...{ received: 0, emitted: 0, handled: 0, ignored: 0, dead: 0, cancelled: 0 },
  ...{ failed: 0, parked: 0, putOff: 0, attempts: 0 },
};

/** Makes the sum of an hour, of what was counted and of open events. */
function sumOf(total: object, queued: number, isMore = false) {
  const none = { count: 0, isMore: false };
  const counts = { queued: { count: queued, isMore }, running: none, parked: none };
  const all = { ...counts, done: none, dead: none };
  const totals = { hour: { ...NONE, ...total } };
  return balanceOf({ counts: all, countedAt: 1, totals, activity: null, period: "hour" });
}

const textOf = (sum: ReturnType<typeof sumOf>) =>
  String(balanceLine(sum, "hour", { total: NONE } as Activity));

Deno.test("the sum of the first page adds up, and says what has not come in its time", () => {
  const exact = sumOf(
    { received: 9, emitted: 1, handled: 4, ignored: 1, dead: 2, cancelled: 1 },
    2,
  );
  assertEquals(exact?.others, 0);
  assertMatch(textOf(exact), /9 received \+ 1 of its own = 4 handled .* 2 open \(2 queued/);
  const before = sumOf({ handled: 3 }, 2);
  assertEquals(before?.others, 5);
  assertMatch(
    textOf(before),
    / \+ 5 that were open before, put back, stored by hand, or not counted because a process was killed = 3 hand/,
  );
  const gone = sumOf({ received: 3 }, 1);
  assertEquals(gone?.others, -2);
  assertMatch(
    textOf(gone),
    / − 2 that were ended by hand, or not counted because a process was killed = 0 handled/,
  );
  assertEquals(textOf(exact).includes("killed"), false);
  assertEquals([sumOf({}, 10_000, true), textOf(null).includes("Events of")], [null, false]);
});

Deno.test("what comes after the events were counted is in no part of the sum", async () => {
  using clock = new MonotonicClock();
  await using under = await openData();
  const { data, store } = under;
  const { telemetry } = data;
  const come = async (id: string) => {
    await store.accept(delivery(id));
    telemetry.countDelivery({ platform: "github", type: "issues", outcome: "accepted" });
  };
  const look = () => readOverview(data, new URLSearchParams());
  await come("1");
  const first = await until(async () => {
    clock.advance(60_000);
    const { sum } = await look();
    return sum?.received === 1 && sum.queued === 1 && sum;
  });
  assertEquals([first.received, first.queued, first.others], [1, 1, 0]);
  // The clock stands still, so nothing is counted anew.
  for (const id of ["2", "3"]) await come(id);
  const { sum, activity } = await look();
  assertEquals(activity?.total.received, 3);
  assertEquals([sum?.received, sum?.queued, sum?.others], [1, 1, 0]);
});

Deno.test("attempts that have put events off or parked them are one or several", () => {
  const line = (parked: number, putOff: number) => {
    const total = { ...NONE, parked, putOff };
    return String(balanceLine(null, "hour", { total } as Activity));
  };
  assertMatch(line(1, 1), /1 has parked its event, and 1 put it off\./);
  assertMatch(line(2, 3), /2 have parked their events, and 3 put theirs off\./);
});
