import { assertEquals, assertMatch } from "@std/assert";
import { runDeno } from "../../../dev/harness/run.ts";
import { CANARIES } from "../../apps/_canary_requests.ts";
import { FORGE_SECRET } from "../../_deliveries.ts";
import { withFolder } from "../../_folder.ts";
import { testWith } from "../../_permissions.ts";

const NEEDS = ["read", "write", "run", "env"] as const;
const root = new URL("../../../", import.meta.url);

/** Looks for secrets in a folder that has a file with a content, and perhaps a mode. */
async function find(
  path: string,
  content: string,
  mode = 0o644,
): Promise<[code: number, output: string]> {
  return await withFolder(async (folder) => {
    // The secrets that are sought here are those of this run, too: only the tool is to see them.
    await Deno.mkdir(`${folder}/kvs`);
    await Deno.writeTextFile(`${folder}/${path}`, content, { mode });
    const tool = new URL("dev/tools/find_secrets.ts", root).href;
    const args = ["run", "--cached-only", "--quiet", "--allow-read", tool, folder];
    const { code, stderr } = await runDeno(args);
    await Deno.writeTextFile(`${folder}/${path}`, "");
    return [code, stderr.split("\n")[0]!];
  });
}

testWith(NEEDS, "find_secrets.ts names a secret that is stored in base64", async () => {
  const [code, output] = await find("kvs/kv.db", `x${btoa(`key=${FORGE_SECRET};`)}`);
  assertEquals(code, 1);
  assertMatch(output, /^The tests have written a secret: FORGE_SECRET in .+kv\.db$/);
});

testWith(NEEDS, "find_secrets.ts finds a secret where two windows of a file meet", async () => {
  const [code] = await find("answers", `${"x".repeat(64 * 1024 * 1024 - 10)}${FORGE_SECRET}`);
  assertEquals(code, 1);
});

testWith(NEEDS, "find_secrets.ts lets payloads be stored, and not be answered", async () => {
  assertEquals((await find("kvs/kv.db", CANARIES.payload))[0], 0);
  assertEquals((await find("answers", CANARIES.payload))[0], 1);
});

testWith(NEEDS, "find_secrets.ts leaves out programs that a test has built", async () => {
  const program = `const secret = "${FORGE_SECRET}";`;
  assertEquals((await find("kvs/forge.js", program))[0], 0);
  assertEquals((await find("kvs/my-bot", program, 0o755))[0], 0);
  assertEquals((await find("kvs/my-bot", program, 0o644))[0], 1);
  assertEquals((await find("output", program, 0o755))[0], 1);
});

testWith(NEEDS, "_record.ts keeps what is answered, written and stored", async () => {
  await withFolder(async (folder) => {
    const args = [
      ...["test", "--cached-only", "-A", "--no-check", "--quiet", "--preload", "tests/_record.ts"],
      ...["tests/health/health_routes_test.ts", "tests/webhook/enqueue_test.ts"],
    ];
    const env = { RECORD_FOLDER: folder };
    assertEquals((await runDeno(args, { env, cwd: root })).code, 0);
    const kept = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
    const answers = kept.filter((name) => name.startsWith("answers-"));
    const texts = await Promise.all(answers.map((name) => Deno.readTextFile(`${folder}/${name}`)));
    assertMatch(texts.join(""), /"status":"ok"/);
    assertMatch(texts.join(""), /503 .+"content-type","application\/json/);
    const kvs = await Array.fromAsync(Deno.readDir(`${folder}/kvs`), ({ name }) => name);
    assertEquals(kvs.some((name) => name.startsWith("memory-")), true);
  });
});
