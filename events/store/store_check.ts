/**
 * Kind of a stored value that cannot be decoded.
 *
 * @category Operations
 */
export type StoredKind =
  | "event"
  | "id"
  | "schedule entry"
  | "ordering group"
  | "position"
  | "name"
  | "state"
  | "schedule"
  | "kept payload";

/**
 * Options of a check.
 *
 * @category Operations
 */
export interface CheckOptions {
  /**
   * Set if values that cannot be decoded are deleted, except for records of events. Only for values that no
   * version can read any more: a state is lost then, and so is the answer to a question. Events stay, and lose
   * their place in their group.
   *
   * @default {false}
   */
  readonly discard?: boolean | undefined;
}

/**
 * Finding of a check: an event that nothing led to and that is back on the schedule, or a value that cannot be
 * decoded and is left as it is.
 *
 * @category Operations
 */
export type StoreFinding =
  | {
    /** An event was put back: its schedule entry, its position, or its entry in an index was missing. */
    readonly is: "put_back";
    /** Its id. */
    readonly eventId: string;
  }
  | {
    /** A value cannot be decoded: another version wrote it, or it is damaged. If asked for, it was deleted. */
    readonly is: "unreadable" | "discarded";
    /** Kind of the value. */
    readonly kind: StoredKind;
    /**
     * Name of the value: the id of an event, the key of a group or a state, the name of a schedule. A value that
     * another program has written with a newer Deno has none in an older one.
     */
    readonly name: string;
    /** Key of the value in the KV, or what it begins with if the value has no name. */
    readonly key: Deno.KvKey;
  };

/**
 * Outcome of a whole check of a store, by whichever process.
 *
 * @category Operations
 */
export interface CheckSummary {
  /** Time at which it ended, milliseconds since the epoch. */
  readonly at: number;
  /** Number of values that were read. */
  readonly read: number;
  /** Number of events that were put back. */
  readonly putBack: number;
  /** Number of values that could not be decoded, and are left. */
  readonly unreadable: number;
}

/**
 * Part of a check of a store.
 *
 * @category Operations
 */
export interface CheckedPage {
  /** Number of values that were read. */
  readonly read: number;
  /** Findings among them. */
  readonly findings: readonly StoreFinding[];
}
