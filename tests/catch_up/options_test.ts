import { assertEquals, assertRejects } from "@std/assert";
import { catchUp } from "../../catch_up/mod.ts";
import { openEventStore } from "../../events/mod.ts";

const hooks = [{ app: true }];
const github = { token: "ghp_1" };
const AUTH =
  "'github' must be an Octokit, or have a 'token', or the 'appId' and the 'privateKey' of a GitHub App";

/** Options that are wrong, and what is said of them. */
const WRONG: readonly [string, unknown][] = [
  ["the options must be an object, got undefined", undefined],
  ["'hooks' must be an array with at least one webhook, got an empty one", { hooks: [] }],
  [
    "'hooks' must be an array with at least one webhook, got an object",
    { hooks: { repository: "acme/site" } },
  ],
  ["'hooks[0]' must be an object, got \"acme/site\"", { hooks: ["acme/site"] }],
  [
    "'hooks[0]' must have 'repository', 'organization' or 'app', got none of them",
    { hooks: [{ url: "https://bot.test/" }] },
  ],
  [
    "'hooks[1]' must have 'repository', 'organization' or 'app', got repository and app",
    { hooks: [...hooks, { repository: "acme/site", app: true }] },
  ],
  [
    "in 'hooks[0]': 'repository' must be owner/name, such as acme/site, got \"https://github.com/acme/site\"",
    { hooks: [{ repository: "https://github.com/acme/site" }] },
  ],
  [
    "in 'hooks[0]': 'organization' must be the name of an organization, got \"acme/site\"",
    { hooks: [{ organization: "acme/site" }] },
  ],
  ["in 'hooks[0]': 'app' must be true, got false", { hooks: [{ app: false }] }],
  [
    "in 'hooks[0]': 'id' must be the number of a webhook, got \"7/../8\"",
    { hooks: [{ repository: "acme/site", id: "7/../8" }] },
  ],
  [
    "in 'hooks[0]': 'url' must be a URL with http or https, got \"bot.test\"",
    { hooks: [{ repository: "acme/site", url: "bot.test" }] },
  ],
  [`${AUTH}, got a text`, { github: "ghp_secret" }],
  [`${AUTH}, got undefined`, { github: undefined }],
  [`${AUTH}, got none of them`, { github: {} }],
  [`${AUTH}, got both`, { github: { ...github, appId: 1, privateKey: "k" } }],
  [`${AUTH}, got an object`, { github: { request: true } }],
  [
    "in 'github': 'token' must be a text that is not blank, got a blank one",
    { github: { token: " " } },
  ],
  [
    "in 'github': 'token' must be a text that is not blank, got a promise: await it",
    { github: { token: Promise.resolve("ghp_1") } },
  ],
  [
    "in 'github': 'privateKey' must be a text that is not blank, got undefined",
    { github: { appId: 1 } },
  ],
  ["in 'github': 'appId' must be an id, got undefined", { github: { privateKey: "k" } }],
  [
    "an app reads the webhooks of a repository or an organization as one of its installations: give 'github' the " +
    "'installationId' as well",
    { github: { appId: 1, privateKey: "k" }, hooks: [{ repository: "acme/site" }] },
  ],
  [
    "in 'github': 'api' must be a URL with http or https, got \"github.acme.com\"",
    { github: { ...github, api: "github.acme.com" } },
  ],
  [
    "in 'github': 'api' must begin with https:, since a token goes there and github.acme.com is not in this " +
    "network",
    { github: { ...github, api: "http://github.acme.com/api/v3" } },
  ],
  ["'intake' must be the name of an intake, got \"\"", { intake: "" }],
  ["'dryRun' must be true or false, got \"no\"", { dryRun: "no" }],
  ["'signal' must be an AbortSignal, got an object", { signal: {} }],
  ["'telemetry' must be what openTelemetry() resolves with, got an object", { telemetry: {} }],
  ["'limit' must be a whole number from 1 to 100000, got 0", { limit: 0 }],
  ["'paceMs' must be a whole number from 0 to 60000, got -1", { paceMs: -1 }],
  ["'sinceMs' must be a whole number from 1 to 9007199254740991, got \"2h\"", { sinceMs: "2h" }],
];

for (const [reason, given] of WRONG) {
  Deno.test(`catchUp() says: ${reason}`, async () => {
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv);
    const options = given === undefined ? given : { hooks, github, sinceMs: 1, ...given };
    const error = await assertRejects(() => catchUp(store, options as never));
    const separator = reason.startsWith("in ") ? ", " : ": ";
    assertEquals((error as Error).message, `Cannot catch up${separator}${reason}`);
  });
}

Deno.test("catchUp() names an unknown option of a webhook and of the authentication", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const hook = { repository: "acme/site", hook: 7 } as never;
  await assertRejects(
    () => catchUp(store, { hooks: [hook], github, sinceMs: 1 }),
    TypeError,
    "Cannot catch up, in 'hooks[0]': there is no option \"hook\". There are repository, id, url",
  );
  await assertRejects(
    () => catchUp(store, { hooks: [{ app: true }], github: { auth: "x" } as never, sinceMs: 1 }),
    TypeError,
    "Cannot catch up, in 'github': there is no option \"auth\". There are api, token, appId, privateKey, " +
      "installationId",
  );
  await assertRejects(
    () => catchUp({} as never, { hooks: [{ app: true }], github, sinceMs: 1 }),
    TypeError,
    "Cannot catch up: the store must be what openEventStore() resolves with, got an object",
  );
});
