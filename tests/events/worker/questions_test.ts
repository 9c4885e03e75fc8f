/** Questions that a handler asks, and the answers of others. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import type { AnswerResult, AskOptions } from "../../../events/mod.ts";
import { checkQuestion } from "../../../events/worker/questions.ts";
import { ownName } from "../../../events/store/waits.ts";
import { defineApp, github, kv, sqlite } from "../../../mod.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../../testing/mod.ts";
import { testWith } from "../../_permissions.ts";

const DAY_MS = 86_400_000;

const STORES = { kv: () => kv(), sqlite: () => sqlite() } as const;

/** A bot that asks on `push`, and takes answers on `star`. */
interface Asking {
  readonly bot: TestBot;
  /** Names that questions were sent with. */
  readonly names: string[];
  /** Results of the asking handlers. */
  readonly answers: unknown[];
  /** Delivers an answer, and returns what became of it. */
  press(name: unknown, by?: number): Promise<AnswerResult>;
  /** Delivers answers of several senders, in one batch, and returns what became of each. */
  pressTogether(
    name: unknown,
    senders: readonly (number | undefined)[],
  ): Promise<readonly AnswerResult[]>;
  /** Makes the next tries to send fail. */
  failSending(times: number): void;
}

function testQuestions(
  name: string,
  options: AskOptions,
  fn: (sut: Asking) => Promise<void>,
  send: (name: string) => unknown = () => {},
): void {
  for (const [engine, store] of Object.entries(STORES)) {
    testWith(engine === "kv" ? [] : ["read", "write"], `${name} [${engine}]`, async () => {
      const [names, answers, results]: [string[], unknown[], AnswerResult[]] = [[], [], []];
      let failures = 0;
      const app = defineApp({
        name: "bot",
        platform: github({
          groupBy: ({ type }) => type === "watch" ? { key: "together", quietMs: 1_000 } : undefined,
        }),
        store: store() as ReturnType<typeof kv>,
      });
      app.on("push", async (_event, { ask }) => {
        answers.push(
          await ask("approval", (name) => {
            if (failures-- > 0) throw new Error("not sent");
            names.push(name);
            return send(name);
          }, options),
        );
      });
      app.on("star", async ({ payload }, { answer }) => {
        results.push(await answer((payload as { name?: string }).name, "yes"));
      });
      app.on("watch", async ({ batch }, { answer }) => {
        for (const { payload } of batch) {
          results.push(await answer((payload as { name?: string }).name, "yes"));
        }
      });
      app.on("fork", ({ payload }, { wake }) => {
        wake((payload as { name?: string }).name!, { value: "yes", by: 4711 });
      });
      app.on("create", async ({ payload }, { waitFor }) => {
        await waitFor((payload as { name?: string }).name!);
      });
      await using bot = await startTestBot(app);
      const senderOf = (id?: number) => id ? { id, login: "someone", type: "User" } : undefined;
      const press = async (name: unknown, by = 4711) => {
        await bot.deliver(forgeDelivery("star", { name, sender: senderOf(by) }));
        return results.at(-1)!;
      };
      const pressTogether = async (name: unknown, senders: readonly (number | undefined)[]) => {
        for (const by of senders) {
          await bot.deliver(forgeDelivery("watch", { name, sender: senderOf(by) }));
        }
        await bot.advance(1_000);
        return results.slice(-senders.length);
      };
      const failSending = (times: number) => void (failures = times);
      await fn({ bot, names, answers, press, pressTogether, failSending });
    });
  }
}

const ask = (bot: TestBot) => bot.deliver(forgeDelivery("push", {}), { expectFailure: true });

testQuestions(
  "a stranger, a second press and a foreign button are told apart",
  { by: [4711, 4712] },
  async ({ bot, names, answers, press }) => {
    await ask(bot);
    const [name] = names;
    assertMatch(name!, /^[0-9A-Za-z]{22}$/);
    assertEquals(await press(name, 1), { outcome: "refused" });
    for (const foreign of [undefined, "", "approval", "x".repeat(22), "x".repeat(5_000)]) {
      assertEquals(await press(foreign), { outcome: "unknown" });
    }
    assertEquals(answers, []);
    assertEquals(await press(name), { outcome: "taken" });
    assertEquals(answers, [{ value: "yes", by: 4711, timedOut: false, sent: undefined }]);
    const { outcome, by } = await press(name, 4712);
    assertEquals([outcome, by, names.length], ["late", 4711, 1]);
  },
);

testQuestions(
  "a question that nobody answers in time is over, and tells what was sent",
  { timeoutMs: DAY_MS },
  async ({ bot, names, answers, press }) => {
    await ask(bot);
    await bot.advance(DAY_MS);
    assertEquals(answers, [{
      ...{ value: undefined, by: undefined, timedOut: true },
      sent: { id: 7 },
    }]);
    assertEquals(await press(names[0]), { outcome: "over" });
  },
  () => ({ id: 7 }),
);

testQuestions(
  "a question of an event that was cancelled is over",
  {},
  async ({ bot, names, press }) => {
    const { event } = await ask(bot);
    assertEquals(await bot.store.cancel(event!.id), true);
    assertEquals(await press(names[0]), { outcome: "over" });
  },
);

testQuestions(
  "a question of an event that begins anew is over, and the new one is answered",
  {},
  async ({ bot, names, answers, press }) => {
    const { event } = await ask(bot);
    await bot.store.cancel(event!.id);
    assertEquals(await bot.store.replay(event!.id, { fresh: true }), true);
    await bot.advance(0);
    assertEquals(await press(names[0]), { outcome: "over" });
    assertEquals([await press(names[1]), answers.length], [{ outcome: "taken" }, 1]);
  },
);

for (
  const [other, outcome] of [[4711, "taken"], [13, "refused"], [undefined, "refused"]] as const
) {
  testQuestions(
    `an answer that is handled together with an event of ${other} is ${outcome}`,
    { by: [4711] },
    async ({ bot, names, pressTogether }) => {
      await ask(bot);
      const results = await pressTogether(names[0], [4711, other]);
      assertEquals(results, [{ outcome }, { outcome }]);
    },
  );
}

testQuestions(
  "a question can be answered for as long as its event waits, however late it was sent",
  { timeoutMs: 60_000 },
  async ({ bot, names, answers, press, failSending }) => {
    failSending(6);
    await ask(bot);
    let waitedMs = 0;
    for (; names.length === 0; waitedMs += 5_000) await bot.advance(5_000, { expectFailure: true });
    assert(waitedMs > 60_000);
    await bot.advance(50_000);
    assertEquals(await press(names[0]), { outcome: "taken" });
    assertEquals(answers.length, 1);
  },
);

testQuestions(
  "what was sent and cannot be kept does not fail the question",
  {},
  async ({ bot, names, answers, press }) => {
    const { event } = await ask(bot);
    assertEquals(event?.state, "parked");
    await press(names[0]);
    assertEquals(answers, [{ value: "yes", by: 4711, timedOut: false, sent: undefined }]);
  },
  () => ({ text: "x".repeat(600_000) }),
);

testQuestions(
  "a route answers in the name of a sender, and the first answer counts",
  { by: [4711] },
  async ({ bot, names, answers }) => {
    await ask(bot);
    const { store } = bot;
    const [name] = names;
    assertEquals(await store.answer(name, 1), { outcome: "refused" });
    const both = await Promise.all([
      store.answer(name, 1, { by: 4711 }),
      store.answer(name, 2, { by: 4711 }),
    ]);
    const outcomes = both.map(({ outcome }) => outcome);
    // By then the worker may have handled the event with the first one.
    const second = outcomes.includes("over") ? "over" : "late";
    assertEquals(outcomes.toSorted(), [second, "taken"]);
    await bot.advance(1_000);
    assertEquals(answers.length, 1);
    await assertRejects(() => store.answer(name, () => {}, { by: 4711 }), TypeError, "JSON");
  },
);

testQuestions(
  "nobody answers past the check of the senders, by waking the name that the event waits for",
  { by: [4711] },
  async ({ bot, names, answers, press }) => {
    const { event } = await ask(bot);
    const waitsFor = `ask/${names[0]}`;
    assertEquals(event?.waitingFor?.name, waitsFor);
    const forged = { value: "yes", by: 4711 };
    const message = `Cannot wake "${waitsFor}": names that begin with ask/ are those of questions`;
    await assertRejects(() => bot.store.wake(waitsFor, forged), TypeError, message);
    const waking = bot.store.transact((_db, { wake }) => wake(waitsFor, forged));
    await assertRejects(() => waking, TypeError, message);
    for (const [type, doing] of [["fork", "wake"], ["create", "wait for"]] as const) {
      const delivery = forgeDelivery(type, { name: waitsFor });
      const { event: other } = await bot.deliver(delivery, { expectFailure: true });
      assertStringIncludes(other!.attempts.at(-1)!.error!, `Cannot ${doing} "${waitsFor}"`);
    }
    assertEquals(answers, []);
    assertEquals(await press(names[0]), { outcome: "taken" });
    assertEquals(answers.length, 1);
  },
);

testWith([], "a batch asks nobody, and dies with what to do instead", async () => {
  let sent = 0;
  const app = defineApp({
    name: "bot",
    platform: github({ groupBy: () => ({ key: "together", quietMs: 1_000 }) }),
    store: kv(),
  });
  app.on("push", async (_event, { ask }) => void await ask("approval", () => void sent++));
  await using bot = await startTestBot(app);
  const { event } = await bot.deliver(forgeDelivery("push", {}));
  await bot.deliver(forgeDelivery("push", {}));
  await bot.advance(1_000, { expectFailure: true });
  const { state, attempts } = (await bot.store.get(event!.id))!;
  assertEquals([sent, state, attempts.length], [0, "dead", 1]);
  assertStringIncludes(attempts[0]!.error!, "Emit an event, and ask");
});

Deno.test("names of questions are letters and digits, so that none looks like an option", () => {
  const names = Array.from({ length: 500 }, (_, i) => ownName({ id: `forge:${i}` }, "ask/a"));
  for (const name of names) assertMatch(name, /^[0-9A-Za-z]{22}$/);
  assertEquals(new Set(names).size, names.length);
});

for (
  const [by, flaw] of [
    [[], "got none: nobody could answer. Leave it out for anybody"],
    [[4711, NaN], "which are whole numbers: the one at 1 is NaN"],
    [["4711"], 'which are whole numbers: the one at 0 is "4711"'],
    [Array.from({ length: 1_001 }, (_, i) => i), "got 1001"],
    [4711, "got 4711"],
  ] as const
) {
  Deno.test(`a question to senders of whom it is said that ${flaw} is refused`, () => {
    const message = `Cannot ask "a": 'by' must be a list of 1 to 1000 ids of senders, ${flaw}`;
    const error = assertThrows(() => checkQuestion("a", () => {}, { by }), TypeError);
    assertEquals(error.message, message);
  });
}
