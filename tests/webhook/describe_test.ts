import { assertEquals } from "@std/assert";
import { cutDescription } from "../../events/store/arrival.ts";
import { defineApp, type Delivery, github, sqlite } from "../../mod.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { aboutOf } from "../../webhook/describe.ts";

/** Describes a payload as that of a platform. */
function about(platform: string, payload: object, type = "x"): string | undefined {
  return aboutOf({ platform, type, payload: payload as JsonObject } as Delivery);
}

const COMMIT = { message: "Fix the crash\n\nIt was the cache." };

/** Payloads of code hosts, and what they are about. */
const FORGE: Readonly<Record<string, readonly [payload: object, about: string | undefined]>> = {
  "an issue": [{ issue: { number: 1442, title: "Crash on start" } }, "#1442 Crash on start"],
  "a comment": [
    { comment: { body: "me too" }, issue: { number: 7, title: "Slow" } },
    "#7 Slow",
  ],
  "a review": [{ review: {}, pull_request: { number: 3, title: "Add a cache" } }, "#3 Add a cache"],
  "a discussion": [{ discussion: { number: 5, title: "Ideas" } }, "#5 Ideas"],
  "a merge request": [
    { object_kind: "merge_request", object_attributes: { iid: 12, title: "Add a cache" } },
    "!12 Add a cache",
  ],
  "a note on a merge request": [
    {
      object_kind: "note",
      object_attributes: { note: "ok" },
      merge_request: { iid: 4, title: "B" },
    },
    "!4 B",
  ],
  "a push": [
    { ref: "refs/heads/main", commits: [COMMIT], head_commit: COMMIT },
    "main: Fix the crash",
  ],
  "a push of several": [
    { ref: "refs/heads/a/b", commits: [{ message: "one" }, { message: "two" }] },
    "a/b: two (2 commits)",
  ],
  "a push of a tag": [{ ref: "refs/tags/v1", commits: [], head_commit: null }, "v1"],
  "a branch that is deleted": [{ ref: "refs/heads/x", deleted: true, commits: [] }, "x deleted"],
  "a new branch": [{ ref: "x", ref_type: "branch" }, "branch x"],
  "a workflow": [
    {
      workflow_run: { name: "CI", head_branch: "main", conclusion: "failure", status: "completed" },
    },
    "CI on main: failure",
  ],
  "a check that runs": [
    { check_run: { name: "lint", conclusion: null, status: "queued" } },
    "lint: queued",
  ],
  "a deployment": [
    { deployment: { environment: "live" }, deployment_status: { state: "success" } },
    "live: success",
  ],
  "a pipeline": [
    { object_kind: "pipeline", object_attributes: { id: 31, ref: "main", status: "failed" } },
    "#31 on main: failed",
  ],
  "a job": [{ object_kind: "build", build_name: "test", build_status: "failed" }, "test: failed"],
  "a status": [{ context: "ci/deploy", state: "pending" }, "ci/deploy: pending"],
  "a release": [{ release: { tag_name: "v1.2", name: "Spring" } }, "v1.2 Spring"],
  "an alert": [
    { alert: { number: 2, rule: { description: "SQL injection" } } },
    "#2 SQL injection",
  ],
  "a fork": [{ forkee: { full_name: "ada/bot" } }, "ada/bot"],
  "a rule": [{ rule: { name: "release/*" } }, "release/*"],
  "a page of a wiki": [{ pages: [{ title: "Home" }] }, "Home"],
  "an installation": [{ installation: { id: 1, account: { login: "octo" } } }, "octo"],
  "a ping": [{ zen: "Keep it logically awesome." }, "Keep it logically awesome."],
  "nothing known": [{ starred_at: null }, undefined],
  "wrong types": [{ issue: [], ref: 7, commits: {}, release: "x", context: {} }, undefined],
};

for (const [what, [payload, expected]] of Object.entries(FORGE)) {
  Deno.test(`an event of a code host says what it is about: ${what}`, () => {
    assertEquals(about("forge", payload), expected);
  });
}

/** Content of a message, and what an update with it is about. */
const MESSAGES: readonly (readonly [content: object, about: string | undefined])[] = [
  [{ text: "/remind 10m call the doctor" }, "/remind"],
  [{ text: "my secret" }, "text, 9 characters"],
  [{ text: "x".repeat(3_000) }, "text, 3000 characters"],
  [{ photo: [], caption: "my secret" }, "photo"],
  [{ successful_payment: {} }, "successful payment"],
  [{ id: "1", data: "approve:42" }, "button approve:42"],
  [{ new_chat_member: { status: "kicked" } }, "now kicked"],
  [{ text: 5 }, undefined],
];

Deno.test("an update says what it is about, and nothing that a person has written", () => {
  for (const [content, expected] of MESSAGES) {
    assertEquals(about("messenger", { update_id: 1, message: content }, "message"), expected);
  }
});

Deno.test("events of Slack, of Stripe, and with a title say what they are about", () => {
  const slack = (event: object) => ({ type: "event_callback", event });
  const stripe = (object: object) => ({ object: "event", data: { object } });
  const cases: readonly (readonly [object, string | undefined])[] = [
    [slack({ type: "message", channel: "C1", text: "my secret" }), "message in C1, 9 characters"],
    [slack({ type: "channel_created", channel: { id: "C2" } }), "channel_created in C2"],
    [{ command: "/deploy", text: "my secret", channel_id: "C3" }, "/deploy in C3"],
    [{ type: "block_actions", actions: [{ action_id: "approve" }] }, "action approve"],
    [{ type: "shortcut", team: { id: "T1" }, callback_id: "help" }, "help"],
    [{ type: "view_submission", team: null, view: { callback_id: "order" } }, "order"],
    [stripe({ id: "in_1", amount_due: 4_200, currency: "eur" }), "in_1 42.00 EUR"],
    [stripe({ id: "pi_1", amount: 500, currency: "jpy" }), "pi_1 500 JPY"],
    [stripe({ id: "sub_1", status: "active" }), "sub_1 active"],
    [{ object: "v2.core.event", related_object: { id: "me_1" } }, "me_1"],
    [{ data: { title: "Broken login" } }, "Broken login"],
    [{ value: 7 }, undefined],
  ];
  // A platform may have any name, also one of an object's own.
  for (const platform of ["standard", "constructor"]) {
    for (const [payload, expected] of cases) assertEquals(about(platform, payload), expected);
  }
});

Deno.test("a description is one line, well-formed, and of 120 characters at most", () => {
  assertEquals(cutDescription("  a\r\n\tb\u0000\u2028c  "), "a b c");
  assertEquals(cutDescription(" \n "), undefined);
  assertEquals(cutDescription("\ud800x"), "\ufffdx");
  assertEquals(cutDescription("x".repeat(120)), "x".repeat(120));
  assertEquals(cutDescription("x".repeat(121)), `${"x".repeat(119)}…`);
  assertEquals(cutDescription(`${"x".repeat(118)}${"\u{1f600}".repeat(2)}`), `${"x".repeat(118)}…`);
});

/** Delivers an issue to an app that describes it in some way; returns the description, and the messages of errors. */
async function described(describe?: (delivery: Delivery) => string | undefined) {
  const definition = { name: "bot", platform: github(), store: sqlite(), describe };
  const bot = defineApp(definition).on("issues", () => {});
  await using test = await startTestBot(bot);
  const payload = { action: "opened", issue: { number: 1, title: "Crash" } };
  for (const id of ["1", "2"]) {
    await test.deliver(forgeDelivery("issues", payload, { id }));
  }
  const events = await Array.fromAsync(test.store.list());
  const errors = test.logs.filter(({ level }) => level === "error").map(({ message }) => message);
  return [events.map((event) => "description" in event ? event.description : undefined), errors];
}

Deno.test("an app describes a delivery when it is accepted", async () => {
  assertEquals(await described(), [["#1 Crash", "#1 Crash"], []]);
  const mine = ({ type, payload }: Delivery) => `${type}: ${payload.action}`;
  assertEquals(await described(mine), [["issues: opened", "issues: opened"], []]);
  assertEquals(await described(() => undefined), [["#1 Crash", "#1 Crash"], []]);
  assertEquals(await described(() => ""), [[undefined, undefined], []]);
});

Deno.test("a delivery is accepted that cannot be described, and that is logged once", async () => {
  const wrong: readonly (() => unknown)[] = [
    () => {
      throw new Error("no title");
    },
    () => 7,
    () => Promise.reject(new Error("late")),
  ];
  for (const describe of wrong) {
    const expected = [[undefined, undefined], ["event not described"]];
    assertEquals(await described(describe as never), expected);
  }
});
