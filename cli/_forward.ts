import { callAgain, mayPass } from "../core/call_api.ts";
import { retryAfterOf } from "../core/retry_at.ts";
import type { TestDelivery } from "../testing/mod.ts";
import { type AppAnswer, lineOf, sendTo, statusOf } from "./_app.ts";
import type { ConnectOptions } from "./_connect_options.ts";
import { type CliWorld, messageOf } from "./_world.ts";

/** Time that the app has left for its answer once the user has interrupted the tool. */
const GRACE_MS = 5_000;

/** First and longest pause between two tries. */
const [MIN_PAUSE_MS, MAX_PAUSE_MS] = [1_000, 10_000];

/** Longest pause that is granted on request: GitHub resets its limits within the hour. */
const MAX_REQUESTED_MS = 3_660_000;

/** Limits of a call that the user waits for. */
export const BRIEFLY = { tries: 3, longestMs: 60_000 } as const;

/** Statuses that mean a wrong configuration, with the reason. Going on would lose every delivery that waits. */
const MISTAKEN: Readonly<Record<number, string>> = {
  401: "its secret is another one than the tool has",
  404: "it has no webhook there, give its address with --url",
  405: "it has no webhook there, give its address with --url",
};

/** Type and id of a delivery, for messages. */
export interface Item {
  readonly type: string;
  readonly id: string;
}

/**
 * Hands deliveries to the app, one after the other. If the app gives no answer or answers 5xx, the delivery is
 * tried again and the next ones wait, so none is lost or overtakes another.
 */
export class Forwarder {
  readonly options: ConnectOptions;
  readonly world: CliWorld;
  readonly signal: AbortSignal;
  #forwarded = 0;
  #refused = 0;
  /** Problem that was reported last; undefined once it is over. */
  #trouble: string | undefined;

  constructor(options: ConnectOptions, world: CliWorld, signal: AbortSignal) {
    this.options = options;
    this.world = world;
    this.signal = signal;
  }

  /** Writes that it begins. */
  begin(what: string): void {
    this.world.err(`${what} go to the app at ${this.#host}. Ctrl-C ends this.`);
  }

  /** Writes what was done, after an interruption. */
  end(): void {
    const [forwarded, refused] = [this.#forwarded, this.#refused];
    this.world.out(
      this.options.json
        ? JSON.stringify({ forwarded, refused, interrupted: true })
        : `${forwarded} forwarded, ${refused} refused, interrupted`,
    );
  }

  /**
   * Calls an API until it succeeds, within limits.
   *
   * @throws {ApiError} If the API refuses the call for good, or still does after the last try.
   */
  async persist<T>(
    call: () => Promise<T>,
    { tries, longestMs } = { tries: Infinity, longestMs: Infinity },
  ): Promise<T> {
    const result = await callAgain(
      call,
      { tries, longestMs },
      (error, attempt) => this.#pause(error.message, attempt, error.retryAfterMs),
    );
    this.#trouble = undefined;
    return result;
  }

  /**
   * Hands a delivery to the app, until it takes it or refuses it for good.
   *
   * @throws {Error} If the app would refuse every delivery.
   */
  async hand(item: Item, delivery: TestDelivery): Promise<void> {
    for (let attempt = 0;; attempt++) {
      this.signal.throwIfAborted();
      const answer = await this.#send(delivery);
      if (typeof answer === "string") {
        await this.#pause(answer, attempt, undefined);
      } else if (mayPass(answer.status)) {
        const trouble = `The app at ${this.#host} answers ${statusOf(answer)} to ${item.id}`;
        const requestedMs = retryAfterOf(answer.headers, this.world.now());
        await this.#pause(trouble, attempt, requestedMs);
      } else {
        this.#trouble = undefined;
        return this.#settle(item, answer);
      }
    }
  }

  /** Sends a delivery; returns the reason if there is no answer. */
  async #send(delivery: TestDelivery): Promise<AppAnswer | string> {
    const grace = graceAfter(this.signal);
    try {
      return await sendTo(this.options.app, delivery, grace.signal);
    } catch (error) {
      return messageOf(error);
    } finally {
      grace.end();
    }
  }

  /** Writes an answer that is final. */
  #settle(item: Item, answer: AppAnswer): void {
    const { status, code, text, ms } = answer;
    const isTaken = status >= 200 && status < 300;
    if (!isTaken && (status < 400 || status in MISTAKEN)) {
      const why = MISTAKEN[status] ??
        "a redirect, which is not followed: give its address with --url";
      const answered = `answers ${statusOf(answer)} to ${item.id}`;
      throw new Error(`The app at ${this.#host} ${answered}: ${why}. Nothing was skipped.`);
    }
    if (isTaken) this.#forwarded++;
    else this.#refused++;
    const end = isTaken ? "" : "  refused for good";
    this.world.out(
      this.options.json
        ? JSON.stringify({ ...item, status, code, text, ms })
        : `${item.type} ${item.id}  ${lineOf(answer)}${end}`,
    );
  }

  /** Waits before the next try. A lasting problem is reported once. */
  async #pause(trouble: string, attempt: number, requestedMs: number | undefined): Promise<void> {
    const ownMs = Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** Math.min(attempt, 10));
    const ms = Math.max(ownMs, Math.min(MAX_REQUESTED_MS, requestedMs ?? 0));
    const next = ms > MAX_PAUSE_MS ? ` in ${Math.ceil(ms / 1_000)} s` : "";
    if (trouble !== this.#trouble) this.world.err(`${trouble}; trying again${next}`);
    this.#trouble = trouble;
    await this.world.sleep(ms, this.signal);
  }

  get #host(): string {
    return new URL(this.options.app).host;
  }
}

/** Makes a signal that follows another one after a while. */
function graceAfter(interrupted: AbortSignal): { signal: AbortSignal; end: () => void } {
  const late = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const start = () => timer = setTimeout(() => late.abort(), GRACE_MS);
  interrupted.addEventListener("abort", start, { once: true });
  const end = () => {
    interrupted.removeEventListener("abort", start);
    clearTimeout(timer);
  };
  return { signal: late.signal, end };
}
