import { withApp } from "../loaded_app.ts";
import type { Run, Scenario, Values } from "../scenario.ts";
import { postgresPath, withPostgres } from "../postgres_server.ts";
import { EDGE_BASE, EDGE_BASE_POSTGRES, EDGE_BASE_SQLITE, type Subject } from "../subjects.ts";
import { CPU, type Load, measureCost } from "./_cost.ts";
import { LOAD_MEASURES } from "./_load.ts";

const LOADS: Readonly<Record<string, Load>> = {
  "1 connection": { connections: 1 },
  "32 connections": { connections: 32 },
  "256 connections": { connections: 256 },
  "1,000/s": { perSecond: 1_000 },
  "3,000/s": { perSecond: 3_000 },
};

/** Subjects: Postgres only with the programs of a server. */
const SUBJECTS = [
  ...[EDGE_BASE, EDGE_BASE_SQLITE],
  ...postgresPath() === undefined ? [] : [EDGE_BASE_POSTGRES],
];

const { perSecond, p50Ms, p99Ms, peakMb } = LOAD_MEASURES;

/** The engines of the package beside each other, by what a delivery costs. */
export const engines: Scenario = {
  name: "engines",
  title: "SQLite and Postgres beside Deno KV",
  what:
    "Deliveries of 7.7 KB, after a burst of one second, until a handler that only counts has handled all of " +
    "them. The CPU is that of the app's process, user and system, and so are the bytes written to the disk: a " +
    "Postgres server with its default settings runs beside it and is not counted. A stall is the longest time for " +
    "which its event loop did nothing else.",
  compare: "columns",
  measures: [
    CPU,
    perSecond,
    { ...p50Ms, digits: 2 },
    { ...p99Ms, digits: 2 },
    { key: "writtenKb", title: "written to the disk for an event, KB", digits: 1, ratio: true },
    { key: "stallMs", title: "longest stall, ms", digits: 0 },
    peakMb,
  ],
  runs: ({ seconds }) =>
    Object.entries(LOADS).flatMap(([row, load]) =>
      SUBJECTS.map((subject): Run => {
        return { row, subject, measure: () => measureOn(subject, load, seconds) };
      })
    ),
};

function measureOn(subject: Subject, load: Load, seconds: number): Promise<Values> {
  if (subject !== EDGE_BASE_POSTGRES) return measure(subject, load, seconds);
  return withPostgres((url) => measure(subject, load, seconds, { DATABASE_URL: url }));
}

/** Measures what a load costs a server, all told. */
function measure(
  subject: Subject,
  load: Load,
  seconds: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Values> {
  return withApp(subject, async (app) => {
    let writtenBefore = 0;
    const { values, count } = await measureCost(app, subject, load, seconds, async () => {
      await app.resetLags();
      writtenBefore = app.writtenBytes();
    });
    const writtenKb = (app.writtenBytes() - writtenBefore) / count / 1_000;
    return { ...values, writtenKb, stallMs: (await app.handled()).stallMs };
  }, { env });
}
