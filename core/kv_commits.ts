import { sleep } from "./timeouts.ts";

/** Time during which a commit to a locked file is tried again: the sender of a webhook has to be answered within 10 s. */
export const TRY_MS = 4_500;

/** The longest pause between tries: a commit takes about 1 ms. */
const MAX_PAUSE_MS = 50;

/**
 * The factor by which the pauses grow while another process holds the lock. With 2, a process that was
 * refused a few times had to wait for much longer than the others.
 */
const PAUSE_GROWTH = 1.3;

const DAY_MS = 86_400_000;

/** The time for which a KV keeps the marks of a process that has ended. */
const KEPT_MS = 30 * DAY_MS;

/** Options of a commit. */
export interface CommitOptions {
  /** The time during which it is tried again while another process holds the lock, in milliseconds. */
  readonly tryMs?: number | undefined;
  /** Called when that lock is met. */
  readonly onLocked?: (() => void) | undefined;
}

/** A key that one commit at a time writes. */
interface Mark {
  readonly key: Deno.KvKey;
  /** The number of the last commit that was to write it. */
  number: bigint;
  /** Its version. */
  versionstamp: string | null;
  /** The time at which that commit ended, milliseconds since the epoch. */
  usedAt: number;
}

/**
 * Commits to a KV, with their true outcome.
 *
 * The client of a remote KV repeats a commit that is not answered. If the first try was made, the second one
 * is refused because of it, and that it was refused is all that a caller would hear. So each commit also
 * writes a mark: a key that no other commit writes meanwhile, with a number that this commit alone has. If it
 * is refused, the mark shows whether an earlier try was made, and with which version. What it wrote could not
 * show that: others may have changed or deleted it since. If the mark cannot be read, the commit fails:
 * its outcome is not known.
 *
 * A commit that checks only that keys are not there, or nothing at all, could be made by both tries: others
 * may have deleted in between what the first one wrote. Such a commit checks its mark as well.
 *
 * There are as many marks as commits were under way at the same time: each commit takes the mark of one that
 * has ended. Only a commit whose outcome is not known keeps its mark for good, since it may still be made.
 *
 * A KV on this machine repeats nothing, and a mark takes a commit 10 to 14 µs: there, none is written.
 */
export class CommitMarks {
  readonly #kv: Deno.Kv;
  readonly #prefix: Deno.KvKey;
  readonly #isRepeated: boolean;
  readonly #free: Mark[] = [];
  #count = 0;

  /**
   * @param kv The KV.
   * @param prefix The beginning of the keys of all marks, of this process and of others.
   * @param isRepeated False if the KV is known to be on this machine.
   */
  constructor(kv: Deno.Kv, prefix: Deno.KvKey, isRepeated = true) {
    this.#kv = kv;
    this.#isRepeated = isRepeated;
    this.#prefix = [...prefix, crypto.randomUUID()];
  }

  /**
   * Commits an operation.
   *
   * @param operation The operation. It changes the keys that it checks.
   * @param checks What it checks, which is added here.
   * @param options What to do while another process holds the lock.
   * @returns The version of what was written, or that a check did not hold and nothing was written.
   * @throws {Error} If it is not known whether it was made.
   */
  async commit(
    operation: Deno.AtomicOperation,
    checks: readonly Deno.AtomicCheck[],
    options?: CommitOptions,
  ): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
    operation.check(...checks);
    if (!this.#isRepeated) return await commitUnlocked(operation, options);
    const mark = this.#take();
    const { key } = mark;
    const number = ++mark.number;
    operation.set(key, new Deno.KvU64(number), { expireIn: KEPT_MS });
    if (checks.every(({ versionstamp }) => versionstamp === null)) operation.check(mark);
    let result = await commitUnlocked(operation, options);
    if (result.ok) mark.versionstamp = result.versionstamp;
    else {
      const { value, versionstamp } = await this.#kv.get<Deno.KvU64>(key);
      mark.versionstamp = versionstamp;
      if (value?.value === number) result = { ok: true, versionstamp: versionstamp! };
    }
    mark.usedAt = Date.now();
    this.#free.push(mark);
    return result;
  }

  /** Takes a mark that the KV has not expired. */
  #take(): Mark {
    const mark = this.#free.pop();
    if (mark && Math.abs(Date.now() - mark.usedAt) < DAY_MS) return mark;
    return { key: [...this.#prefix, this.#count++], number: 0n, versionstamp: null, usedAt: 0 };
  }
}

/**
 * Commits, and tries again while another process holds the lock of the database file: Deno's KV does not
 * wait for it. Of three processes that write to one file, two had over half of their commits refused.
 *
 * @param operation The operation.
 * @param options The time for which it is tried again, and what to do then.
 * @returns The answer of the KV.
 */
export async function commitUnlocked(
  operation: Deno.AtomicOperation,
  { tryMs = TRY_MS, onLocked }: CommitOptions = {},
): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
  const start = performance.now();
  for (let pauseMs = 1;; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * PAUSE_GROWTH)) {
    try {
      return await operation.commit();
    } catch (error) {
      if (!isLocked(error) || performance.now() - start > tryMs) throw error;
    }
    onLocked?.();
    await sleep(pauseMs * (0.5 + Math.random()));
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && error.message.includes("database is locked");
}
