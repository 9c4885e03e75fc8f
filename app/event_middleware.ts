import { type LogSink, writeLog } from "../core/mod.ts";
import type { HandlerContext, WebhookEvent } from "../events/mod.ts";
import { NoHandler, ParkedError, PutOffUnbegun, RetryLaterError } from "../events/worker/event.ts";

/**
 * Parts of a running app that its own code works with.
 *
 * @typeParam TEnv The values of its variables.
 * @typeParam TResources The resources that it has opened.
 * @category Apps
 */
export interface AppParts<TEnv extends object = object, TResources = unknown> {
  /** Values of the app's variables. */
  readonly env: TEnv;
  /** Result of {@linkcode AppDefinition.resources}. */
  readonly resources: TResources;
}

/** Remedy for an event that a middleware has kept from the handlers, for the log. */
const NEXT = "a middleware has not called next(): call it, unless the event is to be left out";

/**
 * Function around the handlers of an event. The event is handled once it has returned; if it throws, the
 * event is tried again. If it returns without having called `next`, the event is ignored, like one that no
 * handler is for. If it has failed or waited before, it dies, and keeps its payload.
 *
 * Of a handler's context it gets what does not write: effects, events and states belong to one handler each, and it
 * runs around all of them.
 *
 * @typeParam TParts The app's parts.
 * @typeParam TReader The reader of the store, `db`.
 * @category Apps
 */
export type EventMiddleware<TParts extends AppParts = AppParts, TReader = unknown> = (
  event: WebhookEvent,
  context: Pick<HandlerContext<unknown, TReader>, "signal" | "log" | "db"> & TParts,
  next: () => Promise<void>,
) => unknown;

/**
 * Runs an event's handlers within the middleware. It ends when all of them have, awaited or not: a
 * middleware that forgets to wait for `next()` must not have a failed event settled as done.
 *
 * @param middleware The middleware, the outermost first.
 * @param event The event.
 * @param context The context of the middleware.
 * @param handle The function that runs the handlers.
 * @throws {NoHandler} If a middleware has not called `next()`.
 * @throws {unknown} If the handlers fail and no middleware has waited for that and caught it, or if a
 * middleware fails.
 */
export async function runAround<TParts extends AppParts, TReader>(
  middleware: readonly EventMiddleware<TParts, TReader>[],
  event: WebhookEvent,
  context: Parameters<EventMiddleware<TParts, TReader>>[1],
  handle: () => unknown,
): Promise<void> {
  let ignored: NoHandler | undefined;
  let parked: ParkedError | undefined;
  let isBegun = false;
  const nexts: Next[] = [];
  const call = async (at: number): Promise<void> => {
    const around = middleware[at];
    if (around) {
      const next = new Next(() => call(at + 1), context.log);
      nexts.push(next);
      try {
        return void await around(event, context, next.begin);
      } finally {
        next.close();
      }
    }
    isBegun = true;
    try {
      await handle();
    } catch (error) {
      // Middleware must not report these as failures: the event has no handler, or has to wait.
      if (error instanceof NoHandler && !error.isStrict) ignored = error;
      else if (error instanceof ParkedError) parked = error;
      else throw error;
    }
  };
  const ended = await Promise.allSettled([call(0)]);
  // In this order: an inner one may begin while an outer one that was not awaited goes on.
  for (const next of nexts) ended.push(...await Promise.allSettled([next.end()]));
  const failed = ended.find((each) => each.status === "rejected");
  if (failed) {
    const { reason } = failed;
    // Perhaps the event has no handler: then it is ignored later, and not given up.
    const isUnbegun = reason instanceof RetryLaterError && (!isBegun || ignored);
    throw isUnbegun ? new PutOffUnbegun(reason) : reason;
  }
  if (ignored ?? parked) throw ignored ?? parked;
  if (isBegun) return;
  writeLog(context.log, "info", "event not handed on", { remedy: NEXT });
  throw new NoHandler(event.type, { reason: "a middleware has not called next()" });
}

/** The rest of a chain of middleware, which one of them begins. */
class Next {
  readonly #run: () => Promise<void>;
  readonly #log: LogSink;
  #running: Promise<void> | undefined;
  #misuse: TypeError | undefined;
  /** Somebody has attached to its failure. */
  #isCaught = false;
  #isSettled = false;
  /** It was settled before the middleware that has begun it was. */
  #isInTime = false;
  #isOver = false;

  constructor(run: () => Promise<void>, log: LogSink) {
    this.#run = run;
    this.#log = log;
  }

  /** Begins it, once: handlers must not run twice at the same time. */
  readonly begin = (): Promise<void> => {
    if (this.#running || this.#isOver) {
      const how = this.#running ? "twice" : "after it had returned";
      this.#misuse ??= new TypeError(`The middleware has called next() ${how}`);
      if (this.#isOver) {
        writeLog(this.#log, "error", "next() called too late", { error: this.#misuse });
      }
      return this.#noting(Promise.reject(this.#misuse));
    }
    const settled = () => void (this.#isSettled = true);
    this.#running = this.#run();
    this.#running.then(settled, settled);
    return this.#noting(this.#running);
  };

  /** Notes that the middleware has ended. */
  close(): void {
    this.#isInTime = this.#isSettled;
  }

  /** Notes whether the promise's error is caught. If it is not, it must not end the process. */
  #noting(running: Promise<void>): Promise<void> {
    const quiet = <T>(promise: Promise<T>): Promise<T> => {
      promise.catch(() => {});
      return promise;
    };
    quiet(running);
    // Not a promise: `await` would not call its `then`.
    return {
      then: (onEnd, onError) => {
        if (onError) this.#isCaught = true;
        return quiet(running.then(onEnd, onError));
      },
      catch: (onError) => {
        if (onError) this.#isCaught = true;
        return quiet(running.catch(onError));
      },
      finally: (onEnd) => quiet(running.finally(onEnd)),
      [Symbol.toStringTag]: "Promise",
    };
  }

  /**
   * Ends it: it cannot begin any more. It waits for what has begun, and rejects if that has failed and the
   * middleware has not waited for it and caught that.
   */
  async end(): Promise<void> {
    this.#isOver = true;
    try {
      await this.#running;
    } catch (error) {
      if (!this.#isCaught || !this.#isInTime) throw error;
    }
    if (this.#misuse) throw this.#misuse;
  }
}
