import { assert, assertEquals, assertMatch } from "@std/assert";
import type { LogRecord } from "../../../../core/mod.ts";
import { until } from "../../../../dev/harness/until.ts";
import { withFolder } from "../../../_folder.ts";
import { byLength } from "../../../_length.ts";
import { testWith } from "../../../_permissions.ts";
import { openSqlite } from "../../../_sqlite.ts";
import { openIn, sized, timesBegun } from "./_open.ts";

const MB = 1_000_000;

type Opened = Awaited<ReturnType<typeof openIn>>;

/** Registers a test of a file that is open. */
function testFile(name: string, fn: (opened: Opened, path: string) => Promise<void>): void {
  testWith(["read", "write"], name, () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await using opened = await openIn(path);
      await fn(opened, path);
    }));
}

/** Takes events in and settles them, until a condition holds. Returns the bytes of their payloads. */
async function takeIn({ store }: Opened, isOver: () => boolean): Promise<number> {
  let bytes = 0;
  while (!isOver()) {
    const deliveries = Array.from({ length: 4 }, () => sized(crypto.randomUUID(), 200_000));
    await Promise.all(deliveries.map((delivery) => store.accept(delivery)));
    const leases = await store.claim({ limit: 4, owner: "test", leaseMs: 30_000 });
    await Promise.all(leases.map((lease) => store.complete(lease)));
    bytes += 4 * 200_000;
  }
  return bytes;
}

testFile(
  "the log of a file does not grow without end under constant load",
  async (opened, path) => {
    const end = performance.now() + byLength(60_000, 2_000);
    let largest = 0;
    const bytes = await takeIn(opened, () => {
      largest = Math.max(largest, opened.size("-wal"));
      return performance.now() > end && timesBegun(path) > 2;
    });
    assert(bytes > 2 * largest, `${bytes} bytes written, and the log has grown to ${largest}`);
    assert(largest < 150 * MB, `the log has grown to ${largest} bytes`);
    assertEquals(opened.lines, []);
  },
);

testFile(
  "a reader keeps the log from being begun anew, and nothing from being stored",
  async (opened, path) => {
    await using other = await openIn(path);
    other.file.db.run("begin");
    other.file.db.all("select count(*) from event");
    const before = timesBegun(path);
    await takeIn(opened, () => opened.size("-wal") > 80 * MB);
    assertEquals(timesBegun(path), before);
    other.file.db.run("commit");
    await takeIn(opened, () => timesBegun(path) > before);
    assertEquals([opened.lines, other.lines], [[], []]);
  },
);

testFile(
  "a log that a reader lets grow is reported once it is large, and once it is begun anew",
  async (opened, path) => {
    const [reader, writer] = [openSqlite(path), openSqlite(path)];
    writer.database.exec("pragma wal_autocheckpoint = 0; create table own (body)");
    reader.database.exec("begin; select count(*) from event");
    const reports = () => opened.lines.map(({ level, message }) => [level, message]);
    await takeIn(opened, () => opened.size("-wal") > 80 * MB);
    assertEquals(reports(), []);
    writer.database.exec("insert into own values (zeroblob(200 * 1024 * 1024))");
    await takeIn(opened, () => reports().length > 0);
    const [{ bytes, remedy }] = opened.lines as [LogRecord];
    assert(Number(bytes) > 256 * 1024 * 1024);
    assertMatch(String(remedy), /^end the program that has been reading the file/);
    const before = timesBegun(path);
    await takeIn(opened, () => opened.size("-wal") > Number(bytes) + 40 * MB);
    assertEquals([reports().length, timesBegun(path)], [1, before]);
    reader.database.exec("commit");
    await takeIn(opened, () => reports().length > 1);
    assert(opened.size("-wal") < 80 * MB);
    assertEquals(reports(), [
      ["warn", "write-ahead log grows: a program reads the file"],
      ["info", "write-ahead log begun anew"],
    ]);
    for (const each of [reader, writer]) each[Symbol.dispose]();
  },
);

testFile("space comes back that a backlog has left, while the app runs", async (opened) => {
  const { store, size } = opened;
  for (let i = 0; i < 300; i++) await store.accept(sized(`d${i}`, 200_000));
  await until(() => size() > 30 * MB, 10_000);
  for (const lease of await store.claim({ limit: 300, owner: "test", leaseMs: 30_000 })) {
    await store.complete(lease);
  }
  await until(() => size() < 5 * MB, 20_000);
  assertEquals(opened.file.db.one("pragma integrity_check")?.integrity_check, "ok");
  assertEquals(opened.lines, []);
});

testFile(
  "without a Worker the maintenance runs in the app, and says so once",
  async (opened, path) => {
    const { Worker } = globalThis;
    try {
      globalThis.Worker = undefined as unknown as typeof Worker;
      await takeIn(opened, () => timesBegun(path) > 2);
    } finally {
      globalThis.Worker = Worker;
    }
    assertEquals(opened.lines.map(({ level, message }) => [level, message]), [
      ["warn", "no Worker for the database file: its maintenance holds up the app"],
    ]);
  },
);

testFile(
  "a Worker that is started late opens no other file than the app's",
  async (opened, path) => {
    await opened.store.accept(sized("first", 10));
    await Deno.rename(path, `${path}.elsewhere`);
    const refusal = "no Worker for the database file: its maintenance holds up the app";
    await takeIn(opened, () => opened.lines.some(({ message }) => message === refusal));
    // SQLite would have made the file, and deleted the log.
    assert(await Deno.stat(`${path}-wal`));
    await Deno.rename(`${path}.elsewhere`, path);
    await using again = await openIn(path);
    assert(await again.store.get("first"));
  },
);
