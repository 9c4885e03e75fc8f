import { assert, assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { openEventStore } from "../../events/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith, unlessInstalled } from "../_permissions.ts";
import { openSqlite } from "../_sqlite.ts";
import { commandLine, ended, startCli, writeDone } from "./_process.ts";

const NEEDS = ["read", "write", "run", "env", "net"] as const;

/** So many that work on them takes a while. */
const MANY = 6_000;

/** Reason why a test of the terminal is skipped: `script` gives a command one of its own. */
const NO_TERMINAL = unlessInstalled("script");

/** The file of a KV with many events, as it is after it was closed; filled once for all tests. */
let filled: Promise<Uint8Array> | undefined;

async function fill(): Promise<Uint8Array> {
  let file: Uint8Array | undefined;
  await withFolder(async (folder) => {
    const kv = await Deno.openKv(`${folder}/kv.db`);
    await writeDone(kv, "bot", MANY);
    kv.close();
    file = await Deno.readFile(`${folder}/kv.db`);
  });
  return file!;
}

function testFilledKv(
  name: string,
  fn: (path: string, kv: Deno.Kv) => Promise<void>,
  missing?: string,
): void {
  testKv(
    name,
    (kv, path) => fn(path, kv),
    missing,
    async (path) => await Deno.writeFile(path, await (filled ??= fill())),
  );
}

function testKv(
  name: string,
  fn: (kv: Deno.Kv, path: string) => Promise<void>,
  missing?: string,
  prepare: (path: string) => Promise<void> = () => Promise.resolve(),
): void {
  testWith(NEEDS, name, () =>
    withFolder(async (folder) => {
      await prepare(`${folder}/kv.db`);
      using kv = await Deno.openKv(`${folder}/kv.db`);
      await fn(kv, `${folder}/kv.db`);
    }), missing);
}

testFilledKv("the tool writes its result, and nothing else where no terminal is", async (path) => {
  assertEquals(await ended(startCli("purge", "--all", "--yes", "--kv", path)), {
    ...{ code: 0, out: `${MANY} purged\n`, err: "" },
  });
});

testKv("the tool ends with 2 for a mistake, and 1 for what it cannot do", async (kv, path) => {
  await writeDone(kv, "bot", 1);
  const mistake = await ended(startCli("lst", "--kv", path));
  assertEquals(mistake, {
    ...{ code: 2, out: "", err: "Unknown command: events lst, did you mean list?\n" },
  });
  const { code, out } = await ended(startCli("replay", "d0", "--kv", path));
  assertEquals([code, out], [1, "0 replayed\nnot replayed: d0 (it is done)\n"]);
});

testFilledKv("the tool ends quietly once nobody reads on, as with `head`", async (path) => {
  const process = startCli("list", "--kv", path);
  const reader = process.stdout.getReader();
  assert((await reader.read()).value);
  await reader.cancel();
  assertEquals((await process.status).code, 0);
  assertEquals(await new Response(process.stderr).text(), "");
});

testFilledKv(
  "Ctrl-C ends the tool between two commits, and it tells how far it came",
  async (path, kv) => {
    const process = startCli("purge", "--all", "--yes", "--kv", path);
    const first = ["bot", "event", 0, "d0"];
    await until(async () => (await kv.get(first)).versionstamp === null, 20_000);
    process.kill("SIGINT");
    const { code, out } = await ended(process);
    assertEquals(code, 130);
    const [, purged] = /^(\d+) purged, interrupted\n$/.exec(out) ?? [];
    const store = await openEventStore(kv, { namespace: "bot" });
    assertEquals((await store.stats()).done, MANY - Number(purged));
    assertLess(Number(purged), MANY);
  },
);

testKv("the tool gives up on a KV that does not answer", async (kv, path) => {
  await writeDone(kv, "bot", 1);
  using file = openSqlite(path);
  file.database.exec("begin immediate");
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const kvs = [path, `http://127.0.0.1:${silent.addr.port}`];
  const results = await Promise.all(kvs.map((each) => ended(startCli("stats", "--kv", each))));
  for (const { code, out, err } of results) {
    assertEquals([code, out], [1, ""]);
    assertEquals(
      err,
      "The KV has not answered within 10 s: it is locked, or cannot be reached\n",
    );
  }
});

for (const stdin of ["null", "piped"] as const) {
  testKv(`the tool asks nobody where no terminal is, with its input ${stdin}`, async (kv, path) => {
    await writeDone(kv, "bot", 1);
    const [deno, ...args] = commandLine("purge", "--all", "--kv", path);
    const options = { args, stdin, stdout: "piped", stderr: "piped" } as const;
    await using process = new Deno.Command(deno!, options).spawn();
    // What is piped is not closed meanwhile: it must not be waited for.
    const { code } = await process.status;
    if (stdin === "piped") await process.stdin.close();
    assertEquals(code, 2);
    assertStringIncludes(await new Response(process.stderr).text(), "give --yes, or --dry-run");
    await process.stdout.cancel();
    const store = await openEventStore(kv, { namespace: "bot" });
    assertEquals((await store.stats()).done, 1);
  });
}

/** Runs the tool on a terminal, and types a text. */
async function onTerminal(args: readonly string[], typed: string) {
  const command = ["--quiet", "--return", "--command", args.join(" "), "/dev/null"];
  const options = { args: command, stdin: "piped", stdout: "piped" } as const;
  const process = new Deno.Command("script", options).spawn();
  const writer = process.stdin.getWriter();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let shown = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    shown += value;
    if (shown.endsWith("[y/N] ")) await writer.write(new TextEncoder().encode(typed));
  }
  await writer.close().catch(() => {});
  return { code: (await process.status).code, shown };
}

testKv("the tool asks at a terminal, and does what it is told", async (kv, path) => {
  await writeDone(kv, "bot", 2);
  const store = await openEventStore(kv, { namespace: "bot" });
  const args = commandLine("purge", "--all", "--kv", path);
  const question = "Delete 2 events for good? [y/N] ";
  for (
    const [typed, code, answer] of [["n\n", 1, "Nothing was done"], ["\x03", 130, ""]] as const
  ) {
    const asked = await onTerminal(args, typed);
    assertEquals(asked.code, code);
    assertStringIncludes(asked.shown, question);
    assertStringIncludes(asked.shown, answer);
    assertEquals((await store.stats()).done, 2);
  }
  const { code, shown } = await onTerminal(args, "y\n");
  assertEquals(code, 0);
  assertStringIncludes(shown, question);
  assertStringIncludes(shown, "2 purged");
  assertEquals((await store.stats()).done, 0);
}, NO_TERMINAL);

testFilledKv(
  "the tool shows on a terminal how far it has come, and clears that",
  async (path) => {
    const line = commandLine("purge", "--all", "--yes", "--kv", path).join(" ");
    const args = ["--quiet", "--return", "--command", line, "/dev/null"];
    const { code, stdout } = await new Deno.Command("script", { args, stdin: "null" }).output();
    const shown = new TextDecoder().decode(stdout);
    assertEquals(code, 0);
    assertStringIncludes(shown, " read, ");
    assert(shown.endsWith(`\r\x1b[K${MANY} purged\r\n`), shown.slice(-80));
    assertLess(shown.split(" read, ").length, 100);
  },
  NO_TERMINAL,
);
