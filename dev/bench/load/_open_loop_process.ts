/**
 * The open-loop generator, in a process of its own. Its argument is an `ArrivalTask` in JSON, its output
 * an `ArrivalResult`. It writes to TCP connections itself: `fetch` needs several times the CPU.
 */
import { cpuMs } from "../proc.ts";
import type { ArrivalResult, ArrivalTask } from "./open_loop.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1");

/** The length of all ids, so that a request's bytes are laid out once. */
const ID_LENGTH = 17;

/** Parts of a request beside the body. */
interface Target {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A connection that is kept open, with one request at a time. */
class Connection {
  readonly #port: number;
  readonly #request: Uint8Array<ArrayBuffer>;
  readonly #idAt: number;
  readonly #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(4_096);
  #connection: Deno.TcpConn | undefined;

  constructor({ port, path, headers }: Target, body: Uint8Array) {
    this.#port = port;
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${lines.join("")}` +
      `Content-Length: ${body.length}\r\nX-GitHub-Delivery: `;
    this.#idAt = head.length;
    const headEnd = this.#idAt + ID_LENGTH;
    this.#request = new Uint8Array(headEnd + 4 + body.length);
    encoder.encodeInto(head, this.#request);
    encoder.encodeInto("\r\n\r\n", this.#request.subarray(headEnd));
    this.#request.set(body, headEnd + 4);
  }

  /** Sends a delivery under an id, and tells the status of the answer. */
  async exchange(id: string): Promise<number> {
    this.#connection ??= await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    encoder.encodeInto(id, this.#request.subarray(this.#idAt, this.#idAt + ID_LENGTH));
    try {
      let written = 0;
      while (written < this.#request.length) {
        written += await this.#connection.write(this.#request.subarray(written));
      }
      return await this.#readStatus(this.#connection);
    } catch (error) {
      this.#connection.close();
      throw error;
    }
  }

  async #readStatus(connection: Deno.TcpConn): Promise<number> {
    let answer = "";
    for (;;) {
      const length = await connection.read(this.#buffer);
      if (length === null) throw new Error("The connection was closed");
      answer += decoder.decode(this.#buffer.subarray(0, length));
      const headEnd = answer.indexOf("\r\n\r\n");
      if (headEnd < 0) continue;
      if (isWhole(answer, headEnd)) return Number(answer.slice(9, 12));
    }
  }
}

/** Checks for the end of an answer: one that took long comes in chunks. */
function isWhole(answer: string, headEnd: number): boolean {
  const head = answer.slice(0, headEnd);
  if (/\r\ntransfer-encoding: chunked/i.test(head)) return answer.endsWith("\r\n0\r\n\r\n");
  const bodyLength = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
  return answer.length >= headEnd + 4 + bodyLength;
}

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
