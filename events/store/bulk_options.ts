/** How far work on many events has come. */
export interface BulkProgress {
  /** How many events were looked at. */
  readonly seen: number;
  /** How many of them were changed. */
  readonly changed: number;
}

/** Options of work on many events. */
export interface BulkOptions {
  /** Told from time to time how far it has come. */
  readonly onProgress?: ((progress: BulkProgress) => void) | undefined;
  /** Ends the work between two commits. What was done until then stays done. */
  readonly signal?: AbortSignal | undefined;
}

/** What came of work on many events. */
export interface BulkResult {
  /** How many events were changed. */
  readonly changed: number;
  /** Those of the filter's ids whose events were not changed. */
  readonly left: readonly string[];
}
