import type { EventStore } from "../../mod.ts";
import { byLength } from "../_length.ts";
import { until } from "../../dev/harness/until.ts";
import { type AppProcess, type ProcessOptions, startProcess } from "./_process.ts";

/** Starts an app, sends it deliveries, kills it in the midst, and notes the ids sent and acknowledged. */
export async function killSending(
  options: Omit<ProcessOptions, "secret">,
  sent: Set<string>,
  acknowledged: Set<string>,
  connections: number,
): Promise<void> {
  await using app = await startProcess(options);
  const lifeMs = 200 + Math.random() * byLength(1_000, 300);
  const killing = new Promise((resolve) => setTimeout(resolve, lifeMs));
  const sending = Promise.all(Array.from({ length: connections }, async () => {
    await sendUntilGone(app, sent, acknowledged);
  }));
  await killing;
  app.signal("SIGKILL");
  await sending;
}

/** Waits until a store has no open events. */
export async function untilSettled(store: EventStore): Promise<void> {
  await until(async () => {
    const { queued, running } = await store.stats();
    return queued + running === 0;
  }, 240_000);
}

async function sendUntilGone(app: AppProcess, sent: Set<string>, acknowledged: Set<string>) {
  for (;;) {
    const id = crypto.randomUUID();
    sent.add(id);
    const status = await app.deliver(id);
    if (status === undefined) return;
    if (status === 200) acknowledged.add(id);
  }
}
