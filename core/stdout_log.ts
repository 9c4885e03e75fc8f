import { checkInteger } from "./check_options.ts";
import { withDeadline } from "./deadline.ts";
import { consoleSink, formatLogLine, type LogSink } from "./log.ts";

/** Options of {@linkcode createStdoutLog}. */
export interface StdoutLogOptions {
  /**
   * How many characters of lines wait while nobody reads them. What comes then is counted.
   *
   * @default {4_194_304} About 14,000 requests.
   */
  readonly maxWaitingChars?: number | undefined;
  /**
   * What is written to.
   *
   * @default {Deno.stdout}
   */
  readonly output?: LogOutput | undefined;
}

/** What a log is written to, such as `Deno.stdout`. */
export interface LogOutput {
  /**
   * Writes without blocking.
   *
   * @param bytes What to write.
   * @returns How many of the bytes were written.
   */
  write(bytes: Uint8Array): Promise<number>;
  /**
   * Writes at once.
   *
   * @param bytes What to write.
   * @returns How many of the bytes were written.
   */
  writeSync(bytes: Uint8Array): number;
}

/** A log on the standard output that never waits for its reader. */
export interface StdoutLog {
  /** Where to send records. */
  readonly log: LogSink;
  /**
   * Writes what waits. Call it before the process ends.
   *
   * @param withinMs For how long it may take, in milliseconds. A reader that stands still gets no longer.
   * @returns A promise that resolves once nothing waits, nothing can be written, or the time is up.
   */
  readonly drain: (withinMs: number) => Promise<void>;
  /**
   * Writes what waits at once, and from now on each line, unless the reader stands still: for the `unload`
   * event, after which nothing is written any more.
   */
  readonly end: () => void;
}

/** Lines that were dropped in one go. */
interface Gap {
  count: number;
  readonly since: string;
}

/** For how long lines gather: a write of its own for each would take 25 µs in the place of 1. */
const GATHER_MS = 5;

/** A pipe takes this much whole, also where others write to it (PIPE_BUF of Linux). */
const MAX_BATCH = 4_096;

/** How soon what could not be written is tried again: the disk was full, or the reader is gone. */
const RETRY_MS = 1_000;

/** A write that takes longer has no reader. */
const STALLED_MS = 100;

/** For how long the end of the process waits for a write that is under way. */
const LAST_WRITE_MS = 20;

/**
 * Creates a log that writes each record as one line of JSON to Deno's standard output, and never blocks:
 * `console.log` and `writeSync` stand still, signals included, once a pipe is full that nobody reads.
 *
 * Lines gather for up to 5 ms, and for as long as nobody reads them or the disk is full; past
 * `maxWaitingChars` they are dropped, and the line `log lines dropped` says how many once it flows again. What
 * listens to the console does not see them: Deno's telemetry, the log of Deno Deploy, a debugger.
 * Elsewhere than on Deno they go to the console.
 *
 * @param options How much may wait.
 * @returns The log.
 * @throws {RangeError} If `maxWaitingChars` is not a positive whole number.
 *
 * @example
 * ```ts
 * import { createBaseApp, createStdoutLog } from "@org/edge-base";
 *
 * const stdout = createStdoutLog();
 * addEventListener("unload", stdout.end);
 * const app = createBaseApp({ name: "my-bot", logger: { log: stdout.log } });
 * await app.request("/health");
 * await stdout.drain(1_000); // before Deno.exit()
 * ```
 */
export function createStdoutLog(options: StdoutLogOptions = {}): StdoutLog {
  const { maxWaitingChars = 4_194_304, output = globalThis.Deno?.stdout } = options;
  const max = Number.MAX_SAFE_INTEGER;
  checkInteger("create the log", "maxWaitingChars", maxWaitingChars, { max });
  if (!output) return { log: consoleSink, drain: () => Promise.resolve(), end: () => {} };
  const lines = new WaitingLines(maxWaitingChars, output);
  return {
    log: (record) => lines.add(`${formatLogLine(record)}\n`),
    drain: (withinMs) => lines.drain(withinMs),
    end: () => lines.end(),
  };
}

/** Lines that are to be written, in order, one batch at a time. */
class WaitingLines {
  readonly #maxWaitingChars: number;
  readonly #output: LogOutput;
  readonly #encoder = new TextEncoder();
  #queue: (string | Gap)[] = [];
  #waiting = 0;
  /** What is left of the batch that is being written, or could not be. */
  #batch: Uint8Array | undefined;
  #writing: Promise<void> | undefined;
  #writingSince = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failed = false;
  #drains = false;
  #ended = false;

  constructor(maxWaitingChars: number, output: LogOutput) {
    this.#maxWaitingChars = maxWaitingChars;
    this.#output = output;
  }

  add(line: string): void {
    const last = this.#queue.at(-1);
    const isGap = typeof last === "object";
    // Behind a gap only once there is room for many: lines and gaps would take turns.
    if (
      this.#waiting + line.length <= (isGap ? this.#maxWaitingChars / 2 : this.#maxWaitingChars)
    ) {
      this.#queue.push(line);
      this.#waiting += line.length;
    } else if (isGap) {
      last.count++;
    } else {
      this.#queue.push({ count: 1, since: new Date().toISOString() });
    }
    if (this.#ended) this.#writeNow();
    else if (!this.#writing) this.#timer ??= setTimeout(() => this.#write(), GATHER_MS);
  }

  async drain(withinMs: number): Promise<void> {
    this.#drains = true;
    const writeAll = async () => {
      do await this.#write(); while (this.#drains && this.#hasMore && !this.#failed);
    };
    await withDeadline(writeAll(), withinMs).catch(() => {});
    this.#drains = false;
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    if (this.#writing && !this.#isStalled()) {
      // The thread that writes ends with the process.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LAST_WRITE_MS);
      this.#batch = undefined;
    }
    this.#writeNow();
  }

  get #hasMore(): boolean {
    return this.#queue.length > 0 || this.#batch !== undefined;
  }

  #isStalled(): boolean {
    return this.#writing !== undefined && performance.now() - this.#writingSince > STALLED_MS;
  }

  /** Writes what makes a batch, or while draining all; a rest is left to the next turn of the timer. */
  #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (!this.#hasMore) return;
      this.#timer = setTimeout(() => this.#write(), this.#failed ? RETRY_MS : GATHER_MS);
      if (this.#failed) unref(this.#timer);
    });
  }

  async #writeAll(): Promise<void> {
    try {
      do {
        this.#batch ??= this.#take();
        if (!this.#batch) break;
        this.#writingSince = performance.now();
        this.#wrote(await this.#output.write(this.#batch));
      } while (this.#batch || this.#drains || this.#waiting >= MAX_BATCH);
      this.#failed = false;
    } catch {
      this.#failed = true;
    }
  }

  #writeNow(): void {
    if (this.#isStalled()) return;
    try {
      for (;;) {
        this.#batch ??= this.#take();
        if (!this.#batch) return;
        this.#wrote(this.#output.writeSync(this.#batch));
      }
    } catch {
      // There is nowhere to tell it.
    }
  }

  #wrote(length: number): void {
    this.#batch = length < this.#batch!.byteLength ? this.#batch!.subarray(length) : undefined;
  }

  /** Takes whole lines out of the queue. */
  #take(): Uint8Array | undefined {
    let text = "";
    let taken = 0;
    for (const each of this.#queue) {
      const line = typeof each === "string" ? each : lineOf(each);
      if (taken > 0 && text.length + line.length > MAX_BATCH) break;
      text += line;
      taken++;
      if (typeof each === "string") this.#waiting -= line.length;
    }
    if (taken === 0) return undefined;
    this.#queue = this.#queue.slice(taken);
    return this.#encoder.encode(text);
  }
}

function lineOf({ count, since }: Gap): string {
  const time = new Date().toISOString();
  return `${formatLogLine({ level: "warn", time, message: "log lines dropped", count, since })}\n`;
}

/** Lets a process end that does nothing else. Timers are numbers on Deno 2.5, and objects on 2.9. */
function unref(timer: unknown): void {
  if (typeof timer === "number") Deno.unrefTimer(timer);
  else (timer as { unref?(): void }).unref?.();
}
