import { commitUnlocked } from "../../../core/kv_commits.ts";
import { consoleSink, type LogSink, writeLog } from "../../../core/mod.ts";
import type { NotifierKind } from "../event_store.ts";
import { encodeValue } from "../value_codec.ts";
import { isForeign } from "./_reads.ts";

/**
 * The notifier of a store, which wakes its workers. It only notifies: the records show what is to be done. An extra
 * notification does nothing, and after a missed one the worker's poll finds the event.
 */
export interface Notifier {
  /** The means by which it notifies. */
  readonly kind: NotifierKind;
  /**
   * Adds a notification to a commit. It adds none if one is known to be on its way, or if the worker of
   * this process is woken directly.
   *
   * @param commit The commit that stores an event.
   * @returns A function to call if the commit fails, because then no notification is on its way.
   */
  notify(commit: Deno.AtomicOperation): () => void;
  /**
   * Listens until the KV is closed.
   *
   * @param wake Called at each notification.
   * @returns A promise that resolves once the KV is closed.
   */
  listen(wake: () => void): Promise<void>;
}

/**
 * The time for which a message counts as on its way: the local queue delivers messages of another process
 * once a minute. It slows down with the number of waiting messages, so at most one is sent in this time.
 */
const NOTIFY_PERIOD_MS = 60_000;

/**
 * Finds out how a KV can notify. A queue is tried with a commit that cannot succeed, so nothing is
 * written: `listenQueue` never settles on a KV without queues.
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
    await commitUnlocked(kv.atomic().check(impossible).enqueue(null));
    return "enqueue";
  } catch (error) {
    if (/not supported|not a function/i.test(String(error))) return "watch";
    throw error;
  }
}

/**
 * Makes a notifier.
 *
 * @param kind The means by which it notifies.
 * @param kv The KV.
 * @param namespace The store's namespace: other stores have their own notifications.
 * @param log The log for messages that are no notifications.
 * @returns The notifier.
 */
export function createNotifier(
  kind: NotifierKind,
  kv: Deno.Kv,
  namespace: string,
  log: LogSink = consoleSink,
): Notifier {
  return kind === "enqueue"
    ? new QueueNotifier(kv, namespace, log)
    : new WatchNotifier(kv, namespace);
}

class QueueNotifier implements Notifier {
  readonly kind = "enqueue";
  readonly #kv: Deno.Kv;
  readonly #namespace: string;
  readonly #log: LogSink;
  #notifiedAt = -Infinity;
  #listens = false;

  constructor(kv: Deno.Kv, namespace: string, log: LogSink) {
    this.#kv = kv;
    this.#namespace = namespace;
    this.#log = log;
  }

  notify(commit: Deno.AtomicOperation): () => void {
    const now = performance.now();
    // The worker of this process is woken directly. And on a full disk, Deno's queue ends the process.
    if (this.#listens || now - this.#notifiedAt < NOTIFY_PERIOD_MS) return () => {};
    this.#notifiedAt = now;
    commit.enqueue({ notifier: this.#namespace });
    return this.#arrived;
  }

  async listen(wake: () => void): Promise<void> {
    this.#listens = true;
    for (;;) {
      try {
        return await this.#listenOnce(wake);
      } catch (error) {
        // A newer Deno has written the message, in V8's format. It is a notification, and has ended the listening.
        if (!isForeign(error)) throw error;
        wake();
      }
    }
  }

  #listenOnce(wake: () => void): Promise<void> {
    return this.#kv.listenQueue((message: unknown) => {
      const notified = (message as { notifier?: unknown } | null)?.notifier;
      if (notified === this.#namespace) {
        this.#arrived();
        wake();
      } else if (typeof notified !== "string") {
        const namespace = this.#namespace;
        writeLog(this.#log, "error", "unknown message in the queue, dropped", { namespace });
      }
    });
  }

  readonly #arrived = (): void => {
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
    commit.set(this.#key, encodeValue(Date.now()));
    return () => {};
  }

  async listen(wake: () => void): Promise<void> {
    for await (const _ of this.#kv.watch([this.#key])) wake();
  }
}
