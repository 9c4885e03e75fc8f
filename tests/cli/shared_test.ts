import { assert, assertEquals } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import type { StoreAddress } from "../events/store/engines/_engine.ts";
import { type AppProcess, startProcess } from "../across_processes/_process.ts";
import { testShared } from "../across_processes/_shared.ts";
import { runHere } from "./_cli.ts";

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `d${i}`);

/** Runs the tool and reads its JSON. */
type Cli = (...args: string[]) => Promise<Record<string, unknown>[]>;

/** Registers a test of the tool beside an app, for each store that they can share. */
function testTool(name: string, fn: (at: StoreAddress, cli: Cli) => Promise<void>): void {
  testShared(name, async ({ at, place: { path } }) => {
    await fn(at, async (...args) => {
      const { out } = await runHere([
        "events",
        ...args,
        "--json",
        "--store",
        at.engine === "postgres" ? path! : `${at.engine}:${path}`,
      ]);
      return out.map((line) => JSON.parse(line));
    });
  }, { isRemoteToo: true });
}

testTool("the tool looks at the events of an app that handles them", async (at, cli) => {
  await using app = await startProcess({ at, handlerMs: 60_000 });
  assertEquals(await app.deliver("d1"), 200);
  await until(() => app.count("start", "d1") === 1, 20_000);
  const [listed] = await cli("list", "--state", "running", "--type", "push");
  assertEquals(listed!.id, "forge:d1");
  assertEquals((await cli("show", "d1"))[0]!.payload, { ref: "refs/heads/main" });
  assertEquals((await cli("stats"))[0]!.running, 1);
});

testTool("what the tool cancels is aborted in the app, and replayed there", async (at, cli) => {
  await using app = await startProcess({ at, handlerMs: 3_000, leaseMs: 1_000 });
  await app.deliver("d1");
  await until(() => app.count("start", "d1") === 1, 20_000);
  assertEquals(await cli("cancel", "d1"), [{ cancelled: 1, left: [] }]);
  await until(() => app.count("abort", "d1") === 1, 20_000);
  // The handler ignores its signal: the event is dead once it has ended.
  await until(async () => (await cli("replay", "d1"))[0]!.replayed === 1, 10_000);
  await until(() => app.count("start", "d1") === 2, 20_000);
});

testTool("what the tool purges the app takes as new", async (at, cli) => {
  await using app = await startProcess({ at });
  await app.deliver("d1");
  await until(() => app.count("end", "d1") === 1, 20_000);
  await until(async () => (await cli("purge", "d1", "--yes"))[0]!.purged === 1, 20_000);
  assertEquals(await app.deliver("d1"), 200);
  await until(() => app.count("end", "d1") === 2, 20_000);
});

async function deliverAll(app: AppProcess, ids: readonly string[]): Promise<void> {
  for (const id of ids) assertEquals(await app.deliver(id), 200);
}

testTool(
  "nothing is lost while the tool cancels and replays all, over and over",
  async (at, cli) => {
    await using app = await startProcess({ at, handlerMs: 20, leaseMs: 1_000 });
    const ids = numbered(80);
    let delivered = false;
    const delivering = deliverAll(app, ids).finally(() => delivered = true);
    while (!delivered) {
      await cli("cancel", "--all", "--yes");
      await cli("replay", "--outcome", "cancelled", "--yes");
    }
    await delivering;
    await until(async () => {
      await cli("replay", "--outcome", "cancelled", "--yes");
      return (await cli("stats"))[0]!.done === ids.length;
    }, 20_000);
    for (const id of ids) assert(app.count("end", id) >= 1, id);
    assertEquals(await cli("purge", "--all", "--yes"), [{ purged: ids.length, left: [] }]);
  },
);
