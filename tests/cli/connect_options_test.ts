import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { readConnectOptions } from "../../cli/_connect_options.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { connect, VARIABLES } from "./_connect.ts";
import { BOT_TOKEN } from "./_telegram_api.ts";

/** Reads a command line whose words are separated by blanks. */
function read(line: string, variables: Readonly<Record<string, string>> = VARIABLES) {
  const world = { err: () => {}, env: (name: string) => variables[name] };
  return readConnectOptions(line.split(" ").filter((word) => word), world)!;
}

Deno.test("readConnectOptions() completes the addresses", () => {
  const { webhook, api, app, task } = read("telegram https://bot.example.com:8443");
  assertEquals(webhook, "https://bot.example.com:8443/webhook");
  assertEquals([api, app, task], [
    ...["https://api.telegram.org", "http://localhost:8000/webhook", "register"],
  ]);
  assertEquals(
    read("github acme/site https://bot.example.com/a/").webhook,
    "https://bot.example.com/a/",
  );
  assertEquals(
    read("github a/b --api https://ghe.example/api/v3/").api,
    "https://ghe.example/api/v3",
  );
  assertEquals(read("telegram --api http://bot-api:8081").api, "http://bot-api:8081");
  const forward = read("github acme/.github --forward --since 10m --hook 7", {
    ...VARIABLES,
    PORT: "9000",
  });
  assertEquals([forward.app, forward.since, forward.hook, forward.task, forward.repository], [
    ...["http://localhost:9000/webhook", 600_000, "7", "forward", "acme/.github"],
  ]);
});

const HERE = "use connect telegram --forward for an app without a public address";

const MISTAKES: Readonly<Record<string, string>> = {
  "": "Name the platform: connect telegram, or connect github OWNER/REPO",
  "gitlab a/b": "Name the platform: ",
  "github": "Name the repository: connect github OWNER/REPO",
  "github https://github.com/acme/site":
    "must be owner/name, such as acme/site, got https://github.com",
  "github acme": "must be owner/name, such as acme/site, got acme",
  "github acme/..": "must be owner/name",
  "github acme/site/x": "must be owner/name",
  "github acme/site https://a.example b": "Unexpected arguments after the URL: 1",
  "telegram bot.example.com": "The URL to register must be like https://bot.example.com",
  "telegram ftp://bot.example.com": "The URL to register must be like https://bot.example.com",
  "telegram http://bot.example.com": `must begin with https:, got http: (${HERE})`,
  "telegram http://localhost:8000": `Telegram cannot reach localhost: ${HERE}`,
  "telegram https://127.0.0.1": `Telegram cannot reach 127.0.0.1: ${HERE}`,
  "telegram https://2130706433": "Telegram cannot reach 127.0.0.1",
  "telegram https://[::1]:8443/w": "Telegram cannot reach [::1]",
  "telegram https://[::ffff:127.0.0.1]/w": "Telegram cannot reach [::ffff:7f00:1]",
  "telegram https://192.168.1.7": "Telegram cannot reach 192.168.1.7",
  "telegram https://myhost/w": "Telegram cannot reach myhost",
  "github a/b https://10.0.0.1":
    "GitHub cannot reach 10.0.0.1: use connect github OWNER/REPO --forward",
  "telegram https://bot.example.com:8080": "ports 443, 80, 88 and 8443 only, got 8080",
  "telegram https://ada:pw@bot.example.com": "must hold no user and no password",
  "telegram https://a.example --forward": "--forward registers no webhook: leave the URL out",
  "telegram --take-over": "connect telegram without a URL and --forward has no --take-over",
  "telegram --events message": "connect telegram without a URL and --forward has no --events",
  "telegram --forward --hook 1": "connect telegram --forward has no --hook",
  "telegram https://a.example --url http://b": "connect telegram URL has no --url",
  "telegram --forward --drop-pending": "connect telegram --forward has no --drop-pending",
  "telegram --since 1h": "has no --since",
  "github a/b --forward --since soon":
    "--since must be an age such as 30s, 15m, 12h or 7d, got soon",
  "github a/b --forward --hook x": "--hook must be the number of a webhook, got x",
  "github a/b --forward --url localhost": "--url (or PORT) must be the app's address",
  "github a/b https://a.example --events push,,":
    "--events must be names such as push,issues or *, got push,,",
  "github a/b --api api.github.com": "--api must be the address of an API",
  "github a/b --api ftp://a": "--api must be the address of an API, without user",
  "github a/b --api http://api.github.com":
    "--api must begin with https:, since api.github.com is not in",
  "github a/b --forwards": "--forwards",
  "telegram --token=123456:abc": "There is no --token, since the process list would show it",
  "telegram --secret abc": "There is no --secret, since the process list would show it",
};

for (const [line, message] of Object.entries(MISTAKES)) {
  Deno.test(`connect explains: ${line}`, () => {
    const error = assertThrows(() => read(line), Error);
    assertEquals(error.name, "UsageError");
    assertStringIncludes(error.message, message);
  });
}

/** Command lines, the variables that are set, and the error. */
const MISSING: readonly (readonly [string, Record<string, string>, string])[] = [
  [
    "telegram https://a.example",
    {},
    "Cannot connect Telegram: set TELEGRAM_BOT_TOKEN, and TELEGRAM_SECRET_TOKEN or " +
    "MESSENGER_SECRET_TOKEN (or name a file with --secret-file)",
  ],
  ["telegram", { TELEGRAM_BOT_TOKEN: " " }, "Cannot connect Telegram: set TELEGRAM_BOT_TOKEN"],
  [
    "github a/b --forward",
    { GITHUB_WEBHOOK_SECRET: "  " },
    "Cannot connect GitHub: set GITHUB_TOKEN, and GITHUB_WEBHOOK_SECRET or FORGE_WEBHOOK_SECRET (or " +
    "name a file with --secret-file)",
  ],
  [
    "telegram",
    { TELEGRAM_BOT_TOKEN: "abc" },
    "TELEGRAM_BOT_TOKEN must be the bot's token as @BotFather",
  ],
  [
    "telegram",
    { TELEGRAM_BOT_TOKEN: `${BOT_TOKEN}/..` },
    "TELEGRAM_BOT_TOKEN must be the bot's token",
  ],
  ["github a/b", { GITHUB_TOKEN: "a\nb" }, "GITHUB_TOKEN must be a token without spaces"],
  [
    "telegram --forward",
    { TELEGRAM_BOT_TOKEN: BOT_TOKEN, MESSENGER_SECRET_TOKEN: "with a space" },
    "MESSENGER_SECRET_TOKEN must have 1 to 256 characters, and none but A-Z, a-z, 0-9, _ and -",
  ],
];

for (const [line, variables, message] of MISSING) {
  Deno.test(`connect names the variables: ${line}, ${Object.keys(variables)}`, () => {
    const error = assertThrows(() => read(line, variables), Error);
    assertEquals(error.name, "UsageError");
    assertStringIncludes(error.message, message);
    const values = Object.values(variables).filter((value) => value.trim() !== "");
    for (const value of values) assertEquals(error.message.includes(value), false);
  });
}

testWith(["read", "write"], "connect takes the secret from a file", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/secret`, "from-a-file\n");
    const variables = { TELEGRAM_BOT_TOKEN: BOT_TOKEN };
    const line = `telegram --forward --secret-file ${folder}/secret`;
    assertEquals(read(line, variables).secret, "from-a-file");
    await Deno.writeTextFile(`${folder}/secret`, "from a file");
    assertThrows(() => read(line, variables), Error, "The secret must have 1 to 256 characters");
  });
});

Deno.test("connect ends with 2 for a mistake, and quotes no token", async () => {
  const { code, out, err } = await connect(["telegram", BOT_TOKEN]);
  assertEquals([code, out, err], [2, [], [
    "The URL to register must be like https://bot.example.com",
  ]]);
});
