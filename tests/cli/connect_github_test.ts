import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { TEST_SECRETS } from "../../testing/mod.ts";
import { testWith } from "../_permissions.ts";
import { connect, startConnect, startIntakeApp, VARIABLES } from "./_connect.ts";
import {
  FakeGithub,
  GITHUB_TOKEN,
  type LoggedDelivery,
  problem,
} from "../catch_up/_fake_github.ts";

const URL_HERE = "https://bot.example.com/webhook";

/** Runs a test with an API, and the webhooks that the repository has. */
function testGithub(name: string, urls: string[], fn: (github: FakeGithub) => Promise<void>): void {
  testWith(["net"], `connect github ${name}`, async () => {
    await using github = new FakeGithub(...urls);
    await fn(github);
  });
}

const apiOf = ({ url }: FakeGithub) => ["github", "acme/site", "--api", url];

/** Starts to hand on deliveries, and waits until it has begun. */
async function startForward(github: FakeGithub, app: { readonly url: string }) {
  const forward = startConnect([...apiOf(github), "--forward", "--url", app.url]);
  await forward.line("New deliveries go to the app at");
  return forward;
}

/** Delivery of an issue. */
function logged(number: number, more: Partial<LoggedDelivery> = {}) {
  const guid = `0b989ba4-242f-11e5-81e1-${String(number).padStart(12, "0")}`;
  const payload = `{"action":"opened","issue":{"number":${number}}}`;
  return { id: `38040046231722393${number + 10}`, guid, event: "issues", payload, ...more };
}

testGithub("URL creates the webhook, and shows all", [], async (github) => {
  const { code, out, err } = await connect([...apiOf(github), "https://bot.example.com"]);
  assertEquals([code, err], [0, []]);
  assertEquals(out, [
    `created  ${URL_HERE}`,
    `12345678  active  ${URL_HERE}  *  last response: unused`,
  ]);
  const { body, headers } = github.callsOf(/hooks$/, "POST")[0]!;
  assertEquals(body, {
    ...{ name: "web", active: true, events: ["*"] },
    config: {
      ...{ url: URL_HERE, content_type: "json", insecure_ssl: "0" },
      secret: TEST_SECRETS.signing,
    },
  });
  assertEquals(headers.get("X-GitHub-Api-Version"), "2022-11-28");
  assertEquals(headers.get("Accept"), "application/vnd.github+json");
});

testGithub("URL changes the webhook that has it", [
  "https://other.example.com/",
  URL_HERE,
], async (github) => {
  const other = structuredClone(github.hooks[0]);
  await connect([...apiOf(github), "https://bot.example.com"]);
  assertEquals(github.hooks.map(({ events }) => events), [["push"], ["push"]]);
  const args = [...apiOf(github), "https://bot.example.com", "--events", "issues,push"];
  const { code, out } = await connect(args);
  assertEquals([code, out[0]], [0, `changed  12345679  ${URL_HERE}`]);
  assertEquals(github.hooks[0], other);
  assertEquals(github.hooks[1]?.events, ["issues", "push"]);
  assertEquals(github.hooks[1]?.config.secret, TEST_SECRETS.signing);
  assertEquals(github.callsOf(/./, "POST"), []);
});

testGithub("finds a webhook on a later page", [
  ...["https://a.example/w", "https://b.example/w"],
  URL_HERE,
], async (github) => {
  github.pageSize = 1;
  const { out } = await connect([...apiOf(github), "https://bot.example.com", "--json"]);
  assertEquals(github.callsOf(/12345680$/, "PATCH").length, 1);
  assertEquals(out.map((line) => JSON.parse(line).url).at(-1), URL_HERE);
});

testGithub("without a URL only shows", [], async (github) => {
  const variables = { GITHUB_TOKEN };
  const { code, out } = await connect(apiOf(github), variables);
  assertEquals([code, out], [0, ["acme/site has no webhook"]]);
  assertEquals((await connect([...apiOf(github), "--json"], variables)).out, []);
});

const REFUSALS: readonly (readonly [string, () => Response, string])[] = [
  [
    "401",
    () => problem(401, "Bad credentials"),
    "401 Bad credentials: the token is wrong or has expired",
  ],
  [
    "403",
    () => problem(403, "Resource not accessible"),
    "403 Resource not accessible: the token lacks the permission",
  ],
  [
    "404",
    () => problem(404, "Not Found"),
    "404 Not Found: it does not exist or was deleted, or the token",
  ],
  ["a page", () => new Response("<html>", { status: 503 }), "503 with text/plain instead of JSON"],
  ["no list", () => Response.json({ id: 1 }), "in an unknown form, with no list"],
  ["no hooks", () => Response.json([1, null]), "in an unknown form, with no list"],
  ["no id", () => Response.json([{ events: [] }]), "with a webhook without id"],
  [
    "a rate limit",
    () => {
      const headers = { "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000090" };
      const date = "Tue, 14 Nov 2023 22:13:20 GMT";
      const body = { message: "API rate limit exceeded" };
      return Response.json(body, { status: 403, headers: { ...headers, Date: date } });
    },
    "403 API rate limit exceeded: it takes calls again in 90 s",
  ],
  [
    "a page without a number",
    () => new Response("[]", { headers: { Link: '<https://evil.example/hooks>; rel="next"' } }),
    "with a next page of no name",
  ],
];

for (const [what, answer, expected] of REFUSALS) {
  testGithub(`explains ${what}`, [], async (github) => {
    for (let tries = 0; tries < 3; tries++) github.insteadOf.push([/hooks/, answer]);
    const { code, err } = await connect([...apiOf(github), "https://bot.example.com"]);
    const message = err.at(-1)!;
    assertEquals(code, 1);
    assertStringIncludes(message, "GitHub's API ");
    assertStringIncludes(message, expected);
    assertEquals(message.includes(GITHUB_TOKEN), false);
  });
}

testGithub("explains a webhook that is there already", [], async (github) => {
  const errors = [{ code: "custom", message: "Hook already exists" }, {
    field: "url",
    code: "invalid",
  }];
  github.insteadOf.push([/POST .*hooks$/, () => problem(422, "Validation Failed", {}, errors)]);
  const { err } = await connect([...apiOf(github), "https://bot.example.com"]);
  assertStringIncludes(
    err[0]!,
    "422 Validation Failed, Hook already exists, url invalid: GitHub refuses",
  );
});

testGithub("takes values of no kind that it knows", [URL_HERE], async (github) => {
  const odd = { toString: 1, valueOf: 1 };
  const hook = { id: 7, events: [odd, "push"], config: { url: odd }, last_response: { code: odd } };
  github.insteadOf.push([/hooks/, () => Response.json([hook])]);
  const { code, out } = await connect(apiOf(github));
  assertEquals([code, out], [0, ["7  inactive  ***  ,push  last response: none"]]);
  const entry = { id: 1, guid: "guid", event: "push", delivered_at: odd };

  github.insteadOf.push([/deliveries\?per_page=100/, () => Response.json([entry])]);
  const { err } = await connect([...apiOf(github), "--forward"]);
  assertStringIncludes(err[0]!, "in an unknown form, with a delivery without id, guid");
});

testGithub("--forward hands on new deliveries, signed anew", [URL_HERE], async (github) => {
  await using app = await startIntakeApp("forge");
  github.push(logged(1));
  const forward = await startForward(github, app);
  const payload =
    `{"action": "opened",  "issue":{"id":12345678901234567890,"title":"\\u0041ä😀"} }`;
  github.push(logged(2, { payload }));
  github.push(logged(3, { event: "ping", payload: `{"zen":"."}` }));
  await forward.line("ping 0b989ba4-242f-11e5-81e1-000000000003  200 OK");
  assertEquals((await forward.interrupt()).code, 130);
  assertEquals(forward.out.at(-1), "2 forwarded, 0 refused, interrupted");
  const source = "github";
  assertEquals(await app.events(), [
    { type: "issues", source, body: payload },
    { type: "ping", source, body: `{"zen":"."}` },
  ]);
  const { headers } = app.seen[0]!;
  assertEquals(headers.get("X-GitHub-Delivery"), logged(2).guid);
  assertEquals(headers.get("X-GitHub-Hook-ID"), "12345678");
  assertEquals(headers.get("User-Agent"), "GitHub-Hookshot/044aadd");
  assertEquals(forward.pauses[0], 5_000);
});

testGithub("--forward reads all pages, the oldest delivery first", [URL_HERE], async (github) => {
  await using app = await startIntakeApp("forge");
  github.pageSize = 3;
  const now = Date.now();
  github.push(logged(0, { deliveredAt: now - 700_000 }));
  for (let i = 1; i <= 10; i++) github.push(logged(i, { deliveredAt: now - 100_000 + i }));
  // It came into the log late.
  github.push(logged(11, { deliveredAt: now - 100_000 }));
  const args = [...apiOf(github), "--forward", "--since", "10m", "--url", app.url];
  const forward = startConnect(args);
  await forward.line("-000000000010  200");
  assertEquals((await forward.interrupt()).code, 130);
  const numbers = app.seen.map(({ headers }) =>
    Number(headers.get("X-GitHub-Delivery")!.slice(-2))
  );
  assertEquals(numbers, [11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert(github.callsOf(/cursor=9/).length > 0);
});

testGithub("--forward hands on redeliveries, which are duplicates", [URL_HERE], async (github) => {
  await using app = await startIntakeApp("forge");
  const forward = await startForward(github, app);
  github.push(logged(1));
  await forward.line("000000000001  200 OK");
  github.push({ ...logged(1), id: "9999999999999999999", redelivery: true });
  await forward.line("000000000001  200 OK");
  github.push(logged(2));
  await forward.line("000000000002  200 OK");
  await forward.interrupt();
  assertEquals(app.seen.length, 3);
  assertEquals((await app.events()).length, 2);
});

testGithub("--forward asks for what has changed, as late as asked", [URL_HERE], async (github) => {
  await using app = await startIntakeApp("forge");
  const forward = await startForward(github, app);
  const interval = { headers: { "X-Poll-Interval": "60" } };
  github.insteadOf.push([/per_page=100/, () => new Response("[]", interval)]);
  const limited = { status: 429, headers: { "Retry-After": "33" } };
  github.insteadOf.push([/per_page=100/, () => Response.json({ message: "Slow" }, limited)]);
  github.push(logged(1));
  await forward.line("000000000001  200 OK");
  await forward.interrupt();
  assert(forward.pauses.includes(60_000) && forward.pauses.includes(33_000), `${forward.pauses}`);
  const unchanged = github.callsOf(/per_page=100/).filter(({ headers }) =>
    headers.has("If-None-Match")
  );
  assert(unchanged.length > 0);
});

testGithub("--forward passes over what the log no longer has", [URL_HERE], async (github) => {
  await using app = await startIntakeApp("forge");
  const forward = await startForward(github, app);
  github.insteadOf.push([/deliveries\/\d+$/, () => problem(404, "Not Found")]);
  github.push(logged(1));
  await forward.line("(issues) is passed over: GitHub no longer has it");
  github.push(logged(2, { payload: "null" }));
  await forward.line("(issues) is passed over: the log has no payload of it");
  github.push(logged(3));
  await forward.line("000000000003  200 OK");
  await forward.interrupt();
  assertEquals(forward.out.length, 2);
});

testGithub("--forward reads on after a delivery of the future", [
  URL_HERE,
], async (github) => {
  await using app = await startIntakeApp("forge");
  const forward = await startForward(github, app);
  github.push(logged(1, { deliveredAt: Date.UTC(9999, 1) }));
  await forward.line("000000000001  200 OK");
  github.push(logged(2));
  await forward.line("000000000002  200 OK");
  await forward.interrupt();
});

testGithub("--forward ends if the token is taken back", [URL_HERE], async (github) => {
  await using app = await startIntakeApp("forge");
  const forward = await startForward(github, app);
  github.insteadOf.push([/deliveries/, () => problem(401, "Bad credentials")]);
  const { code, err } = await forward.ended;
  assertEquals(code, 1);
  assertStringIncludes(err.at(-1)!, "the token is wrong or has expired");
});

/** Answers that are over later, and the pause that they lead to, in milliseconds. */
const PASSING: readonly (readonly [() => Response, number])[] = [
  [() => Response.json({ message: "Slow" }, { status: 429 }), 60_000],
  [
    () => Response.json({ message: "Slow" }, { status: 429, headers: { "Retry-After": "7" } }),
    7_000,
  ],
  [
    () => Response.json({ message: "Oops" }, { status: 503, headers: { "Retry-After": "9" } }),
    9_000,
  ],
  [() => new Response("<html>", { status: 502, headers: { "Retry-After": "11" } }), 11_000],
  [() => Response.json({ message: "Oops" }, { status: 500 }), 1_000],
];

for (const [answer, pauseMs] of PASSING) {
  const { status } = answer();
  testGithub(`--forward outlives ${status} at its start, for ${pauseMs} ms`, [
    URL_HERE,
  ], async (github) => {
    await using app = await startIntakeApp("forge");
    github.push(logged(1, { deliveredAt: Date.now() - 30_000 }));
    for (const path of [/hooks\?/, /per_page=1$/]) github.insteadOf.push([path, answer]);
    const args = [...apiOf(github), "--forward", "--since", "10m", "--url", app.url];
    const forward = startConnect(args);
    await forward.line(`${logged(1).guid}  200 OK`);
    assertEquals((await forward.interrupt()).code, 130);
    assertEquals(forward.pauses.slice(0, 2), [pauseMs, pauseMs]);
    assertEquals(forward.err.filter((line) => line.includes("trying again")).length, 2);
  });
}

testGithub("changes the webhook that a call without an answer made", [], async (sut) => {
  const args = [...apiOf(sut), "https://bot.example.com"];
  sut.insteadOf.push([/hooks$/, () => {
    sut.add("https://bot.example.com/webhook");
    return new Response("<html>", { status: 502 });
  }]);
  const { code, out } = await connect(args);
  assertEquals([code, out[0]], [0, "changed  12345678  https://bot.example.com/webhook"]);
  assertEquals(sut.hooks.length, 1);
});

testGithub("--forward --since counts from when the tool began", [
  URL_HERE,
], async (github) => {
  await using app = await startIntakeApp("forge");
  const start = Date.now();
  github.push(logged(1, { deliveredAt: start - 60_000 }));
  // The tool waits for an hour, by its own clock and by GitHub's.
  let now = start;
  const dated = () => ({ Date: new Date(now).toUTCString() });
  github.insteadOf.push([/per_page=1$/, () => {
    now += 3_600_000;
    return Response.json({ message: "Slow" }, { status: 429, headers: dated() });
  }]);
  github.insteadOf.push([/per_page=1$/, () => new Response("[]", { headers: dated() })]);
  const args = [...apiOf(github), "--forward", "--since", "10m", "--url", app.url];
  const forward = startConnect(args, VARIABLES, { now: () => now });
  await forward.line(`${logged(1).guid}  200 OK`);
  assertEquals((await forward.interrupt()).code, 130);
});

testGithub("--forward needs a webhook to read", [], async (github) => {
  const { code, err } = await connect([...apiOf(github), "--forward"]);
  assertEquals([code, err], [1, [
    "acme/site has no webhook, and so no delivery log: create one with connect github acme/site URL",
  ]]);
});

testGithub("--forward reads the webhook that is chosen", [
  "https://a.example/w",
  "https://b.example/w",
], async (github) => {
  await using app = await startIntakeApp("forge");
  const args = [...apiOf(github), "--forward", "--url", app.url];
  const several = await connect(args);
  assertEquals([several.code, several.err], [2, [
    "acme/site has several webhooks, choose one with --hook: 12345678 (a.example), 12345679 (b.example)",
  ]]);
  assertStringIncludes(
    (await connect([...args, "--hook", "7"])).err[0]!,
    "has no webhook 7, only 123",
  );
  const forward = startConnect([...args, "--hook", "12345679"]);
  await forward.line("New deliveries go to");
  await forward.interrupt();
  assertEquals(github.callsOf(/\/12345678\//), []);
});
