import { commitUnlocked } from "../../../core/kv_commits.ts";
import { consoleSink, type LogSink, writeLog } from "../../../core/mod.ts";
import { isForeign } from "./_reads.ts";
import { encodeValue } from "./value_codec.ts";

type NotifierKind = "enqueue" | "watch";

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
 * @param log The log for messages that are not notifications.
 * @returns The notifier.
 */
export function createNotifier(
  kind: NotifierKind,
  kv: Deno.Kv,
  namespace: string,
  log: LogSink = consoleSink,
): Notifier {
  const notifier = kind === "enqueue"
    ? queueNotifier(kv, namespace, log)
    : watchNotifier(kv, namespace);
  return { ...notifier, listen: (wake) => noted(kv, notifier.listen(wake)) };
}

/** Listening of this process, by KV. */
const listening = new WeakMap<Deno.Kv, Set<Promise<void>>>();

/** Waits until nothing listens any more on a KV that was closed: Deno tells its listeners only after that. */
export async function listenersEnded(kv: Deno.Kv): Promise<void> {
  await Promise.allSettled(listening.get(kv) ?? []);
}

/** Notes what listens on a KV until it ends. */
async function noted(kv: Deno.Kv, ended: Promise<void>): Promise<void> {
  const all = listening.get(kv) ?? new Set();
  listening.set(kv, all.add(ended));
  try {
    await ended;
  } finally {
    all.delete(ended);
  }
}

function queueNotifier(kv: Deno.Kv, namespace: string, log: LogSink): Notifier {
  let notifiedAt = -Infinity;
  let listens = false;
  const arrived = () => void (notifiedAt = -Infinity);
  const listenOnce = (wake: () => void) =>
    kv.listenQueue((message: unknown) => {
      const notified = (message as { notifier?: unknown } | null)?.notifier;
      if (notified === namespace) {
        arrived();
        wake();
      } else if (typeof notified !== "string") {
        writeLog(log, "error", "unknown message in the queue, dropped", { namespace });
      }
    });
  return {
    kind: "enqueue",
    notify(commit) {
      const now = performance.now();
      // The worker of this process is woken directly. And on a full disk, Deno's queue ends the process.
      if (listens || now - notifiedAt < NOTIFY_PERIOD_MS) return () => {};
      notifiedAt = now;
      commit.enqueue({ notifier: namespace });
      return arrived;
    },
    async listen(wake) {
      listens = true;
      for (;;) {
        try {
          return await listenOnce(wake);
        } catch (error) {
          // A newer Deno has written the message, in V8's format. It is a notification, and has ended the listening.
          if (!isForeign(error)) throw error;
          wake();
        }
      }
    },
  };
}

function watchNotifier(kv: Deno.Kv, namespace: string): Notifier {
  const key = [namespace, "notifier"];
  return {
    kind: "watch",
    notify(commit) {
      commit.set(key, encodeValue(Date.now()));
      return () => {};
    },
    async listen(wake) {
      for await (const _ of kv.watch([key])) wake();
    },
  };
}
