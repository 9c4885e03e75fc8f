/**
 * A soak: a backlog of 100,000 events, then two processes on one store under load, one of which is killed
 * or frozen every few seconds, for as many minutes as the first argument says (10 by default). The second one
 * names the engine (kv by default).
 *
 * Ends with exit code 1 if an acknowledged event is lost, or one appears that was never sent.
 */
import type { EngineUnderTest } from "../events/store/engines/_engine.ts";
import { ENGINES } from "../events/store/engines/mod.ts";
import { drainBacklog } from "./_backlog.ts";
import { pause } from "../../dev/harness/until.ts";
import { lostAndInvented, sendUntilGone } from "./_kills.ts";
import { startProcess } from "./_process.ts";

const BACKLOG = 100_000;
const CONNECTIONS = 16;
const LEASE_MS = 2_000;

const minutes = Number(Deno.args[0] ?? 10);
if (!(minutes > 0)) throw new RangeError(`Minutes must be a positive number, got ${Deno.args[0]}`);

const wanted = Deno.args[1] ?? "kv";
const engine = ENGINES.find(({ name }) => name === wanted);
if (!engine) throw new RangeError(`There is no engine ${wanted}`);

const { eventsPerSecond, mostMb } = await drainBacklog(engine, BACKLOG);
console.log(
  `${BACKLOG} events drained at ${eventsPerSecond}/s, with at most ${mostMb} MB more than when idle`,
);
await crashUnderLoad(engine, performance.now() + minutes * 60_000);

async function crashUnderLoad(engine: EngineUnderTest, endsAt: number): Promise<void> {
  await using place = await engine.shared.open();
  const options = { at: { engine: engine.name, address: place.address! }, leaseMs: LEASE_MS };
  const [sent, acknowledged] = [new Set<string>(), new Set<string>()];
  let [kills, freezes] = [0, 0];
  await using steady = await startProcess(options);
  while (performance.now() < endsAt) {
    await using victim = await startProcess(options);
    const over = new AbortController();
    const load = [steady, victim].flatMap((app) =>
      Array.from(
        { length: CONNECTIONS / 2 },
        () => sendUntilGone(app, sent, acknowledged, over.signal),
      )
    );
    await pause(500 + Math.random() * 3_000);
    if (Math.random() < 0.3) {
      victim.signal("SIGSTOP");
      await pause(LEASE_MS * 1.5);
      victim.signal("SIGCONT");
      freezes++;
    }
    victim.signal("SIGKILL");
    kills++;
    over.abort();
    await Promise.all(load);
  }
  const store = await place.open();
  const { lost, invented } = await lostAndInvented(store, sent, acknowledged);
  console.log(
    `${acknowledged.size} acknowledged over ${kills} kills and ${freezes} freezes: ` +
      `${lost.length} lost, ${invented.length} invented`,
  );
  if (lost.length + invented.length > 0) Deno.exitCode = 1;
}
