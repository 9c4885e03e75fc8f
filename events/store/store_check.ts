/** Name of a value whose key cannot be read, either. */
export const UNNAMED = "(written by a newer version of Deno)";

/**
 * Part of a check of a store.
 *
 * @category Operations
 */
export interface CheckedPage {
  /** Number of values that were read. */
  readonly read: number;
  /**
   * Findings among them: events that nothing led to and that are back on the schedule, and values that cannot be
   * decoded.
   */
  readonly findings: readonly (
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
      readonly kind:
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
       * Name of the value: the id of an event, the key of a group or a state, the name of a schedule. A value that
       * another program has written with a newer Deno has none in an older one.
       */
      readonly name: string;
      /** Place of the value, as the engine has it: in a KV its key, or the beginning of the key if it has no name. */
      readonly at: unknown;
    }
  )[];
}

/** Finding of a check. */
export type StoreFinding = CheckedPage["findings"][number];

/** Kind of a stored value that cannot be decoded. */
export type StoredKind = Exclude<StoreFinding, { readonly is: "put_back" }>["kind"];
