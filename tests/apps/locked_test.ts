import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import { follow } from "../../dev/harness/follow_app.ts";
import { until } from "../../dev/harness/until.ts";
import { decodeValue } from "../../events/store/kv/value_codec.ts";
import { testWith } from "../_permissions.ts";
import { envOf } from "../_stores.ts";
import { assertWithin } from "../_within.ts";
import type { PlaceKind } from "../events/store/engines/_engine.ts";
import { KV } from "../events/store/engines/kv.ts";
import { openAt } from "../events/store/engines/mod.ts";
import { SQLITE } from "../events/store/engines/sqlite.ts";
import type { SharedStore } from "../across_processes/_shared.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "./_app.ts";
import { type Answer, ANSWERED_WITHIN_MS, assertUnavailable, deliver } from "./_deliver.ts";

/** Time that another process holds the lock: longer than a sender waits, 10 s. */
const LOCKED_MS = 14_000;

/** Pause between two deliveries meanwhile. */
const EVERY_MS = 250;

/** Events that are handled when it begins, and how long: one ends meanwhile, one afterwards. */
const BEFORE = { short: LOCKED_MS / 4, long: LOCKED_MS + 1_000 };

/** In turn: without an ordering key, with one, and of a size that takes several commits. */
const BODIES = ["{}", `{"repository":{"id":1}}`, JSON.stringify({ text: "a".repeat(900_000) })];

/** Holds the write lock of a file from another process while `fn` runs, and until it ends. */
async function whileLocked(path: string, fn: () => Promise<void>): Promise<void> {
  const script = new URL("./_hold_lock.ts", import.meta.url).href;
  const args = ["run", "--cached-only", "--quiet", "-A", script, path, `${LOCKED_MS}`];
  const command = new Deno.Command(Deno.execPath(), { args, stdout: "piped", stderr: "piped" });
  await using holder = follow(command.spawn());
  await holder.line(({ message }) => message === "held");
  await fn();
  assertEquals((await holder.process.status).code, 0);
}

/** Sends a delivery each quarter of a second for a time, and returns the answers by their ids. */
async function deliverFor(app: RunningApp, ms: number): Promise<Map<string, Answer>> {
  const answers = new Map<string, Answer>();
  const sending: Promise<unknown>[] = [];
  const start = performance.now();
  // On a busy machine the pauses are longer, and the lock would be gone.
  for (let i = 0; performance.now() - start < ms; i++) {
    const id = `during${i}`;
    sending.push(deliver(app, id, bodyOf(id)).then((answer) => answers.set(id, answer)));
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
  await Promise.all(sending);
  return answers;
}

const bodyOf = (id: string) => BODIES[Number(/\d+$/.exec(id)) % BODIES.length]!;

/** Fails unless all events are done, and nothing is left of them once they are purged. */
async function assertAllDone(
  { at, place }: Omit<SharedStore, "kind">,
  events: number,
): Promise<void> {
  const { store, close } = await openAt(at, { namespace: "own" });
  const counts = { queued: 0, running: 0, parked: 0, done: events, dead: 0, unreadable: 0 };
  assertEquals(await store.stats(), { ...counts, dueLater: 0, oldestWaitingAt: null });
  assertEquals((await store.purge({})).changed, events);
  await close();
  if (at.engine === KV.name) return await assertNoKeys(place.path!);
  const { kept, ...others } = await place.contents();
  assertEquals([...Object.values(others), ...Object.values(kept)].filter(Boolean), []);
}

async function assertNoKeys(path: string): Promise<void> {
  using kv = await Deno.openKv(path);
  const entries = await Array.fromAsync(kv.list({ prefix: ["own"] }));
  // An entry that events have shared may wait for the next commit, or until it is due.
  const isShared = ({ value }: Deno.KvEntry<unknown>) =>
    "events" in Object(decodeValue(value)?.value);
  const keys = entries.filter((entry) => !isShared(entry)).map(({ key }) => key);
  // The upkeep may have checked the store meanwhile.
  assertEquals(keys.filter(([, kind]) => kind !== "checked"), []);
}

/** Locks the file of an app for a while, and returns how long the slowest answer took meanwhile. */
async function slowestWhileLocked(kind: PlaceKind, engine: string): Promise<number> {
  await using place = await kind.open();
  const path = place.path!;
  await using app = spawnOwnApp({ engine }, envOf(path));
  for (const [id, handlerMs] of Object.entries(BEFORE)) {
    assertEquals((await deliver(app, id, JSON.stringify({ handlerMs }))).status, 200);
    await until(() => app.count("start", id) === 1, 20_000);
  }
  let answers = new Map<string, Answer>();
  await whileLocked(path, async () => {
    answers = await deliverFor(app, LOCKED_MS - ANSWERED_WITHIN_MS);
    // No probe takes all instances out at once.
    for (const path of ["/health", "/health/live", "/health/ready"]) {
      const response = await fetch(`${await app.url}${path}`);
      assertEquals([path, response.status, (await response.json()).status], [path, 200, "ok"]);
    }
  });
  assertGreaterOrEqual(answers.size, 10);
  for (const answer of answers.values()) assertUnavailable(answer);
  for (const id of answers.keys()) assertEquals((await deliver(app, id, bodyOf(id))).status, 200);
  const all = [...Object.keys(BEFORE), ...answers.keys()];
  await until(() => all.every((id) => app.count("end", id) > 0), 10_000);
  assertEquals(await app.stop(), 0);
  const wrong = all.filter((id) => app.count("start", id) !== 1 || app.count("aborted", id) > 0);
  assertEquals(wrong, []);
  await assertAllDone({ at: { engine, address: place.address! }, place }, all.length);
  return Math.max(...[...answers.values()].map(({ ms }) => ms));
}

// Those whose database is a file.
for (const { name, shared } of [KV, SQLITE]) {
  testWith(
    APP_NEEDS,
    `an app whose file is locked for 14 s answers 503, stays ready, and recovers [${name}]`,
    () => assertWithin(ANSWERED_WITHIN_MS, () => slowestWhileLocked(shared, name)),
  );
}
