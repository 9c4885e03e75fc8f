import { assertEquals } from "@std/assert";
import { bot } from "../../examples/reviewer_bot.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../testing/mod.ts";
import { testWith } from "../_permissions.ts";
import { type ApiCall, startStandIn } from "./_stand_in.ts";

/** Calls of the bot, without the host: the look, the diff, the model, the comment, the label and the chat. */
const ALL = [
  ...["GET /comments", "GET /compare/b0...a1", "POST /model"],
  ...["POST /comments", "POST /labels", "POST /chat"],
];

const nameOf = ({ method, path }: ApiCall) =>
  `${method} ${path.replace("/repos/octo/app", "").replace("/issues/7", "").replace(/\?.*/, "")}`;

/**
 * Hands a pull request to the bot, whose API fails once.
 *
 * @param failing The call that fails.
 * @param isDone True if it has had its effect before it fails.
 */
async function reviewed(action: string, failing?: string, isDone = false) {
  const comments: object[] = [];
  let isOver = false;
  await using api = startStandIn((call) => {
    const isFailing = !isOver && nameOf(call) === failing;
    isOver ||= isFailing;
    if (isFailing && !isDone) return new Response(null, { status: 502 });
    const answer = answerTo(call, comments);
    return isFailing ? new Response(null, { status: 502 }) : answer;
  });
  const env = {
    ...{ GITHUB_TOKEN: "t", GITHUB_API_URL: api.url, MODEL: "small", MODEL_KEY: "k" },
    ...{ MODEL_URL: `${api.url}/model`, CHAT_URL: `${api.url}/chat` },
  };
  await using test = await startTestBot(bot, { env });
  const state = await deliver(test, action);
  return { state, comments, calls: api.calls.map(nameOf), chat: api.calls.at(-1)?.body?.text };
}

function answerTo(call: ApiCall, comments: object[]): Response | undefined {
  const name = nameOf(call);
  if (name.startsWith("GET /compare/")) return new Response(`diff of ${name.slice(-2)}`);
  if (name === "POST /model") {
    return Response.json({ choices: [{ message: { content: call.body.messages[0].content } }] });
  }
  if (name === "GET /comments") return Response.json(comments);
  if (name !== "POST /comments") return undefined;
  const comment = { html_url: "https://example.com/c1", body: call.body.body };
  comments.push(comment);
  return Response.json(comment, { status: 201 });
}

/** A pull request with a commit. */
function pullRequest(action: string, sha = "a1") {
  const at = { updated_at: "2026-01-01T00:00:00Z", base: { sha: "b0" }, head: { sha } };
  const pull_request = { title: "Faster", ...at };
  const repository = { id: 1, full_name: "octo/app", name: "app", owner: { login: "octo" } };
  return forgeDelivery("pull_request", { action, number: 7, pull_request, repository });
}

async function deliver(test: TestBot, action: string): Promise<string | undefined> {
  const { event } = await test.deliver(pullRequest(action), { expectFailure: true });
  await test.advance(2_000);
  return (await test.store.get(event!.id))?.outcome ?? undefined;
}

for (const action of ["opened", "synchronize"]) {
  testWith(
    ["net"],
    `examples/reviewer_bot.ts reviews a pull request that is ${action}`,
    async () => {
      const { state, calls, comments, chat } = await reviewed(action);
      assertEquals([state, calls, comments.length], ["handled", ALL, 1]);
      assertEquals(chat, "Faster: https://example.com/c1");
    },
  );
}

testWith(["net"], "examples/reviewer_bot.ts leaves other actions alone", async () => {
  assertEquals((await reviewed("closed")).calls, []);
});

for (const [isDone, more] of [[false, ["POST /comments"]], [true, []]] as const) {
  const name = `comments once, and pays once, if a comment ${isDone ? "was made" : "fails"}`;
  testWith(["net"], `examples/reviewer_bot.ts ${name}`, async () => {
    const { state, calls, comments } = await reviewed("opened", "POST /comments", isDone);
    assertEquals([state, comments.length], ["handled", 1]);
    assertEquals(calls, [...ALL.slice(0, 4), "GET /comments", ...more, ...ALL.slice(4)]);
  });
}

testWith(
  ["net"],
  "examples/reviewer_bot.ts repeats only the summary if the chat fails",
  async () => {
    const { state, calls } = await reviewed("opened", "POST /chat");
    assertEquals([state, calls], ["handled", [...ALL, "POST /labels", "POST /chat"]]);
  },
);

testWith(
  ["net"],
  "examples/reviewer_bot.ts comments once if a push comes during the model's call",
  async () => {
    const comments: { body: string }[] = [];
    let sha = "a1";
    await using api = startStandIn((call) => {
      const name = nameOf(call);
      // The model never answers for the first commit.
      if (name === "POST /model" && sha === "a1") return new Response(new ReadableStream());
      return answerTo(call, comments);
    });
    const env = {
      ...{ GITHUB_TOKEN: "t", GITHUB_API_URL: api.url, MODEL: "small", MODEL_KEY: "k" },
      ...{ MODEL_URL: `${api.url}/model`, CHAT_URL: `${api.url}/chat` },
    };
    await using test = await startTestBot(bot, { env });
    const opened = test.deliver(pullRequest("opened"));
    await api.until(3);
    sha = "b2";
    await Promise.all([test.deliver(pullRequest("synchronize", sha)), opened]);
    assertEquals(comments.map(({ body }) => body.includes("diff of b2")), [true]);
    const [first] = await Array.fromAsync(test.store.list());
    assertEquals(first?.state === "done" && first.interrupted?.times, 1);
  },
);

testWith(
  ["net"],
  "examples/reviewer_bot.ts reviews a commit once, however often it is delivered",
  async () => {
    const comments: { body: string }[] = [];
    await using api = startStandIn((call) => answerTo(call, comments));
    const env = {
      ...{ GITHUB_TOKEN: "t", GITHUB_API_URL: api.url, MODEL: "small", MODEL_KEY: "k" },
      ...{ MODEL_URL: `${api.url}/model`, CHAT_URL: `${api.url}/chat` },
    };
    await using test = await startTestBot(bot, { env });
    for (const sha of ["a1", "a1", "c3"]) await test.deliver(pullRequest("synchronize", sha));
    const reviewed = comments.map(({ body }) =>
      /diff of (..)\n<!-- reviewed (..)/.exec(body)?.slice(1)
    );
    assertEquals(reviewed, [["a1", "a1"], ["c3", "c3"]]);
    assertEquals(api.calls.map(nameOf).filter((name) => name === "POST /model").length, 2);
  },
);
