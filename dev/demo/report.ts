import type { Line, RunningApp } from "../harness/start_app.ts";
import { pause } from "../harness/until.ts";

/** One request to send. */
export interface DemoRequest {
  /** The id of its event, if it becomes one. */
  readonly id: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Requests of one kind, and the answer that they should get. */
export interface DemoCase {
  readonly name: string;
  readonly requests: readonly DemoRequest[];
  /** Status that each should be answered with. */
  readonly status: number;
  /** Set if their events should reach the handler, once each. */
  readonly handled?: boolean;
}

/** Outcome of a case. */
export interface Outcome {
  readonly case: DemoCase;
  /** Number of requests by answer: status and body. */
  readonly answers: ReadonlyMap<string, number>;
  /** Milliseconds that the app took for each. */
  readonly appMs: readonly number[];
  /** Milliseconds from sending each to having read its answer. */
  readonly roundTripMs: readonly number[];
  /** Number of times that the event of each request was handled. */
  readonly handled: readonly number[];
  /** Set if all is as expected. */
  readonly ok: boolean;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly requestId: string;
  readonly ms: number;
}

/** Time within which events must reach the handler. */
const HANDLED_WITHIN_MS = 15_000;

/** Pause in which no event must be handled twice, or at all where it must not be. */
const SETTLE_MS = 500;

/** Sends the requests of all cases, one after the other, and returns what came of them. */
export async function runCases(app: RunningApp, cases: readonly DemoCase[]): Promise<Outcome[]> {
  const url = `${await app.url}/webhook`;
  const sent: { case: DemoCase; answers: Answer[] }[] = [];
  for (const each of cases) {
    const answers: Answer[] = [];
    for (const request of each.requests) answers.push(await send(url, request));
    sent.push({ case: each, answers });
  }
  const expected = cases.filter(({ handled }) => handled).flatMap(({ requests }) => requests);
  const deadline = Date.now() + HANDLED_WITHIN_MS;
  while (!expected.every(({ id }) => isHandled(app, id)) && Date.now() < deadline) await pause(20);
  await pause(SETTLE_MS);
  return sent.map(({ case: each, answers }) => outcomeOf(app, each, answers));
}

const isHandled = (app: RunningApp, id: string) => app.count("event handled", id) > 0;

function outcomeOf(app: RunningApp, demoCase: DemoCase, answers: readonly Answer[]): Outcome {
  const counts = new Map<string, number>();
  for (const { status, text } of answers) {
    const answer = `${status} ${text}`;
    counts.set(answer, (counts.get(answer) ?? 0) + 1);
  }
  const handled = demoCase.requests.map(({ id }) => app.count("event handled", id));
  const wanted = demoCase.handled ? 1 : 0;
  return {
    case: demoCase,
    answers: counts,
    appMs: answers.map(({ requestId }) => durationOf(app, requestId)),
    roundTripMs: answers.map(({ ms }) => ms),
    handled,
    ok:
      answers.every(({ status, text }) =>
        status === demoCase.status && (text === "OK") === (status === 200)
      ) &&
      handled.every((times) => times === wanted),
  };
}

/** Milliseconds that a request took in the app, from the app's own log. */
function durationOf(app: RunningApp, requestId: string): number {
  const isIts = ({ message, requestId: id }: Line) => message === "request" && id === requestId;
  return Number(app.lines.find(isIts)?.durationMs ?? NaN);
}

async function send(url: string, { body, headers }: DemoRequest): Promise<Answer> {
  const start = performance.now();
  const response = await fetch(url, { method: "POST", body, headers: { ...headers } });
  const text = await response.text();
  const ms = performance.now() - start;
  const requestId = response.headers.get("X-Request-Id") ?? "";
  return { status: response.status, text, requestId, ms };
}

/** Formats outcomes as a table for a terminal. */
export function formatTable(outcomes: readonly Outcome[]): string {
  const head = ["", "case", "sent", "answered", "app p50", "app max", "round trip p50", "handled"];
  const rows = outcomes.map((outcome) => [
    outcome.ok ? "ok" : "NOT OK",
    outcome.case.name,
    String(outcome.case.requests.length),
    [...outcome.answers.keys()].join(", "),
    milliseconds(quantile(outcome.appMs, 0.5)),
    milliseconds(quantile(outcome.appMs, 1)),
    milliseconds(quantile(outcome.roundTripMs, 0.5)),
    handledText(outcome.handled),
  ]);
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i]!.length)));
  return [head, ...rows]
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd())
    .join("\n");
}

function handledText(handled: readonly number[]): string {
  const once = handled.filter((times) => times === 1).length;
  const more = handled.filter((times) => times > 1).length;
  if (more > 0) return `${more} MORE THAN ONCE`;
  return once === 0 ? "none" : `${once} of ${handled.length}, once`;
}

/** The value below which a share of the values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
}

function milliseconds(value: number): string {
  return `${value.toFixed(1)} ms`;
}
