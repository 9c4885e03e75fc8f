import type { EventRecord, EventStore } from "../../mod.ts";
import { byLength } from "../_length.ts";
import { pause, until } from "../../dev/harness/until.ts";
import { type AppProcess, type StartOptions, startProcess } from "./_process.ts";

/**
 * Starts an app, sends it deliveries, kills it in the midst, and notes the ids sent and acknowledged. It lives for a
 * while, and until it has acknowledged as many as are given.
 */
export async function killSending(
  options: StartOptions,
  sent: Set<string>,
  acknowledged: Set<string>,
  connections: number,
  atLeast = 0,
): Promise<void> {
  await using app = await startProcess(options);
  const lifeMs = 200 + Math.random() * byLength(1_000, 300);
  const enough = acknowledged.size + atLeast;
  const killing = pause(lifeMs).then(() => until(() => acknowledged.size >= enough, 60_000));
  const sending = Promise.all(
    Array.from({ length: connections }, () => sendUntilGone(app, sent, acknowledged)),
  );
  await killing;
  app.signal("SIGKILL");
  await sending;
}

/** Waits until a store has no open events. */
export async function untilSettled(store: EventStore): Promise<void> {
  await until(async () => {
    const { queued, running, parked } = await store.stats();
    return queued + running + parked === 0;
  }, 600_000);
}

/** Sends deliveries until an app is gone, or the signal says so, and notes the ids sent and acknowledged. */
export async function sendUntilGone(
  app: AppProcess,
  sent: Set<string>,
  acknowledged: Set<string>,
  signal?: AbortSignal,
): Promise<void> {
  while (!signal?.aborted) {
    const id = crypto.randomUUID();
    sent.add(id);
    const status = await app.deliver(id);
    if (status === undefined) return;
    if (status === 200) acknowledged.add(id);
  }
}

/** Finds the acknowledged deliveries that are not done, and those that are done and were never sent. */
export async function lostAndInvented(
  store: EventStore,
  sent: ReadonlySet<string>,
  acknowledged: ReadonlySet<string>,
): Promise<{ lost: string[]; invented: string[]; done: EventRecord[] }> {
  await untilSettled(store);
  const done = await Array.fromAsync(store.list({ state: "done" }), (each) => each as EventRecord);
  const ids = new Set(done.map(({ deliveryId }) => deliveryId!));
  const lost = [...acknowledged].filter((id) => !ids.has(id));
  return { lost, invented: [...ids].filter((id) => !sent.has(id)), done };
}
