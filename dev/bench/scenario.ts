import type { Subject } from "./subjects.ts";

/** What one run has measured, by the key of its measure. */
export type Values = Readonly<Record<string, number>>;

/** One figure that a scenario measures. */
export interface Measure {
  readonly key: string;
  readonly title: string;
  /** How many digits after the point are shown. */
  readonly digits: number;
  /** Whether the ratio to what it is compared with says something. */
  readonly ratio?: boolean;
  /** How the chart shows it, if it does: a bar or a point for each row. */
  readonly chart?: "bars" | "line";
}

/** One measurement, in processes and on a KV file of its own. */
export interface Run {
  /** The rows it fills: what is varied, such as the number of connections. */
  readonly row: string;
  /** The column it fills: what is compared. By default the subject's name. */
  readonly column?: string;
  /** What runs. */
  readonly subject: Subject;
  measure(): Promise<Values>;
}

/** How much is measured, and where. */
export interface BenchSettings {
  readonly rounds: number;
  /** How long each load lasts, without the warm-up burst before it. */
  readonly seconds: number;
  /** How many events wait in the scenarios with a backlog. */
  readonly backlog: number;
  /** The subjects wanted; all by default. */
  readonly subjects: readonly string[] | undefined;
}

/** Something to measure on several subjects. */
export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** What is measured, and how to read the figures. */
  readonly what: string;
  /**
   * What a figure is compared with: that of the first column in the same row, or that of the first row
   * in the same column.
   */
  readonly compare: "columns" | "rows";
  readonly measures: readonly Measure[];
  /** What this machine lacks for it, if anything. */
  missing?(): string | undefined;
  /** The runs of one round, the first row and column first. */
  runs(settings: BenchSettings): readonly Run[];
}
