/**
 * A worker in a process of its own, whose handlers hear of newer events, for tests that kill it. Each leaves an effect for
 * each event that it has handled. Its argument is JSON, see `StepWorkerOptions`.
 */
import { type HandlerContext, type JsonObject, startWorker, type WebhookEvent } from "../../mod.ts";
import { pause } from "../../dev/harness/until.ts";
import { ENGINES } from "../events/store/engines/mod.ts";
import type { StepWorkerOptions } from "./_step_service.ts";

const { at, leaseMs, service }: StepWorkerOptions = JSON.parse(Deno.args[0]!);
const engine = ENGINES.find(({ name }) => name === at.engine)!;
const { store, effects } = await engine.openAt(at.address, { log: () => {} });

/** Number of turns of a handler, and the longest time of one, in milliseconds. */
const [TURNS, TURN_MS] = [4, 400] as const;

/** Time between two reports of how many handlers run, in milliseconds. */
const REPORT_MS = 100;

let running = 0;

async function handle(
  { batch, payload }: WebhookEvent<JsonObject>,
  { signal, takeNewer, settleWith }: HandlerContext,
): Promise<void> {
  const handled = [...batch];
  for (let turn = 0; turn < TURNS; turn++) {
    await pause(Math.random() * TURN_MS);
    if (payload.newer === "steer") handled.push(...await takeNewer());
    else signal.throwIfAborted();
  }
  for (const { id } of handled) settleWith(effects.add(`settled/${id}`, 1));
}

/** Tells the service again and again how many handlers run. */
async function report(): Promise<never> {
  for (;; await pause(REPORT_MS)) {
    const body = JSON.stringify({ pid: Deno.pid, running });
    await (await fetch(`${service}/running`, { method: "POST", body })).body?.cancel();
  }
}

const counted: typeof handle = async (event, context) => {
  running++;
  await handle(event, context).finally(() => running--);
};

report();
startWorker(store, counted, {
  ...{ leaseMs, pollMs: 100, concurrency: 32, log: () => {} },
  retry: { minDelayMs: 1, maxDelayMs: 1, maxAttempts: 1_000 },
});
