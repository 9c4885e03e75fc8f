import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { run, runDeno } from "../../dev/harness/run.ts";
import { startApp } from "../../dev/harness/start_app.ts";
import { withFolder } from "../_folder.ts";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { openIn, sized } from "../events/store/sqlite/_open.ts";
import { runHere, testCli } from "./_cli.ts";

const CLI = new URL("../../cli/main.ts", import.meta.url).pathname;

testWith(
  ["read", "write", "run", "env"],
  "events backup copies all that was stored before it began, while another process stores more",
  () =>
    withFolder(async (folder) => {
      const [path, copy] = [`${folder}/a.db`, `${folder}/copy.db`];
      const script = new URL("../events/store/sqlite/_writer.ts", import.meta.url);
      await using writer = startApp({ script, args: [path, "20000"] });
      await writer.line((line) => line.stored === "d200");
      const stored = storedBy(writer.lines);
      const args = ["run", "-A", "--cached-only", "--quiet", CLI, "events", "backup", copy];
      const { code, stdout, stderr } = await runDeno([...args, "--store", `sqlite:${path}`]);
      const { size } = await Deno.stat(copy);
      assertEquals([code, stdout], [0, `${size} bytes copied to ${copy}`], stderr);
      const { length } = writer.lines;
      await writer.line((line) => "stored" in line && writer.lines.indexOf(line) > length);
      assertEquals(writer.lines.filter((line) => "refused" in line), []);
      writer.process.kill("SIGKILL");
      await writer.ended;

      // The way to restore that its help tells.
      await Deno.remove(path);
      for (const end of ["-wal", "-shm"]) await Deno.remove(`${path}${end}`);
      await Deno.rename(copy, path);
      await using restored = await openIn(path);
      const found = await restored.engine.get(stored);
      assert(found.length > 200);
      assertEquals(found.filter((each) => each === null), []);
      assertEquals(restored.file.db.one("pragma integrity_check")?.integrity_check, "ok");
      assertEquals(restored.file.db.one("pragma auto_vacuum")?.auto_vacuum, 2);
      const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
      assertEquals(names, ["a.db", "a.db-shm", "a.db-wal"]);
    }),
);

function storedBy(lines: readonly Readonly<Record<string, unknown>>[]): string[] {
  return lines.flatMap((line) => "stored" in line ? [String(line.stored)] : []);
}

testWith(
  ["read", "write"],
  "events backup writes over no file, and leaves none if it fails",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await using _opened = await openIn(path);
      const backUp = (file: string) =>
        runHere(["events", "backup", "--store", `sqlite:${path}`, "--namespace", "bot", file]);
      await Deno.writeTextFile(`${folder}/b.db`, "kept");
      const { code, err } = await backUp(`${folder}/b.db`);
      assertEquals(code, 2);
      assertStringIncludes(
        err.join(),
        `The file ${folder}/b.db exists: give the name of a new one`,
      );
      assertEquals(await Deno.readTextFile(`${folder}/b.db`), "kept");
      assertEquals((await backUp(`${folder}/missing/c.db`)).code, 1);
      const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
      assertEquals(names, ["a.db", "a.db-shm", "a.db-wal", "b.db"]);
    }),
);

testWith(
  ["read", "write", "run"],
  "events backup refuses a damaged copy, and leaves it under the name that it tells",
  () =>
    withFolder(async (folder) => {
      const [path, copy] = [`${folder}/a.db`, `${folder}/copy.db`];
      await using opened = await openIn(path);
      for (let i = 0; i < 50; i++) await opened.store.accept(sized(`d${i}`, 10));
      opened.file.db.all("pragma wal_checkpoint(truncate)");
      const root = opened.file.db.one("select rootpage from sqlite_schema where name = 'cell'")!;
      // By another process, as SQLite's locks want it.
      const damage = [
        "if=/dev/urandom",
        `of=${path}`,
        "bs=4096",
        `seek=${Number(root.rootpage) - 1}`,
      ];
      assertEquals((await run("dd", [...damage, "count=1", "conv=notrunc"])).code, 0);
      const args = ["events", "backup", "--store", `sqlite:${path}`, "--namespace", "bot", copy];
      const { code, out, err } = await runHere(args);
      const names = [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
      const aside = names.find((name) => /^copy\.db\.\w{8}\.damaged$/.test(name));
      assertEquals([code, out, names.length], [1, [], 4]);
      assertMatch(err.at(-1)!, /^The copy is damaged, and so is the database: .+ It is left as /);
      assertStringIncludes(err.at(-1)!, `left as ${folder}/${aside}:`);
    }),
  UNLESS_LINUX,
);

testWith(
  ["read", "write"],
  "events list finds what a store without an app has put into a SQLite file",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await using opened = await openIn(path);
      const list = () => runHere(["events", "list", "--store", `sqlite:${path}`, "--json"]);
      assertEquals((await list()).err, ["There are no events in this database"]);
      await opened.store.accept(sized("d1", 10));
      const { out, err } = await list();
      assertEquals([out.map((line) => JSON.parse(line).id), err], [["d1"], []]);
    }),
);

testCli("events backup refuses a KV, and names what is for it", async ({ cli, path }) => {
  const { code, err } = await cli("backup", `${path}.copy`);
  assertEquals([code, err], [2, [
    "There are no events in this database",
    "Only a SQLite file is copied by this: pg_dump copies a Postgres database, and sqlite3 the file of a KV",
  ]]);
});
