import { assert, assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { readPlace } from "../../app/variables.ts";
import { variablesIn } from "../../core/env.ts";
import { kv, sqlite } from "../../events/mod.ts";
import * as platforms from "../../webhook/mod.ts";
import { testWith } from "../_permissions.ts";
import { read, rows } from "./_documents.ts";

const DOCUMENT = "docs/configuration.md";
const BY_HAND = "docs/composing.md";

/** Platforms that read variables of a fixed name. */
const PLATFORMS: readonly ((options?: object) => platforms.Platform)[] = [
  platforms.github,
  platforms.gitea,
  platforms.gitlab,
  platforms.forge,
  platforms.telegram,
  platforms.messenger,
  platforms.slack,
  platforms.stripe,
];

/** Interfaces whose members each section's tables list, those that others extend among them. */
const TABLES: Readonly<Record<string, readonly string[]>> = {
  "### Definition": [
    "app/definition.ts AppDefinition",
    "app/base_app.ts AppOptions: version before",
  ],
  "### Worker": ["events/worker/worker.ts WorkerOptions"],
  "### Retry": ["events/worker/retry_policy.ts RetryPolicy"],
  "### Platform": [
    "webhook/platform.ts PlatformOptions",
    "webhook/forge.ts ForgeOptions",
    "webhook/messenger.ts MessengerOptions",
    "webhook/standard.ts StandardOptions",
  ],
  "### Handler": ["events/router/event_router.ts HandlerOptions"],
  "### Schedule": ["app/definition.ts ScheduleOptions"],
  "### Starting": [
    "app/open_app.ts OpenAppOptions",
    "app/start_app.ts StartAppOptions",
  ],
};

/** The same for the parts of an app that is composed by hand. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  "## createBaseApp": ["app/base_app.ts AppOptions"],
  "## Middleware": [
    "middleware/rate_limiter.ts RateLimitOptions",
    "middleware/logger.ts LoggerOptions",
    "middleware/auth.ts AuthOptions",
  ],
};

/** Member of an interface, with its default if that is a number, a text or a boolean. */
interface Member {
  readonly name: string;
  readonly fallback: string | undefined;
}

/** Reads the members of an interface, as `path Name`, of which those after a colon count. */
async function membersOf(where: string): Promise<Member[]> {
  const [, path, name, only] = /^(\S+) (\w+)(?:: (.*))?$/.exec(where)!;
  const body = new RegExp(`^export interface ${name}\\b[^]*?\\{\\n([^]*?)^\\}`, "m")
    .exec(await read(path!))?.[1] ?? "";
  return [...body.matchAll(/^ {2}\/\*\*((?:(?!\*\/)[^])*)\*\/\s+readonly (\w+)\??:/gm)]
    .map(([, comment, member]) => ({
      name: member!,
      fallback: /@default \{([\d_]+|"[\w.\/-]*"|true|false)\}/.exec(comment!)?.[1],
    }))
    .filter((member) => only === undefined || only.split(" ").includes(member.name));
}

/** Cuts out the text from a heading to the next one. */
async function section(heading: string, path = DOCUMENT): Promise<string> {
  const document = await read(path);
  const start = document.indexOf(`\n${heading}\n`);
  assert(start >= 0, `${path} has no ${heading}`);
  const next = document.slice(start + 1 + heading.length).search(/\n#{1,3} /);
  return document.slice(start, next < 0 ? undefined : start + 1 + heading.length + next);
}

/** Names that a cell sets in the type of code. */
function codes(cell: string | undefined): string[] {
  return [...(cell ?? "").matchAll(/`([^`]+)`/g)].map(([, code]) => code!);
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}

const documented = [
  ...Object.entries(TABLES).map((each) => [DOCUMENT, ...each] as const),
  ...Object.entries(PARTS).map((each) => [BY_HAND, ...each] as const),
];

for (const [path, heading, interfaces] of documented) {
  testWith(["read"], `${path} lists the options of ${heading.replace(/^#+ /, "")}`, async () => {
    const table = rows(await section(heading, path));
    const members = (await Promise.all(interfaces.map(membersOf))).flat();
    assertEquals(
      unique(table.flatMap(([name]) => codes(name))),
      unique(members.map(({ name }) => name)),
    );
    const differing = members.filter(({ name, fallback }) =>
      fallback && !table.some((row) => row[0] === `\`${name}\`` && row.includes(`\`${fallback}\``))
    );
    assertEquals(differing, []);
  });
}

testWith(
  ["read"],
  `${DOCUMENT} lists the variables that platforms, stores and permissions name`,
  async () => {
    const made = PLATFORMS.flatMap((make) => make().variables);
    const permitted = Object.values(config.permissions).flatMap(({ env }) => env);
    const stores = [kv(), sqlite()].flatMap(({ variables }) => variables);
    // Others may read them as well, for a pool of their own.
    const client = ["HOST", "PORT", "USER", "PASSWORD", "DATABASE", "SSLMODE"];
    const postgres = ["DATABASE_URL", ...client.map((name) => `PG${name}`)];
    const known = [
      ...made,
      ...stores,
      ...postgres,
      ...permitted,
      "<NAME>_WEBHOOK_SECRET",
      "..._PREVIOUS",
    ]
      .filter((name) => !/\w_PREVIOUS$/.test(name));
    const table = rows(await section("## Variables"));
    assertEquals(unique(table.flatMap(([name]) => codes(name))), unique(known));
    const { port, hostname } = readPlace(variablesIn({}, () => {}));
    const defaults = new Map(table.map(([name, fallback]) => [name, fallback]));
    assertEquals([defaults.get("`PORT`"), defaults.get("`HOST`")], [
      `\`${port}\``,
      `\`${hostname}\``,
    ]);
  },
);

testWith(["read"], `${DOCUMENT} names the platform that reads each variable`, async () => {
  const table = rows(await section("## Variables"));
  const ofPlatform = (name: string) =>
    table.filter((row) => row.some((cell) => cell.includes(`\`${name}()\``)))
      .flatMap(([variable]) => codes(variable));
  for (const make of PLATFORMS) {
    const variables = make().variables.filter((name) => !name.endsWith("_PREVIOUS"));
    assertEquals(unique(ofPlatform(make.name)), unique(variables), make.name);
  }
  assertEquals(ofPlatform("standard"), ["<NAME>_WEBHOOK_SECRET"]);
  assertEquals(platforms.standard({ name: "name" }).variables, ["NAME_WEBHOOK_SECRET"]);
});

testWith(["read"], "deploy/README.md lists the permissions of the apps", async () => {
  const { forge, messenger } = config.permissions;
  const table = new Map(
    rows(await section("## Permissions", "deploy/README.md")).map(([name, , ...of]) => [name, of]),
  );
  assertEquals([...table.keys()], Object.keys(forge).map((kind) => `\`${kind}\``));
  for (const kind of ["net", "read", "write"] as const) {
    assertEquals(table.get(`\`${kind}\``)?.map(codes), [forge[kind], messenger[kind]]);
  }
});
