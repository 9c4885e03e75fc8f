/** What one run has measured, by the key of its measure. */
export type Values = Readonly<Record<string, number>>;

/** One figure that a scenario measures. */
export interface Measure {
  readonly key: string;
  readonly title: string;
  /** How many digits after the point are shown. */
  readonly digits: number;
  /** Whether the ratio to the baseline says something. */
  readonly ratio?: boolean;
}

/** One measurement, in processes and on a KV file of its own. */
export interface Run {
  /** What is varied: the number of connections, the size of the payload. */
  readonly case: string;
  /** What is measured: `plain`, `edge-base`. */
  readonly subject: string;
  measure(): Promise<Values>;
}

/** How much is measured. */
export interface BenchSettings {
  readonly rounds: number;
  /** How long each load lasts, without the warm-up burst before it. */
  readonly seconds: number;
  /** The subjects wanted; all by default. */
  readonly subjects: readonly string[] | undefined;
}

/** Something to measure on several subjects. */
export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** What is measured, and how to read the figures. */
  readonly what: string;
  /** The subject that the others are compared with. */
  readonly baseline: string;
  readonly measures: readonly Measure[];
  /** The runs of one round. */
  runs(settings: BenchSettings): readonly Run[];
}
