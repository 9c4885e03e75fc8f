import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { Client } from "pg";
import { environmentOf } from "../../../../dev/harness/environment.ts";
import config from "../../../../deno.json" with { type: "json" };
import { testWith } from "../../../_permissions.ts";
import { POSTGRES } from "../engines/postgres.ts";
import { sharedPostgres } from "./_server.ts";

const { needs, missing } = POSTGRES.kinds[0];

/** Runs a module of this folder in a process of its own, and returns what it writes. */
async function runOwn(
  module: string,
  { flags, args = [], env = {} }: {
    readonly flags: readonly string[];
    readonly args?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<string> {
  const path = new URL(module, import.meta.url).href;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", "--no-check", ...flags, path, ...args],
    ...{ env: environmentOf(env, Deno.env.toObject()), clearEnv: true },
  }).output();
  const decoder = new TextDecoder();
  return (decoder.decode(stdout) + decoder.decode(stderr)).trim();
}

testWith(["read", "run", "env"], "no entry point loads the client of Postgres", async () => {
  const run = (...args: string[]) => runOwn("_lazy.ts", { flags: ["-A", "--unstable-kv"], args });
  assertEquals(await run(...Object.values(config.exports)), "0");
  assertMatch(await run("tests/events/store/postgres/_client.ts"), /^[1-9]/);
});

const SECRETS = { FORGE_WEBHOOK_SECRET: "It's a Secret to Everybody, of 32 characters" };

/** The list that an app writes which may read no variable. */
const ALLOW = /allow them, with (--allow-env=\S+)/;

testWith(needs, "an app on Postgres runs with the permissions that it asks for", async () => {
  const url = new URL((await sharedPostgres()).direct);
  const schema = `app_${crypto.randomUUID().replaceAll("-", "")}`;
  const env = { ...SECRETS, DATABASE_URL: `${url.href}?store_schema=${schema}` };
  const [, variables] = ALLOW.exec(await runOwn("_confined.ts", { flags: [], env }))!;
  const net = `--allow-net=${url.host}`;
  assertEquals(await runOwn("_confined.ts", { flags: [variables!, net], env }), "jobs:1");
  const refused = await runOwn("_confined.ts", { flags: [variables!], env });
  assertStringIncludes(
    refused,
    "this program may not connect there: allow it, with --allow-net=HOST:PORT",
  );
  const client = new Client({ connectionString: url.href });
  await client.connect();
  await client.query(`drop schema ${schema} cascade`);
  await client.end();
}, missing);
