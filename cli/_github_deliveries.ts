import { DISORDER_MS } from "../catch_up/options.ts";
import { fieldOf } from "../core/parse_json.ts";
import { type GithubAttempt, type GithubWebhooks, logPath } from "../catch_up/github_api.ts";
import { ApiError } from "../core/call_api.ts";
import { dateOf } from "../core/retry_at.ts";
import { memberOf } from "../core/json_text.ts";
import { forgeDelivery, type TestDelivery } from "../testing/mod.ts";
import type { Forwarder } from "./_forward.ts";

/** Pause between two reads of the log. A read that finds no change does not count towards GitHub's rate limit. */
const POLL_MS = 5_000;

/** Longest pause that GitHub can ask for. */
const MAX_POLL_MS = 600_000;

/** Difference allowed between the clocks of GitHub's API and of its webhooks. */
const CLOCK_SLACK_MS = 60_000;

/** Headers of a delivery that are handed on beside its event, id and signature. */
const HANDED_ON = /^(x-github-[a-z-]{1,80}|user-agent)$/i;

/** Text that a header can carry. */
const HEADER_VALUE = /^[\x20-\x7e]{1,1000}$/;

/**
 * Reads the delivery log of the repository's webhook, and hands new deliveries to the app, the oldest first,
 * signed again: the log does not hold the secret.
 */
export async function forwardLog(
  api: GithubWebhooks,
  findHook: () => Promise<string>,
  forwarder: Forwarder,
): Promise<never> {
  const { options: { secret, since }, world, signal } = forwarder;
  const startedAt = world.now();
  const log = new DeliveryLog(api, await forwarder.persist(findHook));
  await forwarder.persist(() => {
    const now = world.now();
    // The age was given when the tool began: it may have waited since.
    return log.begin(since === undefined ? undefined : since + now - startedAt, now);
  });
  forwarder.begin("New deliveries");
  for (;;) {
    for (const entry of await forwarder.persist(() => log.next())) {
      const delivery = await forwarder.persist(() => log.deliveryOf(entry, secret));
      if (typeof delivery !== "string") {
        await forwarder.hand({ type: entry.event, id: entry.guid }, delivery);
      } else world.err(`The delivery ${entry.guid} (${entry.event}) is passed over: ${delivery}`);
      log.done(entry);
    }
    await world.sleep(log.pollMs, signal);
  }
}

/**
 * Delivery log of a webhook, the newest entry first. An entry may appear after a newer one, so the entries of the
 * last minutes are compared with the ones that are done.
 */
class DeliveryLog {
  readonly #api: GithubWebhooks;
  readonly #hook: string;
  /** Entries that are done, with their times. */
  readonly #done = new Map<string, number>();
  /** Time before which entries are not looked at. */
  #horizon = 0;
  /** Time of the last read, by GitHub's clock. */
  #lookedAt = 0;
  /** Version of the first page whose entries are all done. */
  #etag: string | undefined;
  /** Time until the next read. */
  pollMs = POLL_MS;

  constructor(api: GithubWebhooks, hook: string) {
    this.#api = api;
    this.#hook = hook;
  }

  /** Finds the point to begin at, by GitHub's clock: this machine's may be wrong. */
  async begin(sinceMs: number | undefined, now: number): Promise<void> {
    const { headers } = await this.#api.call(logPath(this.#hook), { query: { per_page: "1" } });
    this.#lookedAt = dateOf(headers) ?? now;
    this.#horizon = this.#lookedAt - (sinceMs ?? CLOCK_SLACK_MS);
    if (sinceMs === undefined) { for (const entry of await this.next()) this.done(entry); }
  }

  /** Reads the entries that are not done yet, the oldest first. */
  async next(): Promise<GithubAttempt[]> {
    this.#forget();
    const found: GithubAttempt[] = [];
    let etag = this.#etag;
    let isFirst = true;
    for await (const { elements, headers } of this.#api.log(this.#hook, etag)) {
      found.push(...elements);
      if (isFirst) {
        etag = headers.get("ETag") ?? undefined;
        this.pollMs = pollMsOf(headers);
        this.#lookedAt = dateOf(headers) ?? this.#lookedAt;
      }
      isFirst = false;
      const last = elements.at(-1);
      if (last === undefined || last.deliveredAt < this.#horizon) break;
    }
    this.#etag = etag;
    return found.filter((each) => each.deliveredAt >= this.#horizon && !this.#done.has(each.id))
      .reverse().sort((a, b) => a.deliveredAt - b.deliveredAt);
  }

  /** Makes the request of an entry; returns the reason if it cannot be made. */
  async deliveryOf(
    { id, guid, event }: GithubAttempt,
    secret: string,
  ): Promise<TestDelivery | string> {
    const answer = await this.#api.call(`${logPath(this.#hook)}/${id}`).catch((error) => {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    });
    if (answer === undefined) return "GitHub no longer has it";
    const payload = memberOf(memberOf(answer.text, "request"), "payload");
    if (!payload?.startsWith("{")) return "the log has no payload of it";
    const delivery = forgeDelivery(event, payload, { from: "github", secret, id: guid });
    const headers = fieldOf(fieldOf(answer.json, "request"), "headers");
    for (const [name, value] of Object.entries(Object(headers))) {
      const isFit = HANDED_ON.test(name) && typeof value === "string" && HEADER_VALUE.test(value);
      if (isFit && !delivery.headers.has(name)) delivery.headers.set(name, value);
    }
    return delivery;
  }

  /** Notes that an entry is done. */
  done({ id, deliveredAt }: GithubAttempt): void {
    this.#done.set(id, deliveredAt);
  }

  #forget(): void {
    for (const at of this.#done.values()) {
      // An entry dated in the future would hide all others until then.
      const horizon = Math.min(at, this.#lookedAt) - DISORDER_MS;
      this.#horizon = Math.max(this.#horizon, horizon);
    }
    for (const [id, at] of this.#done) if (at < this.#horizon) this.#done.delete(id);
  }
}

function pollMsOf(headers: Headers): number {
  const seconds = Number(headers.get("X-Poll-Interval") ?? 0);
  return Math.min(MAX_POLL_MS, Math.max(POLL_MS, seconds * 1_000 || 0));
}
