import { ApiError, callAgain, mayPass } from "../core/call_api.ts";
import { sleep } from "../core/timeouts.ts";
import type { EventStore, Telemetry } from "../events/mod.ts";
import { askAgain, findHooks, isSuccess, readLog } from "./_github_log.ts";
import { type GithubAttempt, type GithubWebhooks, openGithub } from "./github_api.ts";
import { type CatchUpOptions, checkCatchUp, KEPT_MS } from "./options.ts";

/** Pauses before a call that failed is made again. */
const RETRY_MS = [1_000, 5_000] as const;

/** Longest pause before a call is made again: a primary rate limit can last an hour. */
const MAX_PAUSE_MS = 300_000;

/** Time within which an attempt without a status may still be under way. */
const UNDER_WAY_MS = 60_000;

/** Number of events that are looked up at once. */
const LOOKUP = 100;

/** Calls that fail in a row before the rest is left for later. */
const MAX_FAILING = 5;

/**
 * Outcome of {@linkcode catchUp}. Deliveries are named by their `guid`.
 *
 * @category Catching up
 */
export interface CatchUpResult {
  /** Deliveries that GitHub was asked for again; those that it would be asked for in a dry run. */
  readonly asked: string[];
  /** Those of the failed deliveries that the store has, in any state: even dead, or done without a handler. */
  readonly stored: string[];
  /** Number of deliveries for which an attempt was answered with 2xx. */
  delivered: number;
  /** Deliveries that the app refused with 4xx, except 408, 425 and 429, which mean a slow or busy app. */
  readonly refused: string[];
  /** Deliveries of the last minute that have no answer yet. */
  readonly underWay: string[];
  /** Deliveries that GitHub could not be asked for, each with the reason. */
  readonly failed: { readonly guid: string; readonly reason: string }[];
  /** Failed deliveries that GitHub still lists, but that are older than three days. */
  readonly tooOld: string[];
  /** Deliveries that were left for the next run. */
  readonly left: string[];
  /** Webhooks that could not be read, each with the reason. */
  readonly problems: string[];
  /** True if the signal ended it. */
  interrupted: boolean;
}

/** Run of {@linkcode catchUp}. */
interface CatchUpRun extends CatchUpOptions {
  readonly store: Pick<EventStore, "list">;
  readonly signal: AbortSignal;
  readonly result: CatchUpResult;
}

/** Delivery with the newest of its attempts. */
interface Missed {
  readonly api: GithubWebhooks;
  /** Id of the webhook; undefined for the only one of an app. */
  readonly hook: string | undefined;
  readonly attempt: GithubAttempt;
}

/**
 * Asks GitHub to deliver once more what failed while the app was down: deliveries that no attempt got a 2xx
 * for, that the app did not refuse, and that the store does not have. The store is only read.
 *
 * @param store The store that the app's deliveries go to.
 * @param options The webhooks and the authentication.
 * @returns What was done.
 * @throws {TypeError} If the store, a webhook, the authentication or another option is something else.
 * @throws {RangeError} If a number is out of range.
 *
 * @example
 * ```ts
 * import { defineApp, github, required, sqlite, writeLog } from "@org/edge-base";
 * import { catchUp } from "@org/edge-base/catch-up";
 *
 * const env = { GITHUB_TOKEN: required };
 * const bot = defineApp({ name: "bot", platform: github(), store: sqlite(), env });
 * bot.schedule("catch-up", "@hourly", async (_slot, { store, env, log, signal }) => {
 *   const { asked, failed, problems } = await catchUp(store, {
 *     hooks: [{ repository: "acme/site", url: "https://bot.example.com/webhook" }],
 *     github: { token: env.GITHUB_TOKEN },
 *     sinceMs: 2 * 3_600_000,
 *     signal,
 *   });
 *   writeLog(log, "info", "caught up", { asked: asked.length, failed: failed.length, problems });
 * });
 * ```
 *
 * @category Catching up
 */
export async function catchUp(
  store: Pick<EventStore, "list">,
  options: CatchUpOptions,
): Promise<CatchUpResult> {
  checkCatchUp(store, options);
  const { telemetry, dryRun = false, signal = new AbortController().signal } = options;
  const result: CatchUpResult = {
    ...{ asked: [], stored: [], delivered: 0, refused: [], underWay: [], failed: [] },
    ...{ tooOld: [], left: [], problems: [], interrupted: false },
  };
  try {
    const run = { ...options, store, signal, result };
    const missed = await missedOf(run);
    const stored = await storedOf(run, [...missed.keys()]);
    const wanted = [...missed].filter(([guid]) => !stored.has(guid));
    result.stored.push(...stored);
    await askAll(run, wanted);
  } catch (error) {
    if (!signal.aborted) throw error;
    result.interrupted = true;
  } finally {
    if (telemetry && !dryRun) countAll(telemetry, result);
  }
  return result;
}

function countAll(telemetry: Telemetry, result: CatchUpResult): void {
  const { asked, failed, stored, refused, tooOld: too_old, left } = result;
  const found = { asked, failed, stored, refused, too_old, left } as const;
  for (const outcome of Object.keys(found) as (keyof typeof found)[]) {
    const count = found[outcome].length;
    if (count > 0) telemetry.countStep({ is: "caught_up", outcome, count });
  }
}

/** Finds the deliveries to ask for in the logs of all webhooks, the oldest first. */
async function missedOf(
  { github, hooks, sinceMs, delivered = false, signal, result }: CatchUpRun,
): Promise<Map<string, Missed>> {
  const missed: [string, Missed][] = [];
  const limits = { tries: RETRY_MS.length + 1, longestMs: MAX_PAUSE_MS };
  const open = openGithub(github, {
    ...{ signal, now: Date.now },
    persist: (call) => callAgain(call, limits, (error, attempt) => pause(error, attempt, signal)),
  });
  for (const wanted of hooks) {
    const api = open(wanted);
    try {
      for (const hook of await findHooks(api, wanted)) {
        const { attempts, now } = await readLog(api, hook, sinceMs);
        for (const [guid, group] of Map.groupBy(attempts, (each) => each.guid)) {
          if (group.every(({ deliveredAt }) => deliveredAt < now - sinceMs)) continue;
          const attempt = sorted(guid, group, { now, result, delivered });
          if (attempt !== undefined) missed.push([guid, { api, hook, attempt }]);
        }
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      result.problems.push(error.message);
    }
  }
  // Webhooks that lead to one app share the guid of an event.
  return new Map(missed.sort(([, a], [, b]) => a.attempt.deliveredAt - b.attempt.deliveredAt));
}

/** Counts a delivery by its attempts; returns the newest attempt if GitHub is to send it again. */
function sorted(
  guid: string,
  attempts: readonly GithubAttempt[],
  { now, result, delivered }: Pick<CatchUpRun, "result"> & {
    readonly now: number;
    readonly delivered: boolean;
  },
): GithubAttempt | undefined {
  if (attempts.some(({ status }) => isSuccess(status))) {
    result.delivered++;
    if (!delivered) return undefined;
  }
  const last = attempts.reduce((a, b) => b.deliveredAt > a.deliveredAt ? b : a);
  const { status, deliveredAt } = last;
  const isRefused = status >= 400 && status < 500 && !mayPass(status);
  if (isRefused) result.refused.push(guid);
  else if (status === 0 && deliveredAt > now - UNDER_WAY_MS) result.underWay.push(guid);
  else if (deliveredAt < now - KEPT_MS) result.tooOld.push(guid);
  else return last;
  return undefined;
}

async function askAll(run: CatchUpRun, wanted: readonly [string, Missed][]): Promise<void> {
  const { paceMs = 250, limit = 1_000, dryRun = false, signal, result } = run;
  result.left.push(...wanted.map(([guid]) => guid));
  let failing = 0;
  for (const [guid, missed] of wanted) {
    const calls = result.asked.length + result.failed.length;
    if (calls >= limit) return;
    let goesOn = true;
    if (dryRun) result.asked.push(guid);
    else {
      if (calls > 0) await sleep(paceMs, signal);
      signal.throwIfAborted();
      // Another instance may have asked for it since.
      const isStored = (await storedOf(run, [guid])).has(guid);
      if (isStored) result.stored.push(guid);
      else goesOn = await ask(missed, result);
      failing = result.failed.at(-1)?.guid === guid ? failing + 1 : 0;
    }
    result.left.shift();
    // The next call would only be refused as well.
    if (!goesOn || failing >= MAX_FAILING) return;
  }
}

/** Asks for a delivery; returns false if GitHub takes no more calls. */
async function ask(
  { api, hook, attempt: { id, guid } }: Missed,
  result: CatchUpResult,
): Promise<boolean> {
  try {
    await askAgain(api, hook, id);
    result.asked.push(guid);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    result.failed.push({ guid, reason: error.message });
    return error.status !== undefined && ![401, 403, 429].includes(error.status);
  }
}

/** Waits before a call that failed is made again. */
async function pause(
  { status = 500, retryAfterMs }: ApiError,
  attempt: number,
  signal: AbortSignal,
): Promise<void> {
  const leastMs = status >= 500 || retryAfterMs === undefined ? RETRY_MS[attempt]! : 0;
  await sleep(Math.max(leastMs, retryAfterMs ?? 0), signal);
}

/** Finds the deliveries that the store has, in any state. */
async function storedOf(
  { store, intake = "github" }: CatchUpRun,
  guids: readonly string[],
): Promise<Set<string>> {
  const prefix = `${intake}:`;
  const stored = new Set<string>();
  for (let start = 0; start < guids.length; start += LOOKUP) {
    const ids = guids.slice(start, start + LOOKUP).map((guid) => prefix + guid);
    for await (const { id } of store.list({ ids })) stored.add(id.slice(prefix.length));
  }
  return stored;
}
