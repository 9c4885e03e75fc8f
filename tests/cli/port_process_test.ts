import { assert, assertEquals } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { exportEvents, importEvents, openEventStore } from "../../events/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { testDenokv } from "../events/store/kv/_denokv.ts";
import { claimAll, delivery } from "../events/store/_events.ts";
import { contentOf } from "../events/store/_moving.ts";
import { memoryStore } from "../events/store/kv/_stores.ts";
import { repairGroups } from "../events/store/_tidying.ts";
import { startProcess } from "../across_processes/_process.ts";
import { testShared } from "../across_processes/_shared.ts";
import { commandLine, ended, startCli } from "./_process.ts";

const NEEDS = ["read", "write", "run", "env", "net"] as const;

/** Number of events, in 30 ordering groups: their import takes much longer than to see the first one. */
const MANY = 300;

/** Writes an export of many events, and returns what is in it. */
async function writeExport(path: string): Promise<Record<string, unknown>> {
  await using sut = await memoryStore();
  const ids = Array.from({ length: MANY }, (_, i) => `d${i}`);
  await Promise.all(
    ids.map((id, i) =>
      sut.store.accept(delivery(id, JSON.stringify("x".repeat(i)), `key ${i % 30}`))
    ),
  );
  const text = ReadableStream.from(exportEvents(sut.store)).pipeThrough(new TextEncoderStream());
  await Deno.writeFile(path, text);
  return await contentOf(sut.store);
}

/** Starts the tool with the variables of this process, the KV's access token among them. */
function start(...args: string[]): Deno.ChildProcess {
  const [deno, ...rest] = commandLine(...args);
  return new Deno.Command(deno!, { args: rest, stdout: "piped", stderr: "piped" }).spawn();
}

/** Kills an import again and again, and then lets it end. */
async function testKills(kvPath: string, folder: string): Promise<void> {
  const file = `${folder}/events.ndjson`;
  const content = await writeExport(file);
  using kv = await Deno.openKv(kvPath);
  const store = await openEventStore(kv, { namespace: "bot", notifier: "watch" });
  const args = ["import", "--kv", kvPath, "--namespace", "bot", "--file", file];
  let imported = 0;
  for (let kills = 0; kills < 3 && imported < MANY; kills++) {
    const process = start(...args);
    await until(async () => (await store.stats()).queued > imported, 20_000);
    process.kill("SIGKILL");
    await ended(process);
    imported = (await store.stats()).queued;
    assert(imported > 0);
  }
  const { code, out } = await ended(start(...args));
  assertEquals([code, out.split("\n")[0]], [0, `${MANY - imported} imported`]);
  assertEquals(await contentOf(store), content);
  assertEquals(await repairGroups(store), 0);
  const handled: string[] = [];
  for (let leases; (leases = await claimAll(store)).length > 0;) {
    for (const { record } of leases) handled.push(`${record.orderingKey}: ${record.id}`);
    await Promise.all(leases.map((lease) => store.complete(lease)));
  }
  const inOrder = handled.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const byKey = handled.toSorted((a, b) =>
    a.split(":")[0]!.localeCompare(b.split(":")[0]!, "en", { numeric: true })
  );
  assertEquals([handled.length, byKey], [MANY, inOrder]);
}

const KILLED = "an import that is killed and run again loses nothing, and stores nothing twice";

testWith(NEEDS, `${KILLED} [file]`, () =>
  withFolder(async (folder) => {
    (await Deno.openKv(`${folder}/kv.db`)).close();
    await testKills(`${folder}/kv.db`, folder);
  }));

testDenokv(NEEDS, `${KILLED} [denokv]`, (url) => withFolder((folder) => testKills(url, folder)));

testWith(
  NEEDS,
  "events export flows into events import, through a pipe",
  () =>
    withFolder(async (folder) => {
      const paths = [`${folder}/a.db`, `${folder}/b.db`] as const;
      const [from, to] = [await Deno.openKv(paths[0]), await Deno.openKv(paths[1])];
      const source = await openEventStore(from, { namespace: "bot" });
      for (let i = 0; i < 5; i++) {
        await source.accept(delivery(`d${i}`, JSON.stringify("é".repeat(1_000_000))));
      }
      const [deno, ...args] = commandLine("import", "--kv", paths[1], "--namespace", "bot");
      const importing = new Deno.Command(deno!, {
        ...{ args, stdin: "piped", stdout: "piped", stderr: "piped" },
      }).spawn();
      const exporting = startCli("export", "--kv", paths[0]);
      const [, result] = await Promise.all([
        exporting.stdout.pipeTo(importing.stdin),
        ended(importing),
      ]);
      assertEquals((await exporting.status).code, 0);
      assertEquals(await new Response(exporting.stderr).text(), "5 exported\n");
      assertEquals([result.code, result.out], [0, "5 imported\n"]);
      const moved = await openEventStore(to, { namespace: "bot" });
      assertEquals(await contentOf(moved), await contentOf(source));
      for (const kv of [from, to]) kv.close();
    }),
);

testShared(
  "what is imported into the store of an app that runs is handled there, once",
  async ({ at, place }) => {
    await using sut = await memoryStore();
    const ids = Array.from({ length: 200 }, (_, i) => `d${i}`);
    for (const id of ids) {
      await sut.store.accept({ ...delivery(id, "{}", "key"), intake: "forge" });
    }
    await using app = await startProcess({ at });
    assertEquals(await app.deliver("first"), 200);
    await until(() => app.count("end", "first") === 1, 20_000);
    const { imported } = await importEvents(await place.open(), exportEvents(sut.store));
    assertEquals(imported, ids.length);
    await until(() => ids.every((id) => app.count("end", id) >= 1), 20_000);
    for (const id of ids) assertEquals(app.count("start", id), 1);
  },
);
