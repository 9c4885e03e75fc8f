import { type LogSink, reasonOf, writeLog } from "../../../core/mod.ts";
import { sleep } from "../../../core/timeouts.ts";
import type { Session } from "./_connections.ts";
import { type Lent, type PgSettings, Pool } from "./_pool.ts";

/** Shortest time between two notifications of a process, in milliseconds: the server makes their commits one by one. */
const NOTIFY_MS = 50;

/** Time between two looks at the schedule while nothing can be heard, in milliseconds. */
const POLL_MS = 1_000;

/** Time in which a transaction of the user's is expected to be committed, in milliseconds. */
const EXPECTED_MS = 60_000;

/** Pause before another try to listen, in milliseconds: without a connection, and if nothing is heard on it. */
const [CONNECT_PAUSE_MS, DEAF_PAUSE_MS] = [1_000, 60_000] as const;

/** Time of silence after which a trial shows whether anything can be heard, and its longest time, in milliseconds. */
const [SILENCE_MS, TRIAL_MS] = [300_000, 3_000] as const;

/** Payload of a trial. */
const TRIAL = "";

/** The parts of a client of `npm:pg` that tell of notifications. */
interface ListeningClient {
  on(event: "notification", listener: (message: { readonly payload?: string }) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  query(text: string): Promise<unknown>;
}

/** Options of {@linkcode WakeUps.open}. */
export interface WakeUpsOptions {
  /** Settings of the connection that listens. No pooler may be in between. */
  readonly settings: PgSettings;
  /** The connections that notify. */
  readonly db: Session;
  /** Name of the channel. */
  readonly channel: string;
  readonly log: LogSink;
}

/**
 * Wake-ups between processes, by `notify` and `listen`.
 *
 * A pooler that gives each transaction another connection lets a process listen and hear nothing, and a connection may be
 * lost without a word. So a trial is sent at the beginning and after some silence, by another connection. While nothing
 * can be heard, workers are woken once a second.
 */
export class WakeUps {
  readonly #pool: Pool;
  readonly #options: WakeUpsOptions;
  /** Payload of the notifications of this process. */
  readonly #own = crypto.randomUUID();
  readonly #wakes = new Set<() => void>();
  readonly #closing = new AbortController();
  #listening: Promise<void> | undefined;
  /** Wakes the workers while nothing can be heard. */
  #polling: ReturnType<typeof setInterval> | undefined;
  /** Resolved with true by the next notification that is heard, and with false if none will be. */
  #next: PromiseWithResolvers<boolean> | undefined;
  #hasWarned = false;
  #isToNotify = false;
  #notifying: ReturnType<typeof setTimeout> | undefined;
  /** The latest notification: true once it is sent, false if it could not be. */
  #sending: Promise<boolean> | undefined;
  #expecting: ReturnType<typeof setInterval> | undefined;
  #expectedUntil = 0;

  private constructor(pool: Pool, options: WakeUpsOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** Makes the wake-ups of a schema. Nothing is connected before somebody listens. */
  static async open(options: WakeUpsOptions): Promise<WakeUps> {
    const [pool] = await Pool.ofEach(options.settings, [1]);
    return new WakeUps(pool!, options);
  }

  /** Calls back when another process has notified, and while nothing can be heard, until it is closed. */
  listen(wake: () => void): void {
    this.#wakes.add(wake);
    this.#listening ??= this.#listen();
  }

  /** Wakes the workers of other processes, by a statement of its own. Those that come soon after it wait for the next one. */
  notify(): void {
    this.#isToNotify = true;
    if (this.#notifying === undefined) this.#notify();
  }

  /** Wakes the workers of this process once a second for a while: somebody else commits what none is notified of. */
  expect(): void {
    this.#expectedUntil = performance.now() + EXPECTED_MS;
    this.#expecting ??= setInterval(() => {
      if (performance.now() > this.#expectedUntil) {
        clearInterval(this.#expecting);
        this.#expecting = undefined;
      }
      this.#wakeAll();
    }, POLL_MS);
  }

  /** Ends all of it, once the others are notified of all. */
  async close(): Promise<void> {
    clearInterval(this.#expecting);
    this.#closing.abort();
    this.#next?.resolve(false);
    clearTimeout(this.#notifying);
    if (await this.#sending && this.#isToNotify) await this.#send(this.#own).catch(() => {});
    await this.#listening;
    await this.#pool.close();
  }

  #notify(): void {
    if (this.#closing.signal.aborted) return;
    this.#isToNotify = false;
    this.#sending = this.#send(this.#own).then(() => true, () => !(this.#isToNotify = true));
    this.#notifying = setTimeout(() => {
      this.#notifying = undefined;
      if (this.#isToNotify) this.#notify();
    }, NOTIFY_MS);
  }

  async #send(payload: string): Promise<void> {
    await this.#options.db.all("select pg_notify($1, $2)", this.#options.channel, payload);
  }

  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      this.#polling = setInterval(() => this.#wakeAll(), POLL_MS);
      const pauseMs = await this.#connect();
      await sleep(pauseMs, signal).catch(() => {});
      clearInterval(this.#polling);
    }
  }

  /** Listens by a connection, until nothing is heard any more. Returns the pause before the next one, in milliseconds. */
  async #connect(): Promise<number> {
    let lent: Lent | undefined;
    try {
      lent = await this.#pool.take();
      if (await this.#listenBy(lent) || lent.isLost) return CONNECT_PAUSE_MS;
      this.#warn("a pooler may be in between: it has to be a direct connection");
      return DEAF_PAUSE_MS;
    } catch (error) {
      this.#warn(reasonOf(error));
      return CONNECT_PAUSE_MS;
    } finally {
      this.#next?.resolve(false);
      if (lent) this.#pool.giveBack(Object.assign(lent, { isLost: true }));
    }
  }

  /** Returns true if anything was heard. */
  async #listenBy(lent: Lent): Promise<boolean> {
    const client = lent.client as unknown as ListeningClient;
    client.on("end", () => this.#next?.resolve(false));
    client.on("notification", ({ payload }) => this.#hear(payload));
    await client.query(`listen "${this.#options.channel}"`);
    for (let hasHeard = false;; hasHeard = true) {
      const isHeard = this.#hears(lent, TRIAL_MS);
      await this.#send(TRIAL);
      if (!await isHeard) return hasHeard;
      if (!hasHeard) this.#begin();
      while (await this.#hears(lent, SILENCE_MS));
      if (lent.isLost || this.#closing.signal.aborted) return true;
    }
  }

  /** Wakes the workers for what others have sent before, and from now on for what is heard. */
  #begin(): void {
    this.#hasWarned = false;
    clearInterval(this.#polling);
    this.#wakeAll();
  }

  async #hears({ isLost }: Lent, withinMs: number): Promise<boolean> {
    if (isLost || this.#closing.signal.aborted) return false;
    const next = this.#next = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => next.resolve(false), withinMs);
    const isHeard = await next.promise;
    clearTimeout(timer);
    return isHeard;
  }

  #hear(payload: string | undefined): void {
    this.#next?.resolve(true);
    if (payload !== this.#own && payload !== TRIAL) this.#wakeAll();
  }

  #wakeAll(): void {
    for (const wake of this.#wakes) wake();
  }

  /** Warns, once for each time that it could not be heard. */
  #warn(reason: string): void {
    if (this.#hasWarned || this.#closing.signal.aborted) return;
    this.#hasWarned = true;
    writeLog(this.#options.log, "warn", "nothing is heard by 'listenUrl', the app polls", {
      reason,
    });
  }
}
