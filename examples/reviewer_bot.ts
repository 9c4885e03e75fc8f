/**
 * Reviewer. A model reads each state of a pull request once, its review is commented once, and a chat is told. The
 * model speaks the protocol of OpenAI, and the chat takes incoming webhooks as Slack's do. A label that is set twice is
 * set, so that needs no step. The summary may come twice after a crash: such a webhook can neither be asked nor takes a key.
 * ```sh
 * deno run --allow-env --allow-net --allow-read=data --allow-write=data examples/reviewer_bot.ts
 * ```
 */
import { Octokit } from "@octokit/core";
import { defineApp, github, optional, required, runApp, sqlite } from "@org/edge-base";
/** Reviewer. A push supersedes the review that runs. Its resources are the clients of GitHub, the model and the chat. */
export const bot = defineApp({
  name: "reviewer-bot",
  platform: github({
    groupBy: ({ type, payload, repository }) => {
      if (type !== "pull_request" || !repository) return undefined;
      const key = `${repository.id}#${payload.number}`;
      return { key, newer: "interrupt", interrupt: { steps: "drop" } };
    },
  }),
  store: sqlite(),
  env: {
    ...{ GITHUB_TOKEN: required, GITHUB_API_URL: optional("https://api.github.com") },
    ...{ MODEL_URL: required, MODEL_KEY: required, MODEL: required, CHAT_URL: required },
  },
  resources: ({ env }) => ({
    api: new Octokit({ auth: env.GITHUB_TOKEN, baseUrl: env.GITHUB_API_URL }),
    review: async (diff: string, signal: AbortSignal): Promise<string> => {
      const messages = [{ role: "user", content: `Review this change in ten lines:\n\n${diff}` }];
      const body = { model: env.MODEL, messages };
      const answer = await post(env.MODEL_URL, body, signal, env.MODEL_KEY);
      return JSON.parse(answer).choices[0].message.content;
    },
    say: (text: string, signal: AbortSignal) => post(env.CHAT_URL, { text }, signal),
  }),
});
async function post(url: string, json: object, signal: AbortSignal, key = "") {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const body = JSON.stringify(json);
  const response = await fetch(url, { method: "POST", headers, body, signal });
  const text = await response.text();
  if (!response.ok) throw new Error(`${new URL(url).host} answered ${response.status}`);
  return text;
}
bot.on(["pull_request.opened", "pull_request.synchronize"], async (event, context) => {
  const { step, signal, resources: { api, review, say } } = context;
  const { number, repository, pull_request } = event.payload;
  const { title, base, head, updated_at: since } = pull_request;
  const [repo, request] = [`/repos/${repository.full_name}`, { signal }];
  const path = `${repo}/issues/${number}/comments`;
  const mark = `<!-- reviewed ${head.sha} -->`;
  const find = async (): Promise<string | undefined> => {
    const { data } = await api.request(`GET ${path}`, { since, per_page: 100, request });
    return data.find(({ body }: { body: string }) => body.includes(mark))?.html_url;
  };
  // Another delivery about this commit, or a replay: its review is there already.
  if (await step("look", async () => await find() !== undefined)) return;
  const text = await step("review", async () => {
    const mediaType = { format: "diff" };
    // Of this commit: the pull request may have a newer one by now.
    const commits = `${base.sha}...${head.sha}`;
    const diff = await api.request(`GET ${repo}/compare/${commits}`, { mediaType, request });
    return await review(diff.data, signal);
  });
  // If a crash leaves the comment unknown, the next attempt looks for its mark.
  const url = await step("comment", async (): Promise<string> => {
    return (await api.request(`POST ${path}`, { body: `${text}\n${mark}`, request })).data.html_url;
  }, { unknown: find });
  await api.request(`POST ${repo}/issues/${number}/labels`, { labels: ["reviewed"], request });
  await step("summary", () => say(`${title}: ${url}`, signal));
}, { id: "review", timeoutMs: 300_000 });
if (import.meta.main) await runApp(bot);
