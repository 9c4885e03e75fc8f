import { type LogLevel, type LogSink, writeLog } from "../middleware/mod.ts";
import { withDeadline } from "./deadline.ts";
import { type EventHandler, toEvent } from "./event.ts";
import { GiveUpError } from "./give_up_error.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";
import type { CommitEffects, EventStore, Lease } from "./store/mod.ts";

/** What the jobs of a worker share. */
export interface JobParts {
  readonly store: EventStore;
  readonly handler: EventHandler;
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  readonly log: LogSink;
}

/** How long giving back may take: Deno Deploy kills an instance 5 s after it told it to stop. */
const GIVE_BACK_TIMEOUT_MS = 500;

/** How much of its lease a worker uses, so that it has stopped when another one may start. */
const EXPIRY_MARGIN = 0.9;

/** One leased event: handled, its lease renewed meanwhile, and settled by how the handler ends. */
export class Job {
  /** Resolves once the event is settled, or lost. It never rejects. */
  readonly done: Promise<void>;
  readonly #parts: JobParts;
  readonly #controller = new AbortController();
  readonly #spentMs: number;
  #lease: Lease;
  /** The renewals so far: the lease's version is known only once they are through. */
  #renewal: Promise<void> = Promise.resolve();
  /** Whether the event is no longer this job's to settle. */
  #lost = false;
  #stopping = false;
  #expiry: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param parts What the jobs share.
   * @param lease The lease.
   * @param spentMs How much of the lease has gone by already, at most.
   */
  constructor(parts: JobParts, lease: Lease, spentMs: number) {
    this.#parts = parts;
    this.#spentMs = spentMs;
    this.#lease = lease;
    this.done = this.#try("event not settled, it will be handled again", () => this.#run());
  }

  /** Tells the handler to give up; if it does, the event goes to another worker at once. */
  stop(): void {
    this.#stopping = true;
    this.#controller.abort(new Error("The worker stops"));
  }

  /** Gives the event back, whatever its handler still does. */
  async giveBack(): Promise<void> {
    this.#lost = true;
    clearTimeout(this.#expiry);
    await withDeadline(this.#renewal, GIVE_BACK_TIMEOUT_MS / 4).catch(() => {});
    await this.#try(
      "event not given back",
      () => withDeadline(this.#parts.store.release(this.#lease), GIVE_BACK_TIMEOUT_MS),
    );
  }

  async #run(): Promise<void> {
    if (await this.#defer()) return;
    const { leaseMs } = this.#parts;
    const timer = setInterval(() => this.#renew(), leaseMs / 3);
    this.#expireIn(leaseMs - this.#spentMs);
    const effects: CommitEffects[] = [];
    const failure = await this.#handle(effects).then(() => undefined, (error) => ({ error }));
    clearInterval(timer);
    await this.#renewal;
    clearTimeout(this.#expiry);
    if (this.#lost) return;
    const settling = failure
      ? this.#fail(failure.error)
      : this.#complete(effects).catch((error) => this.#fail(error));
    if (await withDeadline(settling, leaseMs)) return;
    this.#report("warn", "lease lost, event not settled");
  }

  /**
   * Keeps an event that is taken over again and again, for it may be what kills its processes, from
   * being tried more often than one that fails: the lease it has waited for counts.
   */
  async #defer(): Promise<boolean> {
    const { store, retry, leaseMs } = this.#parts;
    const { record, takenOver } = this.#lease;
    if (!takenOver) return false;
    const delayMs = retryDelay(retry, record.attempt - 1);
    if (delayMs === null) {
      this.#report("error", "event failed for the last time, now dead");
      await withDeadline(store.bury(this.#lease, "Given up: its lease expired too often"), leaseMs);
      return true;
    }
    if (delayMs <= leaseMs) return false;
    await withDeadline(store.release(this.#lease, delayMs - leaseMs), leaseMs);
    return true;
  }

  async #handle(effects: CommitEffects[]): Promise<void> {
    const { store, leaseMs } = this.#parts;
    const body = await withDeadline(store.load(this.#lease), leaseMs);
    const event = toEvent(this.#lease.record, body);
    const { signal } = this.#controller;
    let ended = false;
    const settleWith = (each: CommitEffects) => {
      if (ended) throw new TypeError("Cannot settle with effects: the handler has ended");
      effects.push(each);
    };
    const checkpoint = async (part: string, each?: CommitEffects) => {
      if (ended) throw new TypeError("Cannot note progress: the handler has ended");
      await this.#checkpoint(part, each);
    };
    const { progress = [] } = this.#lease.record;
    try {
      await this.#parts.handler(event, { signal, settleWith, progress, checkpoint });
    } finally {
      ended = true;
    }
  }

  /** In turn with the renewals, for both make a new version of the lease. */
  async #checkpoint(part: string, effects?: CommitEffects): Promise<void> {
    const { store, leaseMs } = this.#parts;
    const add = effects && ((commit: Deno.AtomicOperation) => addEffects(commit, [effects]));
    const noting = this.#renewal.then(async () => {
      const lease = this.#lost
        ? null
        : await withDeadline(store.checkpoint(this.#lease, part, add), leaseMs / 3);
      if (lease) return void (this.#lease = lease);
      this.#lose("lease lost, handler aborted");
      throw new Error("Cannot note progress: the lease was lost");
    });
    this.#renewal = noting.catch(() => {});
    await noting;
  }

  #complete(effects: readonly CommitEffects[]): Promise<boolean> {
    return this.#parts.store.complete(this.#lease, (commit) => addEffects(commit, effects));
  }

  async #fail(error: unknown): Promise<boolean> {
    const { store, retry } = this.#parts;
    if (this.#stopping) return await store.release(this.#lease);
    const givenUp = error instanceof GiveUpError;
    const retryInMs = givenUp ? null : retryDelay(retry, this.#lease.record.attempt);
    if (retryInMs === null) {
      const buried = await store.bury(this.#lease, error);
      if (givenUp && buried) this.#report("warn", "event given up, now dead", { error });
      else if (buried) this.#report("error", "event failed for the last time, now dead", { error });
      return buried;
    }
    const given = await store.retry(this.#lease, retryInMs, error);
    if (given) this.#report("warn", "event failed, to be tried again", { error, retryInMs });
    return given;
  }

  #renew(): void {
    if (this.#lost) return;
    this.#renewal = this.#renewal.then(() => this.#try("lease not renewed", this.#renewNow));
  }

  readonly #renewNow = async (): Promise<void> => {
    if (this.#lost) return;
    const { store, leaseMs } = this.#parts;
    const start = performance.now();
    const lease = await withDeadline(store.renew(this.#lease, leaseMs), leaseMs / 3);
    if (!lease) return this.#lose("lease lost, handler aborted");
    this.#lease = lease;
    this.#expireIn(leaseMs - (performance.now() - start));
  };

  /** Without a renewal another worker takes the event over: by then this one has to have stopped. */
  #expireIn(ms: number): void {
    clearTimeout(this.#expiry);
    if (this.#lost) return;
    const expire = () => this.#lose("lease not renewed in time, handler aborted");
    this.#expiry = setTimeout(expire, ms * EXPIRY_MARGIN);
  }

  #lose(message: string): void {
    if (this.#lost) return;
    this.#lost = true;
    clearTimeout(this.#expiry);
    this.#controller.abort(new Error("The lease was lost"));
    this.#report("warn", message);
  }

  async #try(message: string, action: () => Promise<unknown>): Promise<void> {
    try {
      await action();
    } catch (error) {
      this.#report("error", message, { error });
    }
  }

  #report(level: LogLevel, message: string, fields: Record<string, unknown> = {}): void {
    const { id, platform, type, attempt, requestId } = this.#lease.record;
    const event = { platform, type, id, attempt, requestId: requestId ?? undefined };
    writeLog(this.#parts.log, level, message, { ...event, ...fields });
  }
}

function addEffects(commit: Deno.AtomicOperation, effects: readonly CommitEffects[]): void {
  for (const each of effects) {
    const result: unknown = each(commit);
    if (!(result instanceof Promise)) continue;
    result.catch(() => {});
    throw new TypeError("Effects must be added synchronously");
  }
}
