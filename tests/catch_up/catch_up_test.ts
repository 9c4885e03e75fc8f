import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Octokit } from "@octokit/core";
import { catchUp, type CatchUpOptions } from "../../catch_up/mod.ts";
import { type EventStore, openEventStore } from "../../events/mod.ts";
import { startIntakeApp } from "../cli/_connect.ts";
import { testWith } from "../_permissions.ts";
import { recordTelemetry } from "../telemetry/_recording.ts";
import { FakeGithub, GITHUB_TOKEN, problem } from "./_fake_github.ts";

const HOUR_MS = 3_600_000;

interface Sut {
  readonly github: FakeGithub;
  readonly store: EventStore;
  readonly run: (options?: Partial<CatchUpOptions>) => ReturnType<typeof catchUp>;
}

/** Registers a test whose calls and answers must all be as GitHub describes them. */
function testCatchUp(name: string, fn: (sut: Sut) => Promise<void>): void {
  testWith(["net", "read", "env"], name, async () => {
    await using github = new FakeGithub("https://bot.test/webhook");
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv);
    const run = (options: Partial<CatchUpOptions> = {}) =>
      catchUp(store, {
        ...{
          hooks: [{ repository: "acme/site" }],
          github: { token: GITHUB_TOKEN, api: github.url },
        },
        ...{ sinceMs: HOUR_MS, paceMs: 0, ...options },
      });
    await fn({ github, store, run });
    assertEquals(github.deviations, []);
  });
}

async function accept(store: EventStore, deliveryId: string): Promise<void> {
  await store.accept({
    ...{ platform: "forge", intake: "github", source: "github", type: "push", deliveryId },
    ...{ payload: {}, body: new TextEncoder().encode("{}") },
  });
}

testCatchUp(
  "asks for what failed and is not stored, the oldest first, with whole ids",
  async (sut) => {
    const { github, store, run } = sut;
    await accept(store, "stored");
    const newer = github.pushOld("newer", 503, 60_000);
    const older = github.pushOld("older", 502, 90_000);
    for (const status of [200, 202]) github.pushOld(`ok-${status}`, status);
    for (const status of [400, 401, 404]) github.pushOld(`refused-${status}`, status);
    const [slow, busy] = [github.pushOld("slow", 408, 40_000), github.pushOld("busy", 429, 30_000)];
    github.pushOld("stored", 500);
    github.pushOld("pending", 0, 1_000);
    github.pushOld("before", 503, 2 * HOUR_MS);
    const result = await run();
    assertEquals(github.asked, [older, newer, slow, busy]);
    assertEquals(result.asked, ["older", "newer", "slow", "busy"]);
    assertEquals(result.stored, ["stored"]);
    assertEquals(result.delivered, 2);
    assertEquals(result.refused.toSorted(), ["refused-400", "refused-401", "refused-404"]);
    assertEquals(result.underWay, ["pending"]);
    assertEquals([result.failed, result.left, result.problems, result.tooOld], [[], [], [], []]);
  },
);

testCatchUp("asks for what was delivered and is not stored, if that is wanted", async (sut) => {
  const { github, store, run } = sut;
  await accept(store, "stored");
  github.pushOld("stored", 200, 90_000);
  const lost = github.pushOld("lost", 200, 80_000);
  const failed = github.pushOld("failed", 503, 70_000);
  assertEquals((await run({ dryRun: true })).asked, ["failed"]);
  const { asked, stored, delivered } = await run({ delivered: true });
  assertEquals([github.asked, asked], [[lost, failed], ["lost", "failed"]]);
  assertEquals([stored, delivered], [["stored"], 2]);
});

testCatchUp("takes all attempts of a delivery together, over pages", async ({ github, run }) => {
  github.pageSize = 2;
  github.pushOld("a", 200, 60_000, true);
  for (const ageMs of [70_000, 80_000, 90_000]) github.pushOld("a", 503, ageMs);
  for (const ageMs of [50_000, 65_000]) github.pushOld("b", 503, ageMs);
  // Accepted before the time that is asked for.
  github.pushOld("c", 200, 61 * 60_000);
  github.pushOld("c", 503, 75_000, true);
  const result = await run();
  assertEquals([result.asked, result.delivered], [["b"], 2]);
});

testCatchUp(
  "leaves alone what was delivered before, if asking for it again has failed",
  async ({ github, run }) => {
    github.pageSize = 2;
    for (const [guid, status] of [["delivered", 200], ["failed", 503]] as const) {
      github.pushOld(guid, 502, 60_000, true);
      github.pushOld(guid, status, 5 * HOUR_MS);
    }
    for (let i = 2; i < 8; i++) github.pushOld(`between-${i}`, 503, i * HOUR_MS);
    for (let i = 6; i < 20; i++) github.pushOld(`old-${i}`, 503, i * HOUR_MS);
    const result = await run();
    assertEquals([result.asked, result.delivered], [["failed"], 1]);
    // Each page has two, and those are looked for until both are found.
    assertEquals(github.callsOf(/\/deliveries\?/).length, 4);
  },
);

testCatchUp(
  "reads 20 pages more for a first attempt, and asks all the same",
  async ({ github, run }) => {
    github.pageSize = 1;
    github.pushOld("a", 502, 60_000, true);
    for (let i = 0; i < 30; i++) github.pushOld(`old-${i}`, 200, 2 * HOUR_MS);
    assertEquals((await run()).asked, ["a"]);
    assertEquals(github.callsOf(/\/deliveries\?/).length, 22);
  },
);

testCatchUp("reads as far back as it is asked to", async ({ github, run }) => {
  github.pageSize = 2;
  for (let day = 1; day < 7; day++) github.pushOld(`day-${day}`, 503, day * 25 * HOUR_MS);
  const { asked, tooOld } = await run({ sinceMs: 7 * 24 * HOUR_MS });
  assertEquals([asked, tooOld.toSorted()], [["day-2", "day-1"], [
    "day-3",
    "day-4",
    "day-5",
    "day-6",
  ]]);
});

testCatchUp("stops reading at the time asked for", async ({ github, run }) => {
  github.pageSize = 1;
  github.pushOld("a", 503);
  for (let i = 2; i < 8; i++) github.pushOld(`old-${i}`, 503, i * HOUR_MS);
  assertEquals((await run()).asked, ["a"]);
  assertEquals(github.callsOf(/\/deliveries\?/).length, 2);
});

testCatchUp("asks for nothing in a dry run, and for no more than the limit", async (sut) => {
  const { github, run } = sut;
  for (let i = 0; i < 5; i++) github.pushOld(`d${i}`, 503, 90_000 - i * 1_000);
  assertEquals((await run({ dryRun: true })).asked.length, 5);
  assertEquals(github.asked, []);
  const { asked, left } = await run({ limit: 2 });
  assertEquals([asked, left], [["d0", "d1"], ["d2", "d3", "d4"]]);
});

testCatchUp(
  "waits for rate limits, and goes on after errors of the API",
  async ({ github, run }) => {
    github.pushOld("a", 503);
    const now = new Date().toUTCString();
    github.insteadOf.push([/^POST/, () => problem(429, "secondary", { "Retry-After": now })]);
    github.insteadOf.push([/^POST/, () =>
      problem(403, "limit", {
        ...{ "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1" },
      })]);
    github.insteadOf.push([/deliveries/, () => problem(502, "Bad Gateway")]);
    assertEquals((await run()).asked, ["a"]);
  },
);

testCatchUp("ends at a limit that lasts too long, and says how long", async ({ github, run }) => {
  github.pushOld("a", 503, 90_000);
  github.pushOld("b", 503, 80_000);
  github.insteadOf.push([/^POST/, () => problem(429, "slow down", { "Retry-After": "3000" })]);
  const { asked, failed, left } = await run();
  assertEquals([asked, left, github.asked.length], [[], ["b"], 1]);
  assertStringIncludes(failed[0]!.reason, "it takes calls again in 3000 s");
});

testCatchUp("asks no sooner than an API asks for that is down", async ({ github, run }) => {
  github.insteadOf.push([/deliveries/, () => problem(503, "down", { "Retry-After": "3000" })]);
  assertStringIncludes(
    (await run()).problems[0]!,
    "GitHub's API (acme/site, webhook 12345678) answers 503",
  );
  assertEquals(github.callsOf(/\/deliveries\?/).length, 1);
});

testCatchUp("finds the webhook by its URL, and goes on if one was deleted", async (sut) => {
  const { github, run } = sut;
  github.add("https://other.test/");
  github.pushOld("a", 503);
  assertStringIncludes((await run()).problems[0]!, "12345678 (bot.test), 12345679 (other.test)");
  const url = "https://bot.test/webhook";
  const hooks = [{ repository: "acme/site", id: 99 }, { repository: "acme/site", url }];
  const { asked, problems } = await run({ hooks });
  assertEquals([asked, problems.length], [["a"], 1]);
});

testCatchUp("knows organizations, apps, and the caller's own octokit", async ({ github, run }) => {
  github.pushOld("a", 503);
  const own = new Octokit({ baseUrl: github.url, auth: GITHUB_TOKEN });
  for (const hook of [{ organization: "acme", id: 12345678 }, { app: true as const }]) {
    assertEquals((await run({ hooks: [hook], github: own })).asked, ["a"]);
  }
});

testCatchUp("ends with a summary at its signal", async ({ github, run }) => {
  for (const guid of ["a", "b", "c"]) github.pushOld(guid, 503);
  const ending = new AbortController();
  const running = run({ signal: ending.signal, paceMs: 60_000 });
  while (github.asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  await new Promise((resolve) => setTimeout(resolve, 50));
  ending.abort();
  const { asked, left, interrupted } = await running;
  assertEquals([asked.length, left.length, interrupted], [1, 2, true]);
});

testWith(["net", "read", "env"], "two catch-ups at once leave each event stored once", async () => {
  await using github = new FakeGithub("https://bot.test/webhook");
  for (let i = 0; i < 5; i++) github.pushOld(`d${i}`, 503);
  await using app = await startIntakeApp("forge");
  github.app = `${app.url}/webhook`;
  const run = () =>
    catchUp(app.store, {
      ...{ hooks: [{ repository: "acme/site" }], github: { token: GITHUB_TOKEN, api: github.url } },
      ...{ sinceMs: HOUR_MS, paceMs: 1, intake: "forge" },
    });
  await Promise.all([run(), run()]);
  assertEquals((await app.events()).length, 5);
  assertEquals((await run()).asked, []);
});

testCatchUp(
  "calls that fail are paced, and end it after five in a row",
  async ({ github, run }) => {
    for (let i = 0; i < 7; i++) github.pushOld(`d${i}`, 503, 90_000 - i);
    for (let i = 0; i < 7; i++) github.insteadOf.push([/^POST/, () => problem(422, "no")]);
    const start = performance.now();
    const { asked, failed, left } = await run({ paceMs: 20 });
    assertEquals([asked, failed.length, left, github.asked.length], [[], 5, ["d5", "d6"], 5]);
    assert(performance.now() - start >= 75);
  },
);

testCatchUp("counts what it does, but not in a dry run", async ({ github, store, run }) => {
  await accept(store, "stored");
  for (const guid of ["a", "b"]) github.pushOld(guid, 503);
  github.pushOld("stored", 500);
  github.pushOld("refused", 404);
  const telemetry = recordTelemetry();
  await run({ telemetry, dryRun: true });
  assertEquals(telemetry.steps, []);
  await run({ telemetry, limit: 1 });
  const of = (outcome: "asked" | "stored" | "refused" | "left") =>
    ({ is: "caught_up", outcome, count: 1 }) as const;
  assertEquals(telemetry.steps, [of("asked"), of("stored"), of("refused"), of("left")]);
});

/** Server that the token must not come to. */
async function withElsewhere(fn: (url: string) => Promise<void>): Promise<void> {
  const seen: string[] = [];
  const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  await using server = Deno.serve(quiet, (request) => {
    seen.push(`${request.method} ${request.url}`);
    return Response.json([]);
  });
  await fn(`http://127.0.0.1:${server.addr.port}`);
  assertEquals(seen, []);
}

testCatchUp("takes of a next page its number, and nothing that leads elsewhere", async (sut) => {
  await withElsewhere(async (elsewhere) => {
    const { github, run } = sut;
    github.pushOld("a", 503);
    const more = new URLSearchParams({ baseUrl: elsewhere, url: elsewhere, method: "POST" });
    for (const [query, next] of [["per_page=100&", "cursor=0"], ["", "cursor=0&per_page=1"]]) {
      const link = `<${elsewhere}/hooks?${query}${next}&${more}&redelivery=true>; rel="next"`;
      github.insteadOf.push([/deliveries/, () => Response.json([], { headers: { Link: link } })]);
    }
    const { asked, problems } = await run();
    assertEquals([asked, problems], [["a"], []]);
    assertEquals(github.callsOf(/\/deliveries\?/).length, 3);
  });
});

for (const status of [301, 302, 307, 308]) {
  testCatchUp(`follows no redirect, and says where ${status} leads`, async ({ github, run }) => {
    await withElsewhere(async (elsewhere) => {
      const redirect = () => new Response(null, { status, headers: { Location: elsewhere } });
      const own = new Octokit({ baseUrl: github.url, auth: GITHUB_TOKEN });
      for (const client of [{ token: GITHUB_TOKEN, api: github.url }, own]) {
        github.insteadOf.push([/deliveries/, redirect]);
        const [problem] = (await run({ github: client })).problems;
        assertStringIncludes(problem!, `${status}, a redirect to ${new URL(elsewhere).host}`);
      }
      github.pushOld("a", 503);
      github.insteadOf.push([/^POST/, redirect]);
      assertStringIncludes((await run()).failed[0]!.reason, `${status}, a redirect to`);
    });
  });
}
