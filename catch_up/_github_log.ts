import { ApiError } from "../core/call_api.ts";
import { dateOf } from "../core/retry_at.ts";
import { type GithubAttempt, type GithubWebhooks, listed, logPath } from "./github_api.ts";
import { type CatchUpOptions, DISORDER_MS, KEPT_MS } from "./options.ts";

/** Most pages, of 100 attempts each, that are read beyond the time asked for. */
const MAX_MORE = 20;

/**
 * Finds the webhooks that are meant: the one with the id, those with the URL, or the only one.
 *
 * @returns Their ids; undefined stands for the webhook of an app.
 */
export async function findHooks(
  api: GithubWebhooks,
  hook: CatchUpOptions["hooks"][number],
): Promise<(string | undefined)[]> {
  if ("app" in hook) return [undefined];
  if (hook.id !== undefined) return [String(hook.id)];
  const all = await api.hooks();
  const wanted = hook.url === undefined ? undefined : URL.parse(hook.url)?.href;
  const meant = all.filter(({ url }) => wanted === undefined || URL.parse(url)?.href === wanted);
  if (meant.length === 1 || (meant.length > 1 && wanted !== undefined)) {
    return meant.map(({ id }) => id);
  }
  if (all.length === 0) throw new ApiError(`${api.owner} has no webhook`);
  throw new ApiError(
    wanted === undefined
      ? `${api.owner} has several webhooks, choose one by its id or URL: ${listed(all)}`
      : `${api.owner} has no webhook with this URL, only ${listed(all)}`,
  );
}

/**
 * Reads the attempts of a webhook back to a time, the newest first. If a redelivery failed, it reads up to 20
 * pages more for the first attempt: that one may have succeeded.
 *
 * @returns The attempts, with older ones that were read with them, and the time by GitHub's clock.
 */
export async function readLog(
  api: GithubWebhooks,
  hook: string | undefined,
  sinceMs: number,
): Promise<{ attempts: GithubAttempt[]; now: number }> {
  const attempts: GithubAttempt[] = [];
  let now: number | undefined;
  let more = 0;
  for await (const { elements, headers } of api.log(hook)) {
    now ??= dateOf(headers) ?? Date.now();
    attempts.push(...elements);
    const reaches = (ms: number) => elements.some(({ deliveredAt }) => deliveredAt < now! - ms);
    if (!reaches(sinceMs + DISORDER_MS)) continue;
    if (reaches(KEPT_MS) || ++more > MAX_MORE || !lacksFirst(attempts, now - sinceMs)) break;
  }
  return { attempts, now: now ?? Date.now() };
}

/** Checks whether a delivery has failed since a time, and its first attempt was not read yet. */
function lacksFirst(attempts: readonly GithubAttempt[], since: number): boolean {
  const groups = Map.groupBy(attempts, ({ guid }) => guid).values();
  return groups.some((group) =>
    group.some(({ deliveredAt }) => deliveredAt >= since) &&
    group.every(({ isRedelivery, status }) => isRedelivery && !isSuccess(status))
  );
}

/** Checks whether a status says that a delivery was accepted. */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Asks GitHub to deliver once more. */
export async function askAgain(
  api: GithubWebhooks,
  hook: string | undefined,
  id: string,
): Promise<void> {
  const { status } = await api.call(`${logPath(hook)}/${id}/attempts`, { method: "POST" });
  if (status !== 202) throw new ApiError(`GitHub's API answers ${status}`, { status });
}
