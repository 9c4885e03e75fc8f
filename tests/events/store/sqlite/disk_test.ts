import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { type Line, type RunningApp, startApp } from "../../../../dev/harness/start_app.ts";
import { run } from "../../../../dev/harness/run.ts";
import { hasCompiler } from "../../../../dev/bench/disk/slow_fsync.ts";
import { withFolder } from "../../../_folder.ts";
import { isGranted, testWith, UNLESS_LINUX, unlessInstalled } from "../../../_permissions.ts";
import { until } from "../../worker/_worker.ts";
import { openOn, REFUSED } from "../_file_app.ts";
import { openIn, sized, timesBegun } from "./_open.ts";

const NEEDS = ["read", "write", "run", "env"] as const;

/** Stores events in a file, in another process. */
function startWriter(path: string, { bytes = 5_000, env = {} } = {}): RunningApp {
  return startApp({
    script: new URL("./_writer.ts", import.meta.url),
    args: [path, String(bytes)],
    env,
  });
}

/** Waits until a writer has noticed that it cannot write, and has refused some. */
async function untilFailing(writer: RunningApp): Promise<string> {
  const { check } = await writer.line(({ check }) => check !== undefined && check !== "fine");
  const { length } = writer.lines;
  await writer.line((line) => "refused" in line && writer.lines.indexOf(line) > length);
  return String(check);
}

/** Waits until a writer has noticed that it can write again, and has stored some more. */
async function untilWriting(writer: RunningApp): Promise<void> {
  const { length } = writer.lines;
  const isLater = (line: Line) => writer.lines.indexOf(line) >= length;
  await writer.line((line) => "stored" in line && isLater(line));
  await writer.line((line) => line.message === "database can be written again");
}

/** Kills a writer, and checks that all is there that it has called stored. */
async function assertNothingLost(writer: RunningApp, path: string): Promise<void> {
  writer.process.kill("SIGKILL");
  await writer.ended;
  const stored = writer.lines.flatMap((line) => "stored" in line ? [String(line.stored)] : []);
  assert(stored.length > 10, `only ${stored.length} stored`);
  await using opened = await openIn(path);
  const found = await opened.engine.get(stored);
  assertEquals(found.filter((each) => each === null).length, 0);
  assertEquals(opened.file.db.one("pragma integrity_check")?.integrity_check, "ok");
}

/** Lists what a writer has logged. */
const logged = ({ lines }: RunningApp) =>
  lines.flatMap(({ level, message }) => level === undefined ? [] : [[level, message]]);

const FAILED_AND_BACK = [
  ["error", "database cannot be written: trying again"],
  ["info", "database can be written again"],
];

const limit = (pid: number, bytes: string) =>
  run("prlimit", ["--pid", String(pid), `--fsize=${bytes}:`]);

testWith(
  NEEDS,
  "a file that may not grow is refused writing, and written again once it may",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await using writer = startApp({
        script: new URL("./_writer.ts", import.meta.url),
        args: [path, "5000"],
        // Else the signal that comes with the error ends it.
        before: "trap '' XFSZ",
      });
      await writer.line((line) => line.stored === "d20");
      await limit(writer.process.pid, "1000");
      assertMatch(await untilFailing(writer), /^The database cannot be written: /);
      await limit(writer.process.pid, "unlimited");
      await untilWriting(writer);
      assertEquals(logged(writer), FAILED_AND_BACK);
      await assertNothingLost(writer, path);
    }),
  unlessInstalled("prlimit"),
);

/** Runs with a file system of a size, if one can be mounted here. */
async function withDisk(bytes: string, fn: (folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    assertEquals(
      (await run("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", folder])).code,
      0,
    );
    try {
      await fn(folder);
    } finally {
      await run("umount", ["-l", folder]);
    }
  });
}

/** Asks a program: Deno wants another permission to tell. */
function isRoot(): boolean {
  if (!isGranted(["run"])) return false;
  const { stdout } = new Deno.Command("id", { args: ["-u"] }).outputSync();
  return new TextDecoder().decode(stdout).trim() === "0";
}

const unlessRoot = UNLESS_LINUX ??
  (isRoot() ? undefined : "needs to mount a file system");

testWith(
  NEEDS,
  "a file on a full disk is refused writing, and written again once there is room",
  () =>
    withDisk("16m", async (folder) => {
      const path = `${folder}/a.db`;
      await Deno.writeFile(`${folder}/ballast`, new Uint8Array(8_000_000));
      await using writer = startWriter(path, { bytes: 20_000 });
      await writer.line((line) => line.stored === "d20");
      assertEquals(
        await untilFailing(writer),
        "The database cannot be written: database or disk is full",
      );
      await Deno.remove(`${folder}/ballast`);
      await untilWriting(writer);
      assertEquals(logged(writer).slice(0, 2), FAILED_AND_BACK);
      await assertNothingLost(writer, path);
    }),
  unlessRoot,
);

testWith(
  NEEDS,
  "a start on a full disk says that there is no room",
  () =>
    withDisk("1m", async (folder) => {
      const path = `${folder}/a.db`;
      const start = () => openOn("SQLite", path).then((app) => app[Symbol.asyncDispose]());
      const says = "a.db cannot be used: there is no room on its disk for it and the log beside it";
      // No room for the log, and none for its index.
      for (const free of [20_000, 16_384]) {
        await Deno.writeFile(`${folder}/ballast`, new Uint8Array(2 ** 20 - free));
        await assertRejects(start, Error, says);
        await Deno.remove(`${folder}/ballast`);
        for (const each of Deno.readDirSync(folder)) await Deno.remove(`${folder}/${each.name}`);
      }
      await start();
    }),
  unlessRoot,
);

/**
 * Registers a test with the variables of a process whose disk fails while a file is there: `failing_disk.c` says which
 * calls a variable is for.
 */
function testFailing(
  name: string,
  variable: "DATA_SYNC_FAILS" | "SYNC_FAILS" | "WRITE_FAILS",
  fn: (path: string, env: Record<string, string>, fails: string) => Promise<void>,
): void {
  testWith(NEEDS, name, () =>
    withFolder(async (folder) => {
      const [library, fails] = [`${folder}/failing_disk.so`, `${folder}/fails`];
      const source = new URL("./failing_disk.c", import.meta.url).pathname;
      await run("cc", ["-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"]);
      await fn(`${folder}/a.db`, { LD_PRELOAD: library, [variable]: fails }, fails);
    }), UNLESS_LINUX ?? (hasCompiler() ? undefined : "needs a C compiler"));
}

testFailing(
  "a commit whose sync has failed is refused, and so is all that comes until the log is written again",
  "DATA_SYNC_FAILS",
  async (path, env, fails) => {
    await using writer = startWriter(path, { env });
    await writer.line((line) => line.stored === "d50");
    // What was written before is the part of the log that it would still lack, were it not written again.
    const begun = await writtenBy(writer.process.pid);
    await Deno.writeTextFile(fails, "");
    assertMatch(await untilFailing(writer), /^The database cannot be written: .*os error 5/);
    const failing = writer.lines.length;
    await Deno.remove(fails);
    await untilWriting(writer);
    const since = writer.lines.findIndex((line) => "refused" in line);
    assertEquals(writer.lines.slice(since, failing).filter((line) => "stored" in line), []);
    const { size } = await Deno.stat(`${path}-wal`);
    assert(await writtenBy(writer.process.pid) - begun > size, "the log was not written again");
    assertEquals(logged(writer), FAILED_AND_BACK);
    await assertNothingLost(writer, path);
  },
);

testFailing(
  "a duplicate is not called stored before the first one is on the disk",
  "DATA_SYNC_FAILS",
  async (path, env, fails) => {
    await using opened = await openIn(path);
    await opened.store.accept(sized("d0", 1_000_000));
    // As if the other process had not synced it yet.
    await Deno.writeTextFile(fails, "");
    await using writer = startWriter(path, { env, bytes: 1_000_000 });
    await writer.line((line) => line.refused === "d1");
    assertEquals(writer.lines.filter((line) => "stored" in line), []);
    await Deno.remove(fails);
    await untilWriting(writer);
  },
);

testFailing(
  "a file that has become read-only is refused writing, and written again once it can be",
  "WRITE_FAILS",
  async (path, env, fails) => {
    await using writer = startWriter(path, { env });
    await writer.line((line) => line.stored === "d50");
    await Deno.writeTextFile(fails, "");
    assertMatch(await untilFailing(writer), /^The database cannot be written: /);
    const [since, failing] = [
      writer.lines.findIndex((line) => "refused" in line),
      writer.lines.length,
    ];
    await Deno.remove(fails);
    await untilWriting(writer);
    assertEquals(writer.lines.slice(since, failing).filter((line) => "stored" in line), []);
    assertEquals(logged(writer), FAILED_AND_BACK);
    await assertNothingLost(writer, path);
  },
);

testFailing(
  "a checkpoint whose sync of the file has failed is made again, and the log stays until then",
  "SYNC_FAILS",
  async (path, env, fails) => {
    await using writer = startWriter(path, { env, bytes: 400_000 });
    await writer.line((line) => line.stored === "d5");
    await Deno.writeTextFile(fails, "");
    await writer.line(({ message }) => message === "database file not maintained: trying again");
    // The log is longer than one that was begun anew would be.
    await writer.line((line) => "stored" in line && Deno.statSync(`${path}-wal`).size > 100e6);
    assertEquals(timesBegun(path), 0);
    await Deno.remove(fails);
    await writer.line((line) => "stored" in line && timesBegun(path) > 0);
    assertEquals(writer.lines.filter((line) => "refused" in line || "check" in line), [
      { check: "fine" },
    ]);
    await assertNothingLost(writer, path);
  },
);

testWith(
  NEEDS,
  "an app whose file is damaged takes nothing more, and says so once",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      {
        await using app = await openOn("SQLite", path);
        for (let i = 0; i < 50; i++) assertEquals(await app.deliver(`d${i}`), [200, null]);
      }
      const whole = await Deno.readFile(path);
      {
        await using app = await openOn("SQLite", path);
        // All but the first page, which a try to write reads. Written by another process, as SQLite's locks want it.
        const damage = ["if=/dev/urandom", `of=${path}`, "bs=4096", "seek=1", "count=60"];
        assertEquals((await run("dd", [...damage, "conv=notrunc"])).code, 0);
        await until(async () => (await app.deliver(crypto.randomUUID()))[0] === 503);
        // Tries to write the first page come once a second, and do not bring it back.
        const tried = performance.now() + 2_500;
        await until(() => performance.now() > tried);
        assertEquals([await app.isReady(), await app.deliver("new")], [false, REFUSED]);
        assertEquals(app.lines("file of the database").map(([level]) => level), ["error"]);
        assertEquals(app.lines("database can be written"), []);
      }
      // The app may still be about to look for what has become of the deliveries that it has refused.
      const closed = performance.now() + 2_500;
      await until(() => performance.now() > closed);
      await Deno.remove(`${path}-wal`).catch(() => {});
      await Deno.writeFile(path, whole);
      await using app = await openOn("SQLite", path);
      for (let i = 0; i < 50; i++) assert(await app.events.get(`forge:d${i}`));
      assertEquals(await app.deliver("new"), [200, null]);
    }),
  UNLESS_LINUX,
);

/** Reads how many bytes a process has written. */
async function writtenBy(pid: number): Promise<number> {
  return Number(/wchar: (\d+)/.exec((await run("cat", [`/proc/${pid}/io`])).stdout)![1]);
}
