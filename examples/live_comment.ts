/**
 * Answers that appear while they are made, on GitHub for comments like `/ask why`.
 *
 * ```sh
 * deno run --allow-env --allow-net --allow-read=data --allow-write=data examples/live_comment.ts
 * ```
 */
import { Octokit } from "@octokit/core";
import { defineApp, github, required, runApp, sqlite } from "@org/edge-base";
import { retryAtOf } from "@org/edge-base/events";
import { liveText, model } from "./live_text.ts";

/** Bot. Its resources are the client of GitHub, and the model. */
export const bot = defineApp({
  name: "live-comment",
  platform: github(),
  store: sqlite(),
  env: { GITHUB_TOKEN: required },
  resources: ({ env }) => ({ octokit: new Octokit({ auth: env.GITHUB_TOKEN }), model }),
});

/** GitHub takes 80 in a minute and 500 in an hour: 80 in any ten minutes are at most 480 in an hour. Edits count. */
const COMMENTS = { limit: 80, perMs: 600_000 };

bot.on("issue_comment.created", async (event, context) => {
  const { step, take, signal, resources: { octokit, model } } = context;
  const { comment: { body: question, created_at: since }, issue, repository } = event.payload;
  if (event.sender?.isBot || !question.startsWith("/ask ")) return;
  const call = (route: string, parameters: object) =>
    octokit.request(route, { ...parameters, request: { signal } }).catch(async (error) => {
      // A 403 may also say that the bot has no right to do that.
      const untilMs = /rate limit/i.test(error.message) ? Date.now() + 60_000 : undefined;
      await take.later("github", { untilMs: retryAtOf(error) ?? untilMs });
      throw error;
    });
  const issues = `/repos/${repository.full_name}/issues`;
  const comments = `${issues}/${issue.number}/comments`;
  const mark = `<!-- ${event.idempotencyKey()} -->`; // GitHub does not show it
  const id = await step("first", async (): Promise<number> => {
    await take("github", COMMENTS);
    return (await call(`POST ${comments}`, { body: `…\n${mark}` })).data.id;
  }, {
    unknown: async () => {
      const { data } = await call(`GET ${comments}`, { since, per_page: 100 });
      return data.find(({ body }: { body: string }) => body.includes(mark))?.id;
    },
  });
  const edit = async (text: string) => {
    await call(`PATCH ${issues}/comments/${id}`, { body: `${text}\n${mark}` });
  };
  const pace = { key: id, limit: 1, perMs: 5_000 };
  const half = { ...COMMENTS, limit: 40 }; // the rest is for what must be said
  const answer = await step("answer", () =>
    liveText(model(question, signal), async (soFar) => {
      if (await take.now("comment", pace) && await take.now("github", half)) await edit(soFar);
    }));
  await take("github", COMMENTS);
  await edit(answer);
});

if (import.meta.main) await runApp(bot);
