/**
 * A soak: a backlog of 100,000 events, then two processes on one file under load, one of which is killed
 * or frozen every few seconds, for as many minutes as the argument says (10 by default).
 *
 * Ends with exit code 1 if an acknowledged event is lost, or one appears that was never sent.
 */
import { openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { drainBacklog } from "./_backlog.ts";
import { until } from "../../dev/harness/until.ts";
import { type AppProcess, startProcess } from "./_process.ts";

const BACKLOG = 100_000;
const CONNECTIONS = 16;
const LEASE_MS = 2_000;

const minutes = Number(Deno.args[0] ?? 10);
if (!(minutes > 0)) throw new RangeError(`Minutes must be a positive number, got ${Deno.args[0]}`);

await withFolder(async (folder) => {
  const { eventsPerSecond, mostMb } = await drainBacklog(`${folder}/backlog.db`, BACKLOG);
  console.log(
    `${BACKLOG} events drained at ${eventsPerSecond}/s, with at most ${mostMb} MB more than when idle`,
  );
  await crashUnderLoad(`${folder}/crash.db`, performance.now() + minutes * 60_000);
});

async function crashUnderLoad(path: string, endsAt: number): Promise<void> {
  const [sent, acknowledged] = [new Set<string>(), new Set<string>()];
  let [kills, freezes] = [0, 0];
  await using steady = await startProcess({ kv: path, leaseMs: LEASE_MS });
  while (performance.now() < endsAt) {
    await using victim = await startProcess({ kv: path, leaseMs: LEASE_MS });
    const over = new AbortController();
    const load = [steady, victim].flatMap((app) =>
      Array.from({ length: CONNECTIONS / 2 }, () => sendUntil(app, over.signal, sent, acknowledged))
    );
    await later(500 + Math.random() * 3_000);
    if (Math.random() < 0.3) {
      victim.signal("SIGSTOP");
      await later(LEASE_MS * 1.5);
      victim.signal("SIGCONT");
      freezes++;
    }
    victim.signal("SIGKILL");
    kills++;
    over.abort();
    await Promise.all(load);
  }
  using kv = await Deno.openKv(path);
  const store = await openEventStore(kv, { notifier: "watch" });
  await until(async () => {
    const { queued, running } = await store.stats();
    return queued + running === 0;
  }, 600_000);
  const done = new Set<string>();
  for await (const { deliveryId } of store.list({ state: "done" })) done.add(deliveryId!);
  const lost = [...acknowledged].filter((id) => !done.has(id)).length;
  const invented = [...done].filter((id) => !sent.has(id)).length;
  console.log(
    `${acknowledged.size} acknowledged over ${kills} kills and ${freezes} freezes: ` +
      `${lost} lost, ${invented} invented`,
  );
  if (lost + invented > 0) Deno.exitCode = 1;
}

async function sendUntil(
  app: AppProcess,
  over: AbortSignal,
  sent: Set<string>,
  acknowledged: Set<string>,
): Promise<void> {
  while (!over.aborted) {
    const id = crypto.randomUUID();
    sent.add(id);
    const status = await app.deliver(id);
    if (status === undefined) return;
    if (status === 200) acknowledged.add(id);
  }
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
