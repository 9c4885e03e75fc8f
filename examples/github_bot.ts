/**
 * GitHub App. It labels issues whose title tells of a bug, and answers comments that begin with `/help`.
 * ```sh
 * GITHUB_WEBHOOK_SECRET='...' GITHUB_APP_ID=4711 GITHUB_APP_PRIVATE_KEY="$(cat key.pem)" deno run \
 *   --allow-env --allow-net=0.0.0.0:8000,api.github.com --allow-read=data --allow-write=data \
 *   examples/github_bot.ts
 * ```
 */
import { createAppAuth } from "@octokit/auth-app";
import { Octokit } from "@octokit/core";
import { defineApp, github, GiveUpError, optional, required } from "@org/edge-base";
import { RetryLaterError, runApp, sqlite } from "@org/edge-base";
import { retryAtOf } from "@org/edge-base/events";
const API = "https://api.github.com";
/** Client of the API. It gives up on 404 and 410, and puts off calls over a rate limit. */
function createClient(baseUrl: string, auth: object): Octokit {
  const get: typeof fetch = (url, init) =>
    // A request for a token has no signal of a handler's.
    fetch(url, { ...init, signal: init?.signal ?? AbortSignal.timeout(30_000) });
  const api = new Octokit({ baseUrl, auth, authStrategy: createAppAuth, request: { fetch: get } });
  api.hook.error("request", (error) => {
    if (!("status" in error)) throw error;
    if ([404, 410].includes(error.status)) throw new GiveUpError(error.message);
    const now = Date.now();
    const retryAt = retryAtOf(error, now);
    throw retryAt ? new RetryLaterError(error.message, { afterMs: retryAt - now }) : error;
  });
  return api;
}
/** GitHub App. Its resource makes the client of an installation; all clients share the tokens. */
export const bot = defineApp({
  name: "github-bot",
  platform: github(),
  store: sqlite(),
  env: { GITHUB_APP_ID: required, GITHUB_APP_PRIVATE_KEY: required, GITHUB_API_URL: optional(API) },
  resources: ({ env }) => {
    const factory = (auth: object) => createClient(env.GITHUB_API_URL, auth);
    const app = factory({ appId: env.GITHUB_APP_ID, privateKey: env.GITHUB_APP_PRIVATE_KEY });
    return (installationId = 0) =>
      app.auth({ type: "installation", installationId, factory }) as Promise<Octokit>;
  },
});
// Setting a label twice has the effect of once, so a retry does no harm.
bot.on("issues.opened", async ({ payload }, { resources: clientOf, signal }) => {
  const { installation, issue, repository } = payload;
  if (!/\b(crash|error|broken)/i.test(issue.title)) return;
  const path = `/repos/${repository.full_name}/issues/${issue.number}/labels`;
  const api = await clientOf(installation?.id);
  await api.request(`POST ${path}`, { labels: ["bug"], request: { signal } });
}, { id: "label", timeoutMs: 120_000 });
// The answer carries a mark: if a crash leaves it unknown, the next attempt looks for that.
bot.on("issue_comment.created", async (event, { step, resources: clientOf, signal }) => {
  const { installation, comment: { body, created_at: since }, issue, repository } = event.payload;
  if (event.sender?.isBot || !body.startsWith("/help")) return;
  const path = `/repos/${repository.full_name}/issues/${issue.number}/comments`;
  const [api, mark] = [await clientOf(installation?.id), `<!-- ${event.idempotencyKey()} -->`];
  const [text, request] = [`Help is on its way.\n${mark}`, { signal }];
  await step("answer", async () => {
    const { data } = await api.request(`POST ${path}`, { body: text, request });
    return data.id as number;
  }, {
    unknown: async () => {
      const { data } = await api.request(`GET ${path}`, { since, per_page: 100, request });
      return data.find(({ body }: { body: string }) => body.includes(mark))?.id;
    },
  });
}, { id: "answer", timeoutMs: 120_000 });
if (import.meta.main) await runApp(bot);
