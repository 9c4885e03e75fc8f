/** Answers that appear while they are made, against APIs that enforce their limits. */
import { Octokit } from "@octokit/core";
import { assert, assertEquals } from "@std/assert";
import { Api } from "grammy/web";
import { setTimeout as wait } from "node:timers/promises";
import { bot as commentBot } from "../../examples/live_comment.ts";
import { bot as textBot } from "../../examples/live_text.ts";
import type { App } from "../../app/mod.ts";
import { sqlite } from "../../mod.ts";
import { forgeDelivery, messengerUpdate, startTestBot } from "../../testing/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { WallClock } from "../_wall_clock.ts";
import { reach } from "../events/worker/_worker.ts";
import { GITHUB, type LimitedApi, startLimited, TELEGRAM, type Trouble } from "./_limited_api.ts";
import { BOT_TOKEN } from "./_telegram.ts";

/** Texts shown of an answer of six words, of which there is room for two: the others wait for the next edit. */
const SHOWN = ["…", " a1", " a1 b1 c1 a2", " a1 b1 c1 a2 b2 c2"];

const FIRST = "…", WHOLE = SHOWN.at(-1)!;

const message = () =>
  messengerUpdate({
    message: { message_id: 1, from: { id: 42 }, chat: { id: 1, type: "private" }, text: "why" },
  });

const comment = () =>
  forgeDelivery("issue_comment", {
    action: "created",
    comment: { id: 1, body: "/ask why", created_at: "2026-01-01T00:00:00Z" },
    issue: { number: 7 },
    repository: { id: 1, full_name: "octo/app", name: "app", owner: { login: "octo" } },
  });

/** The platforms, the time after which there is room for another edit, and the texts if the first call's fate is unknown. */
const PLATFORMS = {
  telegram: {
    ...{ bot: textBot as App, file: "live_text.ts", dialect: TELEGRAM, deliver: message },
    ...{ roomMs: 2_000, unknown: [FIRST, WHOLE] },
  },
  github: {
    ...{ bot: commentBot as App, file: "live_comment.ts", dialect: GITHUB, deliver: comment },
    ...{ roomMs: 6_000, unknown: [WHOLE] },
  },
};

/** Options of the bot, whose model is the test's. */
function optionsOf(api: LimitedApi, model: typeof answer, file?: string) {
  const env = { TELEGRAM_BOT_TOKEN: BOT_TOKEN, GITHUB_TOKEN: "none" };
  const resources = {
    api: new Api(BOT_TOKEN, { apiRoot: api.url }),
    octokit: new Octokit({ baseUrl: api.url }),
    model,
  };
  return file === undefined
    ? { env, resources }
    : { env: { ...env, SQLITE_FILE: file }, resources, store: sqlite() };
}

async function* answer(_question: string, _signal: AbortSignal): AsyncGenerator<string> {
  yield await Promise.resolve("fine");
}

/** Makes a model that writes on while there is no room, and turns the clock only while no call is on its way. */
function writing(api: LimitedApi, clock: WallClock, roomMs: number) {
  const asked: string[] = [];
  async function* model(question: string, signal: AbortSignal): AsyncGenerator<string> {
    asked.push(question);
    const hung = api.hangs;
    for (const i of [1, 2]) {
      clock.advance(roomMs);
      const release = api.withhold();
      const before = api.calls.length;
      yield ` a${i}`;
      while (api.calls.length === before && !api.isClosed) {
        await wait(1);
        yield "";
      }
      if (api.hangs && !hung) await new Promise((_, reject) => rejectOn(signal, reject));
      yield ` b${i}`;
      yield ` c${i}`;
      release();
    }
    clock.advance(roomMs);
  }
  return { model, asked };
}

function rejectOn(signal: AbortSignal, reject: (reason: unknown) => void): void {
  if (signal.aborted) reject(signal.reason);
  signal.addEventListener("abort", () => reject(signal.reason));
}

const textsOf = (texts: readonly string[]) => texts.map((text) => text.replace(/\n<!--.*/, ""));

for (const [name, platform] of Object.entries(PLATFORMS)) {
  const { bot, file, dialect, deliver, roomMs, unknown } = platform;
  testWith(["net"], `examples/${file} shows an answer on ${name}`, async () => {
    using clock = new WallClock();
    await using api = startLimited(dialect);
    const { model } = writing(api, clock, roomMs);
    await using test = await startTestBot(bot, optionsOf(api, model));
    const { event } = await test.deliver(deliver());
    assertEquals([event?.state, api.refused], ["done", 0]);
    assertEquals([textsOf(api.shown), textsOf(api.texts)], [SHOWN, [WHOLE]]);
  });

  testWith(
    ["net"],
    `examples/${file} leaves edits out that ${name} would refuse`,
    async () => {
      using clock = new WallClock();
      await using api = startLimited(dialect);
      const options = optionsOf(api, async function* () {
        for (let i = 0; i < 50; i++) {
          await wait(1);
          yield "x";
        }
        clock.advance(roomMs);
      });
      await using test = await startTestBot(bot, options);
      assertEquals((await test.deliver(deliver())).event?.state, "done");
      assertEquals([textsOf(api.texts), api.refused], [["x".repeat(50)], 0]);
      assert(api.shown.length <= 4, `${api.shown.length} texts were shown`);
    },
  );

  for (const at of [1, 2, 3, 4]) {
    testWith(["net"], `examples/${file} obeys ${name}, which refuses call ${at}`, async () => {
      using clock = new WallClock();
      await using api = startLimited(dialect, { at, as: "is refused" });
      const { model, asked } = writing(api, clock, roomMs);
      await using test = await startTestBot(bot, optionsOf(api, model));
      const { event } = await test.deliver(deliver(), { expectFailure: true });
      await test.advance(60_000, { expectFailure: true });
      assertEquals((await test.store.get(event!.id))?.state, "done");
      assertEquals([textsOf(api.texts), api.refused, asked.length], [[WHOLE], 1, 1]);
    });
  }

  const troubles: readonly (Trouble & { readonly asked: number })[] = [
    { at: 1, as: "hangs before", asked: 1 },
    { at: 1, as: "hangs after", asked: 1 },
    { at: 2, as: "hangs after", asked: 2 },
    { at: 3, as: "hangs after", asked: 2 },
    { at: 4, as: "hangs before", asked: 1 },
    { at: 4, as: "hangs after", asked: 1 },
  ];
  for (const trouble of troubles) {
    const { at, as } = trouble;
    const lost = `goes on with ${name} if its lease is lost while call ${at} ${as} its effect`;
    testWith(
      ["net", "read", "write"],
      `examples/${file} ${lost}`,
      () =>
        withFolder(async (folder) => {
          using clock = new WallClock();
          await using api = startLimited(dialect, trouble);
          const { model, asked } = writing(api, clock, roomMs);
          const options = optionsOf(api, model, `${folder}/bot.db`);
          await using first = await startTestBot(bot, options);
          const delivered = first.deliver(deliver(), { expectFailure: true }).catch(() => {});
          while (!api.hangs) await wait(1);
          clock.advance(60_000);
          await using second = await startTestBot(bot, options);
          await second.advance(0);
          const [event] = await Array.fromAsync(second.store.list());
          await reach(second.store, event!.id, "done");
          assertEquals([asked.length, api.refused], [trouble.asked, 0]);
          const isUnknown = at === 1 && as === "hangs after";
          assertEquals(textsOf(api.texts), isUnknown ? unknown : [WHOLE]);
          await first[Symbol.asyncDispose]();
          await delivered;
        }),
    );
  }
}

testWith(["net"], "examples/live_comment.ts keeps to GitHub's limits with 45 answers", async () => {
  await using api = startLimited(GITHUB);
  await using test = await startTestBot(commentBot as App, optionsOf(api, answer));
  for (let i = 0; i < 45; i++) await test.deliver(comment());
  const waiting = await Array.fromAsync(test.store.list({ state: "queued" }));
  assert(waiting.length > 0, "there was room for all");
  await test.advance(1_200_000);
  assertEquals(textsOf(api.texts), Array.from({ length: 45 }, () => "fine"));
  assertEquals(api.refused, 0);
});
