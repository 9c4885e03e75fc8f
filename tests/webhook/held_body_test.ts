/** Tests of the share of the body budget that a delivery holds from its verification to its commit. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { errorHandler, HttpError } from "../../middleware/mod.ts";
import { BodyBudget } from "../../webhook/body_budget.ts";

import { HeldBody } from "../../webhook/read_body.ts";
import type { AcceptResult } from "../../events/mod.ts";
import type { IntakeStore } from "../../webhook/intake.ts";
import { FORGE_SECRET, forgeDelivery, type SignedRequest } from "../_deliveries.ts";
import { forgeIntake } from "./_intakes.ts";

const LARGE = 100_000;

/** A delivery of so many bytes. */
function sized(bytes: number, headers: Record<string, string> = {}): SignedRequest {
  const body = JSON.stringify({ text: "x".repeat(bytes - `{"text":""}`.length) });
  return forgeDelivery(body, headers);
}

/** An intake with room for two large bodies, whose store answers when it is told to. */
function stuckIntake(maxTotalBodyBytes = 2 * LARGE) {
  const answers: PromiseWithResolvers<AcceptResult>[] = [];
  const store: IntakeStore = {
    maxPayloadBytes: LARGE,
    retentionMs: LARGE,
    accept: () => {
      const answer = Promise.withResolvers<AcceptResult>();
      answers.push(answer);
      return answer.promise;
    },
  };
  const options = { secrets: [FORGE_SECRET], store, maxBodyBytes: LARGE, maxTotalBodyBytes };
  const intake = forgeIntake(options);
  intake.onError(errorHandler);
  const send = async (delivery: SignedRequest) => {
    const response = await intake.request("/webhook", delivery);
    return [response.status, response.headers.get("X-Error-Code")];
  };
  return {
    answers,
    send,
    post: async (...args: Parameters<typeof sized>) => await send(await sized(...args)),
    /** Waits until the store was called so often. */
    called: async (count: number) => {
      while (answers.length < count) await new Promise((resolve) => setTimeout(resolve));
    },
  };
}

const OK = [200, null];
const OVERLOADED = [503, "OVERLOADED"];

for (const [what, bytes] of [["small", 60_000], ["large", LARGE]] as const) {
  Deno.test(`${what} bodies are held until the store has answered, and one too many is refused`, async () => {
    const { post, answers, called } = stuckIntake(Math.max(bytes, LARGE));
    const first = post(bytes);
    await called(1);
    assertEquals(await post(bytes), OVERLOADED);
    answers[0]!.resolve({ id: "1", duplicate: false });
    assertEquals(await first, OK);
    const next = post(bytes);
    await called(2);
    answers[1]!.resolve({ id: "2", duplicate: true });
    assertEquals(await next, OK);
  });
}

Deno.test("a body is let go of when its store fails", async () => {
  const { post, answers, called } = stuckIntake(LARGE);
  for (const count of [1, 2, 3]) {
    const failing = post(LARGE);
    await called(count);
    answers.at(-1)!.reject(new Error("disk full"));
    assertEquals(await failing, [503, "QUEUE_UNAVAILABLE"]);
  }
});

Deno.test("a body is let go of that is forged, or no delivery", async () => {
  const { post, answers, called } = stuckIntake(LARGE);
  const forged = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` };
  for (let i = 0; i < 3; i++) {
    assertEquals(await post(LARGE, forged), [401, "INVALID_SIG"]);
    assertEquals(await post(LARGE, { "X-Forge-Event": "?" }), [400, "INVALID_EVENT"]);
  }
  const genuine = post(LARGE);
  await called(1);
  answers[0]!.resolve({ id: "1", duplicate: false });
  assertEquals(await genuine, OK);
});

Deno.test("a body whose store takes too long is held for as long as the store holds it", async () => {
  const { post, answers } = stuckIntake(LARGE);
  using time = new FakeTime();
  const late = post(LARGE);
  while (answers.length < 1) await time.tickAsync(1);
  await time.tickAsync(5_000);
  assertEquals(await late, [503, "QUEUE_UNAVAILABLE"]);
  assertEquals(await post(LARGE), OVERLOADED);
  answers[0]!.resolve({ id: "1", duplicate: false });
  await time.tickAsync(1);
  const next = post(LARGE);
  while (answers.length < 2) await time.tickAsync(1);
  answers[1]!.resolve({ id: "2", duplicate: false });
  assertEquals(await next, OK);
});

Deno.test("large bodies that were verified wait for room to work on them, and are refused after 5 s", async () => {
  // A quarter of it is room for one.
  const { send, answers } = stuckIntake(4 * LARGE);
  const deliveries = await Promise.all([sized(LARGE), sized(LARGE), sized(LARGE)]);
  using time = new FakeTime();
  const outcomes = deliveries.map(send);
  for (let turn = 0; turn < 50; turn++) await time.tickAsync(1);
  assertEquals(answers.length, 1);
  answers[0]!.resolve({ id: "1", duplicate: false });
  while (answers.length < 2) await time.tickAsync(1);
  const answered = Promise.all(outcomes);
  let isAnswered = false;
  answered.then(() => isAnswered = true);
  while (!isAnswered) await time.tickAsync(5_000);
  assertEquals(await answered, [OK, [503, "QUEUE_UNAVAILABLE"], OVERLOADED]);
});

for (const outcome of ["resolve", "reject"] as const) {
  Deno.test(`HeldBody.close() waits until what holds the body ${outcome}s`, async () => {
    const budget = new BodyBudget(100);
    const share = budget.open(() => {});
    share.add(4);
    const body = new HeldBody(new Uint8Array(4), share);
    const holder = Promise.withResolvers<void>();
    assertEquals(body.holdUntil(holder.promise), holder.promise);
    body.close();
    await Promise.resolve();
    assertEquals(budget.bytes, 4);
    holder[outcome]();
    await holder.promise.catch(() => {});
    assertEquals(budget.bytes, 0);
  });
}

Deno.test("BodyBudget evicts nothing that is kept, and what comes to be too much instead", () => {
  const budget = new BodyBudget(400_000);
  const evicted: string[] = [];
  const open = (name: string) => budget.open(() => evicted.push(name));
  const kept = open("kept");
  kept.add(300_000);
  assertEquals(kept.keep(), undefined);
  open("arriving").add(100_000);
  open("too much").add(300_001);
  assertEquals([evicted, kept.isEvicted], [["arriving", "too much"], false]);
  assertEquals([budget.bytes, budget.reserve(100_001)], [300_000, null]);
  kept.close();
  kept.close();
  assertEquals(budget.bytes, 0);
});

Deno.test("BodyBudget does not keep what it has evicted", () => {
  const budget = new BodyBudget(100_000);
  const share = budget.open(() => {});
  share.add(100_001);
  assertThrows(() => share.keep(), HttpError, "Service Unavailable");
  assertEquals(budget.bytes, 0);
});

Deno.test("BodyBudget lets large bodies be worked on in their order, as many as fit a quarter", async () => {
  const budget = new BodyBudget(1_200_000);
  const done: string[] = [];
  const keep = (name: string, bytes: number) => {
    const share = budget.open(() => {});
    share.add(bytes);
    const room = share.keep();
    room?.then(() => done.push(name), () => done.push(`${name} closed`));
    return { share, room };
  };
  const [a, b] = [keep("a", 150_000), keep("b", 150_000)];
  assertEquals([a.room, b.room], [undefined, undefined]);
  const [c, d] = [keep("c", 300_000), keep("d", 70_000)];
  const small = keep("small", 65_536);
  assertEquals(small.room, undefined);
  a.share.close();
  await Promise.resolve();
  assertEquals(done, []); // What came first is not overtaken by what fits.
  d.share.close();
  b.share.close();
  await c.room;
  await assertRejects(() => d.room!, HttpError, "Service Unavailable");
  assertEquals(done.sort(), ["c", "d closed"]);
  for (const { share } of [c, small]) share.close();
  assertEquals(budget.bytes, 0);
});
