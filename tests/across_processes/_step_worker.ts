/**
 * A worker in a process of its own, whose handlers take steps that call a service, for tests that kill it. Its argument
 * is JSON, see `StepWorkerOptions`.
 */
import { type HandlerContext, startWorker, type WebhookEvent } from "../../mod.ts";
import { ENGINES } from "../events/store/engines/mod.ts";
import type { StepWorkerOptions } from "./_step_service.ts";

const { at, service, leaseMs, steps, reportAfter }: StepWorkerOptions = JSON.parse(Deno.args[0]!);
const engine = ENGINES.find(({ name }) => name === at.engine)!;
const { store, effects } = await engine.openAt(at.address, { log: () => {} });

/** Calls the service, and tells it which process does. */
async function call<T>(path: string, body: object): Promise<T> {
  const init = { method: "POST", body: JSON.stringify({ pid: Deno.pid, ...body }) };
  const response = await fetch(`${service}/${path}`, init);
  return await response.json() as T;
}

/** Takes one step after the other, and says what has come of each. */
async function takeSteps({ id }: WebhookEvent, { step, settleWith }: HandlerContext) {
  const results: number[] = [];
  for (let number = 1; number <= steps; number++) {
    const result = await step(`step ${number}`, () => call<number>("calls", { id, number }));
    await call("returned", { id, number, result });
    results.push(result);
  }
  settleWith(effects.create(`result/${id}`, JSON.stringify(results)));
}

/** Writes a comment that must be there once. */
async function comment({ id }: WebhookEvent, { step, settleWith }: HandlerContext) {
  const number = await step("comment", async () => {
    await call("stages", { id, stage: "before the call" });
    return await call<number>("comments", { id });
  }, { unknown: async () => await call<number | null>("find", { id }) ?? undefined });
  await call("stages", { id, stage: "after it is stored" });
  settleWith(effects.create(`result/${id}`, number));
}

/** Fails as long as the service wants, and counts the reports of that. */
async function fail(
  { id, attempt, source, payload }: WebhookEvent,
  { settleWith }: HandlerContext,
) {
  if (source === "failing") return settleWith(effects.add(`reports/${payload.id}`, 1));
  if (!await call("attempts", { id, attempt })) throw new Error("not yet");
}

const handler = reportAfter ? fail : steps > 0 ? takeSteps : comment;
startWorker(store, (event, context) => handler(event, context), {
  reportFailing: reportAfter ? [{ afterAttempts: reportAfter }] : [],
  leaseMs,
  pollMs: 100,
  log: () => {},
  retry: { minDelayMs: 1, maxDelayMs: 1, maxAttempts: 1_000 },
});
