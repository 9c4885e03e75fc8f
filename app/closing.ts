import { type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";

/** Longest wait for a resource to be closed. */
const CLOSE_TIMEOUT_MS = 1_000;

/** Functions that close what an app has opened, in the opposite order. */
export class Closing {
  readonly #log: LogSink;
  readonly #closers: (() => unknown)[] = [];
  #running: Promise<void> | undefined;

  /** @param log Told what could not be closed. */
  constructor(log: LogSink) {
    this.#log = log;
  }

  /** Adds a function. If everything is closed already, it is called at once. */
  add(close: () => unknown): void {
    this.#closers.push(close);
    if (this.#running) this.#running = this.#running.then(() => this.#closeAll());
  }

  /** Closes everything, once. What cannot be closed does not keep the others from it. */
  run(): Promise<void> {
    return this.#running ??= this.#closeAll();
  }

  async #closeAll(): Promise<void> {
    while (this.#closers.length > 0) {
      const close = this.#closers.pop()!;
      try {
        await withDeadline(Promise.resolve(close()), CLOSE_TIMEOUT_MS);
      } catch (error) {
        writeLog(this.#log, "error", "resource not closed", { error });
      }
    }
  }
}
