import { commit } from "./_commit.ts";

/**
 * How workers learn that events wait:
 *
 * - `enqueue`: a message through the KV's queue, in the same commit as the event.
 * - `watch`: a key that workers watch, for a KV without queues (a remote KV, Deno Deploy).
 */
export type BellKind = "enqueue" | "watch";

/**
 * What wakes the workers of a store. It only rings: whether something is to be done stands in the
 * records, so a bell too many does nothing and a bell too few is made good by the worker's sweep.
 */
export interface Doorbell {
  /** How it rings. */
  readonly kind: BellKind;
  /**
   * Adds ringing to a commit, unless a ring is known to be on its way, or nobody would hear it sooner
   * than the worker's sweep.
   *
   * @param commit The commit that takes an event in.
   * @returns What to call if the commit fails, so that the ring is not waited for.
   */
  ring(commit: Deno.AtomicOperation): () => void;
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
const RING_PERIOD_MS = 60_000;

/**
 * Finds out how a KV can ring. A queue is tried with a commit that cannot succeed, so nothing is
 * written: `listenQueue` cannot be asked, it never settles on a KV without queues.
 *
 * @param kv The KV.
 * @param namespace The store's namespace.
 * @returns `enqueue` if the KV has queues, else `watch`.
 */
export async function detectBell(kv: Deno.Kv, namespace: string): Promise<BellKind> {
  const impossible = { key: [namespace, "bell", "probe"], versionstamp: "0000000000000000ffff" };
  try {
    await commit(kv.atomic().check(impossible).enqueue(null));
    return "enqueue";
  } catch (error) {
    if (/not supported|not a function/i.test(String(error))) return "watch";
    throw error;
  }
}

/**
 * Makes a doorbell.
 *
 * @param kind How it rings.
 * @param kv The KV.
 * @param namespace The store's namespace: another store's rings are not heard.
 * @returns The doorbell.
 */
export function createDoorbell(kind: BellKind, kv: Deno.Kv, namespace: string): Doorbell {
  return kind === "enqueue" ? new QueueBell(kv, namespace) : new WatchBell(kv, namespace);
}

class QueueBell implements Doorbell {
  readonly kind = "enqueue";
  readonly #kv: Deno.Kv;
  readonly #namespace: string;
  #rungAt = -Infinity;
  #listens = false;

  constructor(kv: Deno.Kv, namespace: string) {
    this.#kv = kv;
    this.#namespace = namespace;
  }

  ring(commit: Deno.AtomicOperation): () => void {
    const now = performance.now();
    // Its own worker is woken without. And of a disk that is full, Deno's queue ends the process.
    if (this.#listens || now - this.#rungAt < RING_PERIOD_MS) return () => {};
    this.#rungAt = now;
    commit.enqueue({ bell: this.#namespace });
    return this.#silence;
  }

  listen(wake: () => void): Promise<void> {
    this.#listens = true;
    return this.#kv.listenQueue((message: unknown) => {
      if ((message as { bell?: unknown } | null)?.bell !== this.#namespace) return;
      this.#silence();
      wake();
    });
  }

  readonly #silence = (): void => {
    this.#rungAt = -Infinity;
  };
}

class WatchBell implements Doorbell {
  readonly kind = "watch";
  readonly #kv: Deno.Kv;
  readonly #key: Deno.KvKey;

  constructor(kv: Deno.Kv, namespace: string) {
    this.#kv = kv;
    this.#key = [namespace, "bell"];
  }

  ring(commit: Deno.AtomicOperation): () => void {
    commit.set(this.#key, Date.now());
    return () => {};
  }

  async listen(wake: () => void): Promise<void> {
    for await (const _ of this.#kv.watch([this.#key])) wake();
  }
}
