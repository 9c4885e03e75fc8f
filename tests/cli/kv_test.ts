import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { openEventStore } from "../../events/mod.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { delivery } from "../events/store/_events.ts";
import { ACCESS_TOKEN } from "../events/store/kv/_denokv.ts";
import { runHere, testCli } from "./_cli.ts";
import { ended } from "./_process.ts";

const COMMANDS: readonly (readonly string[])[] = [
  ["list"],
  ["stats"],
  ["show", "d1"],
  ["replay", "--all", "--yes"],
  ["cancel", "d1"],
  ["purge", "--all", "--yes"],
];

testCli("events asks which store is meant where a KV holds several", async ({ cli, store, kv }) => {
  await store.accept(delivery("d1"));
  await (await openEventStore(kv, { namespace: "other" })).accept(delivery("d2"));
  assertEquals(await cli("list"), {
    ...{ code: 2, out: [] },
    err: ["The database holds several stores, choose one with --namespace: bot, other"],
  });
  assertEquals((await cli("list", "--namespace", "other")).out.length, 1);
});

testCli("events says that a KV is empty", async ({ cli }) => {
  const { code, out, err } = await cli("stats");
  assertEquals([code, err], [0, ["There are no events in this database"]]);
  assertEquals(out.map((line) => line.split(/ +/)[1]), Array(6).fill("0"));
  assertEquals((await cli("list", "--json")).code, 0);
  assertEquals((await cli("purge", "--all", "--yes")).out, ["0 purged"]);
  assertEquals((await cli("replay", "d1")).code, 1);
});

testCli(
  "events says that a namespace has no events, and names the one that has some",
  async (sut) => {
    await sut.store.accept(delivery("d1"));
    const { code, err } = await sut.cli("stats", "--namespace", "bto");
    assertEquals([code, err], [0, ["There are no events of bto in this database, only of bot"]]);
  },
);

testCli("events takes the KV from KV_URL, and rather from --kv", async ({ store, path }) => {
  await store.accept(delivery("d1"));
  const env = (name: string) => name === "KV_URL" ? ` ${path} ` : undefined;
  assertEquals((await runHere(["events", "list"], { env })).out.length, 1);
  const { code } = await runHere(["events", "list", "--kv", `${path}.other`], { env });
  assertEquals(code, 2);
});

testCli("events takes a database with its engine from --store", async ({ store, path }) => {
  await store.accept(delivery("d1"));
  const env = (name: string) => name === "KV_URL" ? `${path}.other` : undefined;
  const list = (...args: string[]) => runHere(["events", "list", ...args], { env });
  assertEquals((await list("--store", `kv:${path}`)).out.length, 1);
  const doing = "Cannot open the database";
  const begin = `${doing}: --store must begin with kv:, sqlite: or postgres:, got `;
  const wrong: readonly [readonly string[], string][] = [
    [
      ["--store", "./bot.db"],
      `${begin}"./bot.db": give --store kv:./bot.db for a KV, or sqlite:./bot.db for a SQLite file`,
    ],
    [["--store", "toString:x"], `${begin}"toString:x"`],
    [["--store", "sql:./bot.db"], `${begin}"sql:./bot.db"`],
    [["--store", "mysql://bob:s3cret@db/bot"], `${begin}a URL with mysql:`],
    [["--store", "kv:"], `${doing}: --store names no database, got "kv:": give kv:PATH`],
    [
      ["--store", "postgres:"],
      `${doing}: --store names no database, got "postgres:": give postgres://...`,
    ],
    [["--store", `kv:${path}`, "--kv", path], `${doing}: give --store or --kv, not both`],
    [["--store", `kv:${path}.typo`], `There is no KV file ${path}.typo`],
  ];
  for (const [args, message] of wrong) {
    assertEquals(await list(...args), { code: 2, out: [], err: [message] });
  }
});

testWith(
  ["read", "write"],
  "events makes no KV where there is none",
  () =>
    withFolder(async (folder) => {
      await Deno.writeTextFile(`${folder}/text.txt`, "not a database");
      await Deno.writeTextFile(`${folder}/empty.db`, "");
      const kvs: Record<string, string> = {
        [`${folder}/typo.db`]: `There is no KV file ${folder}/typo.db`,
        [`${folder}/text.txt`]: `There is no KV in the file ${folder}/text.txt`,
        [`${folder}/empty.db`]: `There is no KV in the file ${folder}/empty.db`,
        [folder]: `There is no KV in the file ${folder}`,
        ":memory:": "A database in memory can be read only by its own process",
      };
      for (const [kv, message] of Object.entries(kvs)) {
        for (const command of COMMANDS) {
          const result = await runHere(["events", ...command, "--kv", kv]);
          assertEquals(result, { code: 2, out: [], err: [message] });
        }
      }
      assertEquals((await Array.fromAsync(Deno.readDir(folder))).length, 2);
    }),
);

testCli(
  "events writes nothing of a KV that a terminal would act on",
  async ({ cli, kv, store }) => {
    const odd = "o\x9b31m\u202et\u2028her";
    await store.accept(delivery("d1"));
    await (await openEventStore(kv, { namespace: odd })).accept(delivery("d2"));
    await store.accept({ ...delivery("d3"), type: odd });
    for (
      const args of [
        ["list"],
        ["list", "--namespace", "bot"],
        ["list", "--namespace", "bot", "--json"],
        ["show", odd, "--namespace", "bot"],
        ["replay", odd, "--namespace", "bot"],
        ["replay", odd, "--namespace", "bot", "--json"],
        ["list", "--state", odd],
      ]
    ) {
      const { out, err } = await cli(...args);
      const text = [...out, ...err].join("\n");
      assertEquals(text.match(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu), null, args.join(" "));
      if (args.at(-1) === "--json") assertStringIncludes(JSON.stringify(out.map(parsed)), "her");
    }
  },
);

const parsed = (line: string) => JSON.parse(line);

for (const args of [[], ["--kv", "data/kv.db"]]) {
  testWith(
    ["read", "write", "run", "env"],
    `events list ${args.join(" ")} tells what it lacks without --unstable-kv`,
    () =>
      withFolder(async (folder) => {
        const root = new URL("../../", import.meta.url);
        const { imports, links } = JSON.parse(await Deno.readTextFile(new URL("deno.json", root)));
        // Deno 2.5 takes the path of a link as one that is relative to the configuration.
        const toRoot = relative(folder, fileURLToPath(root)).replaceAll("\\", "/");
        const moved = links?.map((link: string) => `${toRoot}/${link}`);
        await Deno.writeTextFile(`${folder}/deno.json`, JSON.stringify({ imports, links: moved }));
        const main = new URL("cli/main.ts", root).href;
        const process = new Deno.Command(Deno.execPath(), {
          args: [
            ...[
              "run",
              "--cached-only",
              "--quiet",
              "--no-lock",
              `--config=${folder}/deno.json`,
              "-A",
            ],
            ...[main, "events", "list", ...args],
          ],
          ...{ env: { NO_COLOR: "1" }, stdout: "piped", stderr: "piped" },
        }).spawn();
        const lacking =
          'Deno.openKv is missing: put "unstable": ["kv"] into deno.json, or run Deno with ' +
          "--unstable-kv";
        const unnamed =
          "Name the database with --store, such as sqlite:data/my-bot.db: without a " +
          `name it is Deno's default KV (${lacking})`;
        assertEquals(await ended(process), {
          ...{ code: 2, out: "" },
          err: `${args.length > 0 ? lacking : unnamed}\n`,
        });
      }),
  );
}

/** Deno 2.5 tries a remote KV that refuses connections again for ever, and does not let go of it. */
const isTried = (kv: string) => !ON_DENO_2_5 || !kv.startsWith("http://");

/** A KV that cannot be used, and holds a password. */
const WITH_PASSWORD: readonly string[] = [
  "http://bob:s3cret@",
  "http://bob:s3cret@127.0.0.1:1/",
  "http://bob:s3cret@127.0.0.1:1/?token=s3cret",
  "http://bob:s3/cr et-s3cret@127.0.0.1:1",
  "http://127.0.0.1:1/s3cret",
  "HTTP://bob:s3cret@127.0.0.1:1",
  "htp://bob:s3cret@127.0.0.1",
  "http:/bob:s3cret@127.0.0.1",
  "bob:s3cret@127.0.0.1",
].filter(isTried);

testWith(["read", "write", "net", "env"], "events never writes a password", async () => {
  Deno.env.set("DENO_KV_ACCESS_TOKEN", ACCESS_TOKEN);
  for (const kv of WITH_PASSWORD) {
    const lines = [
      ...[["list", "--kv", kv], ["list", "--store", `kv:${kv}`], ["list", `--store=${kv}`]],
      ...[["list", `--kvv=${kv}`], ["list", kv], [kv], [`--${kv}`]],
    ];
    for (const line of lines) {
      const { code, out, err } = await runHere(["events", ...line]);
      assert(code > 0 && err.length === 1 && out.length === 0, line.join(" "));
      assert(!err[0]!.includes("s3"), err[0]);
    }
    const { err } = await runHere(["events", "list"], { env: () => kv });
    assert(!err[0]!.includes("s3"), err[0]);
  }
});

const isTriedForEver = !isTried("http://127.0.0.1:1");
testWith(
  ["read", "write", "net", "env"],
  "events tells why a remote KV cannot be used",
  async () => {
    Deno.env.set("DENO_KV_ACCESS_TOKEN", ACCESS_TOKEN);
    const { code, err } = await runHere(["events", "list", "--kv", "http://127.0.0.1:1"]);
    assertEquals(code, 1);
    assertStringIncludes(err[0]!, "Connection refused");
  },
  isTriedForEver ? "Deno 2.5 tries for ever" : undefined,
);
