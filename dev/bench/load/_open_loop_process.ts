/**
 * The open-loop generator, in a process of its own. Its argument is an `ArrivalTask` in JSON, its output
 * an `ArrivalResult`. It writes to TCP connections itself: `fetch` needs several times the CPU.
 */
import { cpuMs } from "../proc.ts";
import { Connection } from "./_connection.ts";
import type { ArrivalResult, ArrivalTask } from "./open_loop.ts";

/** Deliveries that are due while these are all busy wait, and their waiting counts. */
const MAX_CONNECTIONS = 512;

/** Deliveries that are not answered by then count as failed, with the time they have waited. */
const PATIENCE_MS = 10_000;

const task: ArrivalTask = JSON.parse(Deno.args[0]!);
const total = task.perSecond * task.seconds;
const body = await Deno.readFile(task.bodyFile);
const run = crypto.randomUUID().slice(0, 8);

const latencies: number[] = [];
const lateness: number[] = [];
const idle: Connection[] = [];
const waiting: number[] = [];
const outstanding = new Set<number>();
let [next, open, failed] = [0, 0, 0];

const cpuBefore = cpuMs(Deno.pid);
const start = performance.now() + 100;
const dueAt = (i: number) => start + i * 1_000 / task.perSecond;

await new Promise<void>((resolve) => {
  const tick = () => {
    const now = performance.now();
    for (; next < total && dueAt(next) <= now; next++) {
      lateness.push(now - dueAt(next));
      outstanding.add(next);
      waiting.push(next);
    }
    serve();
    const over = next === total && (outstanding.size === 0 || now > dueAt(total) + PATIENCE_MS);
    if (over) resolve();
    else setTimeout(tick, 1);
  };
  tick();
});

const now = performance.now();
for (const i of outstanding) latencies.push(now - dueAt(i));
failed += outstanding.size;
latencies.sort((a, b) => a - b);
lateness.sort((a, b) => a - b);
const at = (values: number[], share: number) => values[Math.ceil(share * values.length) - 1] ?? 0;
const result: ArrivalResult = {
  requests: next,
  failed,
  p50Ms: at(latencies, 0.5),
  p99Ms: at(latencies, 0.99),
  maxMs: at(latencies, 1),
  lateMs: at(lateness, 0.99),
  cpuPercent: 100 * (cpuMs(Deno.pid) - cpuBefore) / (now - start),
};
console.log(JSON.stringify(result));
Deno.exit(0);

/** Hands what waits to connections that are free. */
function serve(): void {
  while (waiting.length > 0 && (idle.length > 0 || open < MAX_CONNECTIONS)) {
    if (idle.length === 0) open++;
    send(idle.pop() ?? new Connection(task, body), waiting.shift()!);
  }
}

async function send(connection: Connection, i: number): Promise<void> {
  try {
    if (await connection.exchange(`${run}-${String(i).padStart(8, "0")}`) !== 200) failed++;
    idle.push(connection);
  } catch {
    failed++;
    open--;
  }
  outstanding.delete(i);
  latencies.push(performance.now() - dueAt(i));
  serve();
}
