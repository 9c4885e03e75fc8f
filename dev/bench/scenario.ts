import type { Subject } from "./subjects.ts";

/** Figures of one run, by the key of their measure. */
export type Values = Readonly<Record<string, number>>;

/** Place of a figure in the table of its scenario. */
export interface Place {
  readonly row: string;
  readonly column: string;
}

/** Figures of one run. */
export interface Sample extends Place {
  readonly scenario: Scenario;
  readonly round: number;
  readonly values: Values;
}

/** One figure that a scenario measures. */
export interface Measure {
  readonly key: string;
  readonly title: string;
  /** Number of digits after the point. */
  readonly digits: number;
  /** Set if the ratio to the value it is compared with says something. */
  readonly ratio?: boolean;
  /** Mark of the measure in the chart, if it is there: a bar or a point for each row. */
  readonly chart?: "bars" | "line";
}

/** One measurement, in processes and on a KV file of its own. */
export interface Run {
  /** The rows it fills: what is varied, such as the number of connections. */
  readonly row: string;
  /** The column it fills: what is compared. By default the subject's name. */
  readonly column?: string;
  /** Name of the subject that runs. */
  readonly subject: Subject;
  measure(): Promise<Values>;
}

/** Amount of measuring, and the place for it. */
export interface BenchSettings {
  readonly rounds: number;
  /** Seconds that each load lasts, without the warm-up burst before it. */
  readonly seconds: number;
  /** Number of events that wait in the scenarios with a backlog. */
  readonly backlog: number;
  /** The subjects wanted; all by default. */
  readonly subjects: readonly string[] | undefined;
}

/** Something to measure on several subjects. */
export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** Text that says what is measured, and how to read the figures. */
  readonly what: string;
  /**
   * Value that a figure is compared with: that of the first column in the same row, or that of the
   * first row in the same column.
   */
  readonly compare: "columns" | "rows";
  readonly measures: readonly Measure[];
  /** Reason why this machine cannot measure it, if there is one. */
  missing?(): string | undefined;
  /** The runs of one round, the first row and column first. */
  runs(settings: BenchSettings): readonly Run[];
  /** Sums up what was measured, below the table. */
  conclude?(samples: readonly Sample[]): string;
}
