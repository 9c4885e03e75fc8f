import { assertEquals, assertGreaterOrEqual, assertStringIncludes } from "@std/assert";
import {
  appCommand,
  type AppOptions,
  type RunningApp,
  startApp,
} from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { byLength } from "../_length.ts";
import { deliver } from "../apps/_deliver.ts";
import { untilSettled } from "./_kills.ts";
import type { StoreAddress } from "../events/store/engines/_engine.ts";
import { type SharedStore, testTwoDenos } from "./_shared.ts";
import type { Work } from "./_two_denos.ts";

/** Groups of each kind, and events of each group. */
const [GROUPS, EVENTS] = [2, byLength(100, 25)];

const LEASE_MS = 2_000;

/** Kinds of work, each in groups of its own. */
const KINDS: Readonly<Record<string, Partial<Work>>> = {
  plain: {},
  batch: { quiet: true },
  emits: { emits: true },
};

function start(deno: string, at: StoreAddress): RunningApp {
  const script = new URL("./_two_denos.ts", import.meta.url);
  const args = [JSON.stringify({ at, secret: FORGE_SECRET, leaseMs: LEASE_MS })];
  const options: AppOptions = { script, args, deno, flags: ["-A", "--unstable-kv"] };
  return startApp(options);
}

/** Sends a delivery until one of the apps that run takes it. */
async function send(apps: readonly RunningApp[], id: string, work: Work): Promise<void> {
  await until(async () => {
    const app = apps[Math.floor(Math.random() * apps.length)]!;
    const answer = await deliver(app, id, JSON.stringify(work)).catch(() => undefined);
    return answer?.status === 200;
  }, 60_000);
}

/** Sends all events of a group, one after the other. */
async function sendGroup(
  apps: readonly RunningApp[],
  group: string,
  kind: Partial<Work>,
  count: number,
): Promise<void> {
  for (let number = 0; number < count; number++) {
    await send(apps, `${group}-${number}`, { group, number, ...kind });
  }
}

interface Handled {
  readonly group: string;
  readonly numbers: readonly number[];
  readonly startedAt: number;
  readonly endedAt: number;
}

function handledBy(apps: readonly RunningApp[]): Handled[] {
  const lines = apps.flatMap(({ lines }) => lines);
  return lines.filter(({ message }) => message === "handled") as unknown as Handled[];
}

/** Checks that each group's events were handled in their order: again after a kill, and none left out. */
function assertInOrder(handled: readonly Handled[], group: string, count: number): void {
  const own = handled.filter((each) => each.group === group);
  const runs = own.toSorted((a, b) => a.endedAt - b.endedAt);
  let next = 0;
  for (const { numbers } of runs) {
    for (const number of numbers) {
      assertGreaterOrEqual(next, number, `${group}: ${number} came before ${next}`);
      next = Math.max(next, number + 1);
    }
  }
  assertEquals(next, count, group);
}

const groupsOf = (kind: string) => Array.from({ length: GROUPS }, (_, i) => `${kind}${i}`);

/** Sends load while a new version of Deno comes, the old one is killed, and comes back. */
async function upgradeAndBack({ at, place }: SharedStore, other: string): Promise<void> {
  const all: RunningApp[] = [];
  const running: RunningApp[] = [];
  const begin = async (deno: string) => {
    const app = start(deno, at);
    all.push(app);
    await app.url;
    running.push(app);
    return app;
  };
  try {
    const old = await begin(other);
    const groups = Object.entries(KINDS).flatMap(([name, kind]) =>
      groupsOf(name).map((group) => ({ group, kind }))
    );
    const sending = Promise.all(
      groups.map(({ group, kind }) => sendGroup(running, group, kind, EVENTS)),
    );
    const isAt = (part: number) => () =>
      handledBy(all).reduce((sum, { numbers }) => sum + numbers.length, 0) >=
        part * groups.length * EVENTS;
    await until(isAt(0.2), 120_000);
    const upgraded = await begin(Deno.execPath());
    await until(isAt(0.5), 120_000);
    running.splice(running.indexOf(old), 1);
    old.process.kill("SIGKILL");
    await until(isAt(0.7), 120_000);
    await begin(other);
    running.splice(running.indexOf(upgraded), 1);
    await upgraded.stop();
    await sending;
    const store = await place.open({ log: () => {} });
    await untilSettled(store);
    for (const { group } of groups) {
      assertInOrder(handledBy(all), group, EVENTS);
    }
    const counts = await Array.fromAsync(store.states({ prefix: "count:" }), ({ value }) => value);
    assertEquals(counts, groups.map(() => EVENTS));
    const { done, dead } = await store.stats({ type: "push" });
    assertEquals([done, dead], [groups.length * EVENTS, 0]);
    const emitted = await store.stats({ source: "jobs" });
    assertEquals(emitted.done, GROUPS * EVENTS);
    for await (const { findings } of store.check()) assertEquals(findings, []);
    const damage = /damaged|unreadable|cannot be read|put back/;
    const messages = all.flatMap(({ lines }) => lines.map(({ message }) => String(message)));
    assertEquals(messages.filter((message) => damage.test(message)), []);
  } finally {
    for (const app of all) await app[Symbol.asyncDispose]();
  }
}

testTwoDenos(
  "an upgrade of Deno and back, with a kill, loses and reorders nothing",
  upgradeAndBack,
  { isRemoteToo: true },
);

/** Runs the tool with one Deno, on the database of an app that another one runs. */
async function tool(deno: string, database: string, ...args: string[]): Promise<string> {
  const script = new URL("../../cli/main.ts", import.meta.url);
  const flags = ["-A", "--unstable-kv"];
  const options = { script, args: ["events", ...args, "--store", database], deno, flags };
  const { success, stdout, stderr } = await appCommand(options).output();
  const text = new TextDecoder().decode(stdout);
  if (!success) throw new Error(`${args[0]} failed: ${text}${new TextDecoder().decode(stderr)}`);
  return text;
}

const WORK: Work = { group: "g", number: 0 };

/** Does with the tool of one Deno all that changes what the app of the other one handles. */
async function operate(
  { at, place: { path } }: SharedStore,
  appDeno: string,
  toolDeno: string,
): Promise<void> {
  const run = (...args: string[]) => tool(toolDeno, `${at.engine}:${path}`, ...args);
  await using app = start(appDeno, at);
  await app.url;
  const handled = () => app.count("handled");
  await send([app], "waits", { ...WORK, waits: true });
  await until(async () => (await run("stats")).includes("parked     1"), 20_000);
  await run("wake", "answer:waits", '{"yes":"✓"}');
  await until(() => handled() === 1, 20_000);
  assertEquals((handledBy([app])[0] as { value?: unknown }).value, { yes: "✓" });
  await send([app], "cancelled", { ...WORK, waits: true });
  await until(async () => (await run("stats")).includes("parked     1"), 20_000);
  await run("cancel", "cancelled");
  await run("replay", "cancelled");
  await run("wake", "answer:cancelled");
  await until(() => handled() === 2, 20_000);
  const emitted = await run("emit", "jobs", "item", '{"group":"g","number":2}', "--group", "g");
  assertStringIncludes(emitted, "emitted jobs:");
  await until(() => app.count("emitted") === 1, 20_000);
  assertStringIncludes(await run("show", "waits"), '"yes"');
  assertStringIncludes(await run("states", "--json"), "count:g");
  await send([app], "last", { ...WORK, number: 3 });
  await until(() => handled() === 3, 20_000);
  assertEquals((await run("doctor")).includes("unreadable"), false);
  // An export of one is imported by the other.
  const file = ["--file", `${path}.ndjson`];
  await run("export", ...file);
  const copy = `${at.engine}:${path}-copy`;
  await tool(appDeno, copy, "import", ...file, "--create", "--namespace", "events");
  assertEquals((await tool(toolDeno, copy, "list", "--json")).split("\n").length, 5);
  // A message that waits in the queue when the app starts is in the format of the tool's Deno.
  await app.stop();
  await run("emit", "jobs", "item", '{"group":"g","number":4}');
  await using again = start(appDeno, at);
  await until(() => again.count("emitted") === 1, 20_000);
  await again.stop();
  assertEquals(again.lines.filter(({ level }) => level !== "info"), []);
}

for (const isOld of [true, false]) {
  const [app, its] = isOld ? ["older", "newer"] : ["newer", "older"];
  testTwoDenos(
    `the tool on the ${its} Deno works on the app of the ${app} one`,
    (shared, other) => {
      const [older, newer] = [other, Deno.execPath()];
      return isOld ? operate(shared, older, newer) : operate(shared, newer, older);
    },
  );
}
