/**
 * Bot for a code host. It labels new issues, and answers comments that begin with `/help`.
 *
 * ```sh
 * FORGE_WEBHOOK_SECRET='...' FORGE_API_TOKEN='...' deno run -A --unstable-kv examples/forge_bot.ts
 * ```
 *
 * @module
 */
import {
  bindEnv,
  createBaseApp,
  createEventRouter,
  createForgeIntake,
  type EventHandler,
  type EventHandlerFor,
  GiveUpError,
  readForgeSecrets,
  runApp,
} from "@org/edge-base";

const LABELS = { bug: /\b(crash|error|broken)/i, question: /\b(how|why)\b.*\?/i };

/** Labels an issue. Setting a label twice has the effect of once, so a retry does no harm. */
const label: EventHandlerFor<"issues.opened"> = async (
  { payload: { issue, repository } },
  { signal },
) => {
  const labels = Object.entries(LABELS).filter(([, words]) => words.test(issue.title));
  if (labels.length === 0) return;
  const path = `/repos/${repository.full_name}/issues/${issue.number}/labels`;
  await callApi(path, signal, { labels: labels.map(([name]) => name) });
};

/** Answers a comment. The answer carries a mark, so that a retry finds it and does not post twice. */
const answer: EventHandlerFor<"issue_comment.created"> = async (event, { signal }) => {
  const { payload: { comment, issue, repository }, sender } = event;
  if (sender?.isBot || !comment.body.startsWith("/help")) return;
  const path = `/repos/${repository.full_name}/issues/${issue.number}/comments`;
  const mark = `<!-- ${event.idempotencyKey("answer")} -->`;
  const since = `${path}?since=${comment.created_at}`;
  const later = await callApi(since, signal) as { readonly body: string }[];
  if (later.some(({ body }) => body.includes(mark))) return;
  await callApi(path, signal, { body: `Help is on its way, @${sender?.name}.\n${mark}` });
};

async function callApi(path: string, signal: AbortSignal, body?: object): Promise<unknown> {
  const response = await fetch((Deno.env.get("FORGE_API_URL") ?? "https://api.github.com") + path, {
    signal,
    headers: { Authorization: `Bearer ${Deno.env.get("FORGE_API_TOKEN")}` },
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  });
  if (response.ok) return await response.json();
  await response.body?.cancel();
  const reason = `${path} was answered with ${response.status}`;
  // A deleted issue does not come back. Any other failure may pass by the next attempt.
  throw [404, 410].includes(response.status) ? new GiveUpError(reason) : new Error(reason);
}

/** Handles the bot's events. */
export const handleEvent: EventHandler = createEventRouter()
  .on("issues.opened", label)
  .on("issue_comment.created", answer).handle;

if (import.meta.main) {
  await runApp({
    name: "forge-bot",
    handler: handleEvent,
    setup: (variables) => {
      const secrets = readForgeSecrets(variables);
      return ({ store, ready, trustedProxyHops, log, telemetry }) => {
        const app = createBaseApp({
          ...{ name: "forge-bot", ready, telemetry },
          logger: { log, trustedProxyHops },
          rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
        });
        app.route("/", createForgeIntake({ ...secrets, store, telemetry }));
        return bindEnv(app, {});
      };
    },
  });
}
