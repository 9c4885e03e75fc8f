import { checkOptions, oneOf, wholeNumber } from "./check_options.ts";
import { consoleLog, formatFor, type LogRecord, type LogSink } from "./log.ts";
import { withDeadline } from "./timeouts.ts";

/** Output that lines are written to. */
type Output = Pick<typeof Deno.stdout, "write" | "writeSync">;

/** Lines that were dropped in a row. */
interface Gap {
  count: number;
  readonly since: string;
}

/** Time for which lines gather: a write for each of them would take 25 µs instead of 1. */
const GATHER_MS = 5;

/** Most bytes that a pipe takes in one piece while others write to it (PIPE_BUF of Linux). */
const MAX_BATCH = 4_096;

/** Pause before a failed write is tried again: the disk was full, or the reader is gone. */
const RETRY_MS = 1_000;

/** Time after which a write counts as stalled: nobody reads. */
const STALLED_MS = 100;

/** Time for which the end of the process waits for a write in progress. */
const LAST_WRITE_MS = 20;

/**
 * Creates a log that writes each record to Deno's standard output, by default as one line of JSON, and
 * never blocks.
 * `console.log` and `writeSync` block the process, signals included, when a pipe is full and nobody reads
 * it.
 *
 * Lines gather for up to 5 ms, and for as long as nobody reads them or the disk is full. Beyond
 * `maxWaitingChars` they are dropped; once lines can be written again, `log lines dropped` gives their
 * number. Listeners to the console do not see the lines: Deno's telemetry, the log of Deno Deploy, a
 * debugger. On other runtimes than Deno the lines go to the console.
 *
 * @param options The output, the form of the records, and the number of characters that may wait.
 * @returns The log.
 * @throws {TypeError} If the options are not an object, or `format` is something else.
 * @throws {RangeError} If `maxWaitingChars` is not a positive whole number.
 *
 * @example
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { createStdoutLog } from "@org/edge-base/middleware";
 *
 * const stdout = createStdoutLog();
 * addEventListener("unload", stdout.end);
 * const app = createBaseApp({ name: "my-bot", logger: { log: stdout.log } });
 * await app.request("/health");
 * await stdout.drain(1_000); // before Deno.exit()
 * ```
 *
 * @category Log and telemetry
 */
export function createStdoutLog(options: {
  /**
   * Form of the records: `json`, one line each; `text`, to be read by people, with the stacks of errors on
   * lines of their own; or `auto`, which is `text` on a terminal. A terminal gets colours, unless
   * `NO_COLOR` is set.
   *
   * @default {"json"}
   */
  readonly format?: "json" | "text" | "auto" | undefined;
  /**
   * Most characters that wait while nobody reads the output. Lines beyond that are dropped and counted.
   *
   * @default {4_194_304} About 14,000 requests.
   */
  readonly maxWaitingChars?: number | undefined;
  /**
   * Output to write to. One without `isTerminal` is taken for a file or a pipe.
   *
   * @default {Deno.stdout}
   */
  readonly output?:
    | Pick<typeof Deno.stdout, "write" | "writeSync"> & { isTerminal?(): boolean }
    | undefined;
} = {}): {
  /** Log to send records to. */
  readonly log: LogSink;
  /**
   * Writes the waiting lines. Call it before the process ends.
   *
   * @param withinMs The longest wait for a slow reader, in milliseconds.
   * @returns A promise that resolves when nothing waits, nothing can be written, or the time is up.
   */
  readonly drain: (withinMs: number) => Promise<void>;
  /**
   * Writes the waiting lines at once, and each later line as it comes, unless the reader has stopped
   * reading. It is for the `unload` event, after which nothing can be written later.
   */
  readonly end: () => void;
} {
  checkOptions("create the log", options, {
    format: oneOf("json", "text", "auto"),
    maxWaitingChars: wholeNumber(),
    output: undefined,
  });
  const { maxWaitingChars = 4_194_304, format = "json" } = options;
  const output = options.output ?? globalThis.Deno?.stdout;
  if (!output) return { log: consoleLog(format), drain: () => Promise.resolve(), end: () => {} };
  const formatted = formatFor(format, output);
  const lines = new WaitingLines(maxWaitingChars, output, formatted);
  return {
    log: (record) => lines.add(`${formatted(record)}\n`),
    drain: (withinMs) => lines.drain(withinMs),
    end: () => lines.end(),
  };
}

/** Lines waiting to be written, in order, one batch at a time. */
class WaitingLines {
  readonly #maxWaitingChars: number;
  readonly #output: Output;
  readonly #format: (record: LogRecord) => string;
  readonly #encoder = new TextEncoder();
  #queue: (string | Gap)[] = [];
  #waiting = 0;
  /** Rest of the batch that is being written, or that could not be written. */
  #batch: Uint8Array | undefined;
  #writing: Promise<void> | undefined;
  #writingSince = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failed = false;
  #drains = false;
  #ended = false;

  constructor(maxWaitingChars: number, output: Output, format: (record: LogRecord) => string) {
    this.#maxWaitingChars = maxWaitingChars;
    this.#output = output;
    this.#format = format;
  }

  add(line: string): void {
    const last = this.#queue.at(-1);
    const isGap = typeof last === "object";
    // After a gap, lines wait for room for many of them: otherwise lines and gaps would alternate.
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
      // The writing thread ends with the process.
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

  /** Writes full batches, or everything while draining. The timer takes care of the rest. */
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
      // There is nowhere to report it.
    }
  }

  #wrote(length: number): void {
    this.#batch = length < this.#batch!.byteLength ? this.#batch!.subarray(length) : undefined;
  }

  /** Takes whole lines from the queue. */
  #take(): Uint8Array | undefined {
    let text = "";
    let taken = 0;
    for (const each of this.#queue) {
      const line = typeof each === "string" ? each : `${this.#format(recordOf(each))}\n`;
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

function recordOf({ count, since }: Gap): LogRecord {
  const time = new Date().toISOString();
  return { level: "warn", time, message: "log lines dropped", count, since };
}

/** Keeps a timer from holding the process open. Timers are numbers on Deno 2.5, and objects on 2.9. */
function unref(timer: unknown): void {
  if (typeof timer === "number") Deno.unrefTimer(timer);
  else (timer as { unref?(): void }).unref?.();
}
