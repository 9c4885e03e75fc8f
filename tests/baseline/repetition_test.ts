/** Repetition: what is sent again is not done again. See `_rows.ts`. */
import { forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { running, statuses, testRow } from "./_rows.ts";
import type { Start } from "./_subject.ts";

const delivery = (id: string, body = `{"id":"${id}"}`) =>
  forgeDelivery(body, { "X-Forge-Delivery": id });

testRow({
  what: "a delivery that comes again is one event",
  probe: running(async ({ send, settled }) => {
    await send(await delivery("a"));
    await send(await delivery("a"));
    const copies = Array.from({ length: 20 }, async () => await send(await delivery("b")));
    const answers = new Set((await Promise.all(copies)).map((answer) => answer?.status));
    const starts = await settled(2);
    return [[...answers], ...["a", "b"].map((id) => starts.filter((each) => each === id).length)];
  }),
  wanted: [[200], 1, 1],
  baseline: [[200], 2, 20],
});

testRow({
  what: "a delivery id that is none is answered 400",
  probe: statuses(
    ["a b", "a, b", "x".repeat(10_000), "\xe9"].map((id) => () => delivery(id, "{}")),
  ),
  wanted: [400, 400, 400, 400],
  baseline: [200, 200, 200, 200],
});

const update = (id: number, text = "") =>
  messengerUpdate({
    update_id: id,
    message: { message_id: id, date: 0, chat: { id: 42, type: "private" }, from: { id: 42 }, text },
  }, {
    "X-Messenger-Bot-Api-Secret-Token": null,
    "X-Telegram-Bot-Api-Secret-Token": MESSENGER_SECRET,
  });

testRow({
  what: "updates out of order, and again, are handled once each",
  probe: async (start: Start) => {
    await using subject = await start({ app: "messenger" });
    for (const id of [2, 1, 2, 3, 1]) await subject!.send(update(id));
    return (await subject!.settled(3)).toSorted();
  },
  wanted: ["1", "2", "3"],
  baseline: ["1", "1", "2", "2", "3"],
});

testRow({
  what: "a captured delivery under a fresh id is no second event, if it is asked for",
  probe: async (start: Start) => {
    await using subject = await start({ intake: { replayWindowMs: 60_000 } });
    for (const id of ["first", "second"]) await subject!.send(await delivery(id, `{"id":"a"}`));
    return await subject!.settled(1);
  },
  wanted: ["a"],
  baseline: ["a", "a"],
});

testRow({
  what: "no update is answered 5xx each time, which would hold up the user's later ones",
  probe: async (start: Start) => {
    await using subject = await start({ app: "messenger" });
    const seen: unknown[] = [];
    for (let i = 0; i < 2; i++) {
      seen.push((await subject!.send(update(1, "x".repeat(70_000))))?.status);
    }
    return seen;
  },
  wanted: [200, 200],
  baseline: [500, 500],
});
