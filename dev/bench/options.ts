import { parseArgs } from "node:util";
import type { BenchSettings } from "./scenario.ts";

/** Options of the command line. */
export interface BenchOptions extends BenchSettings {
  /** The names of the scenarios wanted; all by default. */
  readonly only: readonly string[] | undefined;
  /** Folder of another checkout, which alone is compared with this one. */
  readonly against: string | undefined;
  /** Writes the results to `dev/bench/results.md` and `dev/bench/results.svg`. */
  readonly write: boolean;
  readonly help: boolean;
}

/** Help text of the command. */
export const USAGE = `deno task bench [OPTIONS]

  --rounds N        how often everything is measured (3)
  --seconds N       how long each load lasts (10)
  --backlog N       how many events wait where some do (50000)
  --only A,B        these scenarios
  --subjects A,B    these servers: baseline, edge-base, ...
  --write           write dev/bench/results.md and dev/bench/results.svg

deno task bench --against FOLDER [OPTIONS]

  --against FOLDER  compare this checkout with the one in FOLDER, and nothing else
  --rounds N        how often both are measured, by turns (5)
  --seconds N       how long each load lasts (5)
  --quick           1 round of 2 s`;

/** Reads the command line. */
export function readOptions(args: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      against: { type: "string" },
      backlog: { type: "string", default: "50000" },
      help: { type: "boolean", short: "h" },
      only: { type: "string" },
      quick: { type: "boolean" },
      rounds: { type: "string" },
      seconds: { type: "string" },
      subjects: { type: "string" },
      write: { type: "boolean" },
    },
  });
  const { against } = values;
  const [rounds, seconds] = values.quick ? ["1", "2"] : against ? ["5", "5"] : ["3", "10"];
  return {
    against,
    rounds: countOf("rounds", values.rounds ?? rounds),
    seconds: countOf("seconds", values.seconds ?? seconds),
    backlog: countOf("backlog", values.backlog),
    subjects: values.subjects?.split(","),
    only: values.only?.split(","),
    write: values.write === true,
    help: values.help === true,
  };
}

function countOf(name: string, text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new TypeError(`--${name} must be a whole number of 1 or more, got ${text}`);
}
