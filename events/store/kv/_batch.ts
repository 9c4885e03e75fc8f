import type { Write } from "./_write.ts";

/** A commit holds 1,000 mutations; the notifier is one, and shared entries of the schedule are others. */
const MAX_MUTATIONS = 950;

/** A commit holds 819,200 bytes, keys and V8's serialization among them. */
const MAX_BYTES = 700_000;

/** Whether a commit was made, and the version of what it wrote. */
export type CommitResult = Deno.KvCommitResult | Deno.KvCommitError;

/** A write, and who waits for it to be written. */
export interface Waiting {
  readonly write: Write;
  /** Since when, by the monotonic clock. */
  readonly since: number;
  readonly resolve: (result: CommitResult) => void;
  readonly reject: (error: unknown) => void;
}

/** Writes that share a commit. */
export class Batch {
  /** The writes, and who waits for them. */
  readonly items: Waiting[] = [];
  readonly #maxChecks: number;
  readonly #checked = new Set<Deno.KvKeyPart | undefined>();
  #checks = 0;
  #mutations = 0;
  #bytes = 0;

  /** @param maxChecks How many checks the commit holds. */
  constructor(maxChecks: number) {
    this.#maxChecks = maxChecks;
  }

  /**
   * Adds a write if it fits. No two check the same key: all checks of a commit look at what was there
   * before, so both would hold. The effects of somebody else have a commit of their own.
   */
  add(item: Waiting): boolean {
    const { checks, size, bytes, effects } = item.write;
    // Two keys that are the same have the same last part, an id. That others may have it too makes
    // some wait for the next commit.
    const ids = checks.map(({ key }) => key.at(-1));
    const isFirst = this.items.length === 0;
    if (!isFirst && (effects || !this.#fits(ids, size, bytes))) return false;
    this.items.push(item);
    for (const id of ids) this.#checked.add(id);
    this.#checks += ids.length;
    // Nothing fits beside effects.
    this.#mutations += effects ? MAX_MUTATIONS : size;
    this.#bytes += bytes;
    return true;
  }

  #fits(ids: readonly (Deno.KvKeyPart | undefined)[], size: number, bytes: number): boolean {
    return this.#checks + ids.length <= this.#maxChecks &&
      this.#mutations + size <= MAX_MUTATIONS && this.#bytes + bytes <= MAX_BYTES &&
      !ids.some((id) => this.#checked.has(id));
  }
}
