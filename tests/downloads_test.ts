import { assert, assertEquals } from "@std/assert";
import config from "../deno.json" with { type: "json" };
import { environmentOf } from "../dev/harness/environment.ts";
import { testWith } from "./_permissions.ts";
import { paths, read } from "./docs/_documents.ts";

/** The modules that start processes for tests, with their text. */
async function modules(): Promise<[path: string, text: string][]> {
  const all = (await paths()).filter((path) => /^(tests|dev)\/.*\.ts$/.test(path));
  return await Promise.all(
    all.map(async (path): Promise<[string, string]> => [path, await read(path)]),
  );
}

/**
 * The first run what a registry on this machine hands out, the second what may import from nowhere else
 * by its permissions, which a flag would hide.
 */
const OTHERS = ["tests/publish/", "tests/apps/_confined.ts"];

const count = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].length;

testWith(["read"], "a module that a test starts is not downloaded", async () => {
  const starting = (await modules()).filter(([path, text]) =>
    text.includes("Deno.execPath()") && !OTHERS.some((other) => path.startsWith(other))
  ).map(([path, text]) =>
    [path, count(text, /"run",\s*(?:"-|\.{3})/g), count(text, /"--cached-only"/g)] as const
  );
  assert(starting.filter(([, started]) => started > 0).length > 3);
  assertEquals(starting.filter(([, started, cachedOnly]) => started > cachedOnly), []);
});

testWith(["read"], "a process without the environment has what Deno needs of it", async () => {
  const emptied = (await modules()).filter(([, text]) => text.includes("clearEnv: true"));
  assert(emptied.length > 1);
  const without = emptied.filter(([, text]) => !text.includes("environmentOf("));
  assertEquals(without.map(([path]) => path), []);
});

Deno.test("environmentOf() hands on caches, certificates, proxy and registry", () => {
  const needed = {
    ...{ PATH: "/bin", HOME: "/home/ada", DENO_DIR: "/cache", TMPDIR: "/tmp" },
    ...{ SSL_CERT_FILE: "a.pem", SSL_CERT_DIR: "/certs", NODE_EXTRA_CA_CERTS: "b.pem" },
    ...{ DENO_CERT: "c.pem", DENO_TLS_CA_STORE: "system", HTTPS_PROXY: "http://127.0.0.1:1" },
    ...{ https_proxy: "http://127.0.0.1:1", no_proxy: "127.0.0.1", Path: "C:\\bin" },
    ...{ npm_config_cache: "/npm", NPM_CONFIG_REGISTRY: "http://127.0.0.1:2" },
  };
  assertEquals(environmentOf({}, needed), { NO_COLOR: "1", ...needed });
});

Deno.test("environmentOf() hands on nothing else, and prefers the given variables to inherited ones", () => {
  const all = {
    FORGE_WEBHOOK_SECRET: "of the user",
    PORT: "1",
    HOME: "/home/ada",
    OTEL_DENO: "true",
  };
  assertEquals(environmentOf({ PORT: "0", HOME: "/" }, all), {
    NO_COLOR: "1",
    PORT: "0",
    HOME: "/",
  });
});

/** Tasks that run tests. */
const TASKS = [
  "test",
  "test:around",
  "test:browser",
  "test:long",
  "coverage",
  "baseline",
  "baseline:slow",
] as const;

for (const task of TASKS) {
  Deno.test(`deno task ${task} installs what it needs before it starts`, () => {
    const [first, ...rest] = config.tasks[task].command.split(" && ");
    assertEquals(first, "deno task install");
    assert(rest.some((command) => command.includes("deno test --cached-only")));
  });
}

for (const task of ["demo", ...TASKS] as const) {
  Deno.test(`deno task ${task} reaches its own servers without the user's proxy`, () => {
    assert(config.tasks[task].command.includes('&& NO_PROXY="127.0.0.1,$NO_PROXY" '));
  });
}
