import { type LogLevel, type LogSink, writeLog } from "../middleware/mod.ts";
import { withDeadline } from "./deadline.ts";
import { type EventHandler, toEvent } from "./event.ts";
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
const GIVE_BACK_TIMEOUT_MS = 800;

/** One leased event: handled, its lease renewed meanwhile, and settled by how the handler ends. */
export class Job {
  /** Resolves once the event is settled, or lost. It never rejects. */
  readonly done: Promise<void>;
  readonly #parts: JobParts;
  readonly #controller = new AbortController();
  #lease: Lease;
  /** The renewals so far: the lease's version is known only once they are through. */
  #renewal: Promise<void> = Promise.resolve();
  /** Whether the event is no longer this job's to settle. */
  #lost = false;
  #stopping = false;

  constructor(parts: JobParts, lease: Lease) {
    this.#parts = parts;
    this.#lease = lease;
    this.done = this.#run();
  }

  /** Tells the handler to give up; if it does, the event goes to another worker at once. */
  stop(): void {
    this.#stopping = true;
    this.#controller.abort(new Error("The worker stops"));
  }

  /** Gives the event back, whatever its handler still does. */
  async giveBack(): Promise<void> {
    this.#lost = true;
    await withDeadline(this.#renewal, GIVE_BACK_TIMEOUT_MS / 4).catch(() => {});
    await this.#try(
      "event not given back",
      () => withDeadline(this.#parts.store.release(this.#lease), GIVE_BACK_TIMEOUT_MS),
    );
  }

  async #run(): Promise<void> {
    const timer = setInterval(() => this.#renew(), this.#parts.leaseMs / 3);
    const effects: CommitEffects[] = [];
    const failure = await this.#handle(effects).then(() => undefined, (error) => ({ error }));
    clearInterval(timer);
    await this.#renewal;
    if (this.#lost) return;
    await this.#try("event not settled, it will be handled again", async () => {
      const settling = failure
        ? this.#fail(failure.error)
        : this.#complete(effects).catch((error) => this.#fail(error));
      const settled = await withDeadline(settling, this.#parts.leaseMs);
      if (!settled) this.#report("warn", "lease lost, event not settled");
    });
  }

  async #handle(effects: CommitEffects[]): Promise<void> {
    const { store, leaseMs } = this.#parts;
    const body = await withDeadline(store.load(this.#lease), leaseMs);
    const event = toEvent(this.#lease.record, body);
    const { signal } = this.#controller;
    await this.#parts.handler(event, { signal, settleWith: (each) => void effects.push(each) });
  }

  #complete(effects: readonly CommitEffects[]): Promise<boolean> {
    return this.#parts.store.complete(this.#lease, (commit) => {
      for (const each of effects) each(commit);
    });
  }

  #fail(error: unknown): Promise<boolean> {
    const { store, retry } = this.#parts;
    if (this.#stopping) return store.release(this.#lease);
    const retryInMs = retryDelay(retry, this.#lease.record.attempt);
    if (retryInMs === null) {
      this.#report("error", "event failed for the last time, now dead", { error });
      return store.bury(this.#lease, error);
    }
    this.#report("warn", "event failed, to be tried again", { error, retryInMs });
    return store.retry(this.#lease, retryInMs, error);
  }

  #renew(): void {
    if (this.#lost) return;
    this.#renewal = this.#renewal.then(() => this.#try("lease not renewed", this.#renewNow));
  }

  readonly #renewNow = async (): Promise<void> => {
    const { store, leaseMs } = this.#parts;
    const lease = await withDeadline(store.renew(this.#lease, leaseMs), leaseMs);
    if (lease) {
      this.#lease = lease;
      return;
    }
    this.#lost = true;
    this.#controller.abort(new Error("The lease was lost"));
    this.#report("warn", "lease lost, handler aborted");
  };

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
