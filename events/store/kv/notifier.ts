import { commit } from "./_commit.ts";

/**
 * How workers learn that events wait:
 *
 * - `enqueue`: a message through the KV's queue, in the same commit as the event.
 * - `watch`: a key that workers watch, for a KV without queues (a remote KV, Deno Deploy).
 */
export type NotifierKind = "enqueue" | "watch";

/**
 * What wakes the workers of a store. It only notifies: whether something is to be done stands in the
 * records, so a notifier too many does nothing and a notifier too few is made good by the worker's sweep.
 */
export interface Notifier {
  /** How it notifies. */
  readonly kind: NotifierKind;
  /**
   * Adds ringing to a commit, unless a ring is known to be on its way, or nobody would hear it sooner
   * than the worker's sweep.
   *
   * @param commit The commit that takes an event in.
   * @returns What to call if the commit fails, so that the ring is not waited for.
   */
  notify(commit: Deno.AtomicOperation): () => void;
  /**
   * Listens until the KV is closed.
   *
   * @param wake Called at each ring.
   * @returns A promise that resolves once the KV is closed.
   */
  listen(wake: () => void): Promise<void>;
}

/**
 * How long a ring is taken to be on its way: the local queue hands a message of another process over
 * once a minute. It slows down with what waits in it, so one ring in this time must do.
 */
const NOTIFY_PERIOD_MS = 60_000;

/**
 * Finds out how a KV can ring. A queue is tried with a commit that cannot succeed, so nothing is
 * written: `listenQueue` cannot be asked, it never settles on a KV without queues.
 *
 * @param kv The KV.
 * @param namespace The store's namespace.
 * @returns `enqueue` if the KV has queues, else `watch`.
 */
export async function detectNotifier(kv: Deno.Kv, namespace: string): Promise<NotifierKind> {
  const impossible = {
    key: [namespace, "notifier", "probe"],
    versionstamp: "0000000000000000ffff",
  };
  try {
    await commit(kv.atomic().check(impossible).enqueue(null));
    return "enqueue";
  } catch (error) {
    if (/not supported|not a function/i.test(String(error))) return "watch";
    throw error;
  }
}

/**
 * Makes a notifier.
 *
 * @param kind How it notifies.
 * @param kv The KV.
 * @param namespace The store's namespace: another store's notifies are not heard.
 * @returns The notifier.
 */
export function createNotifier(kind: NotifierKind, kv: Deno.Kv, namespace: string): Notifier {
  return kind === "enqueue" ? new QueueNotifier(kv, namespace) : new WatchNotifier(kv, namespace);
}

class QueueNotifier implements Notifier {
  readonly kind = "enqueue";
  readonly #kv: Deno.Kv;
  readonly #namespace: string;
  #notifiedAt = -Infinity;
  #listens = false;

  constructor(kv: Deno.Kv, namespace: string) {
    this.#kv = kv;
    this.#namespace = namespace;
  }

  notify(commit: Deno.AtomicOperation): () => void {
    const now = performance.now();
    // Its own worker is woken without. And of a disk that is full, Deno's queue ends the process.
    if (this.#listens || now - this.#notifiedAt < NOTIFY_PERIOD_MS) return () => {};
    this.#notifiedAt = now;
    commit.enqueue({ notifier: this.#namespace });
    return this.#heard;
  }

  listen(wake: () => void): Promise<void> {
    this.#listens = true;
    return this.#kv.listenQueue((message: unknown) => {
      if ((message as { notifier?: unknown } | null)?.notifier !== this.#namespace) return;
      this.#heard();
      wake();
    });
  }

  readonly #heard = (): void => {
    this.#notifiedAt = -Infinity;
  };
}

class WatchNotifier implements Notifier {
  readonly kind = "watch";
  readonly #kv: Deno.Kv;
  readonly #key: Deno.KvKey;

  constructor(kv: Deno.Kv, namespace: string) {
    this.#kv = kv;
    this.#key = [namespace, "notifier"];
  }

  notify(commit: Deno.AtomicOperation): () => void {
    commit.set(this.#key, Date.now());
    return () => {};
  }

  async listen(wake: () => void): Promise<void> {
    for await (const _ of this.#kv.watch([this.#key])) wake();
  }
}
