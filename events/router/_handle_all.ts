import { writeLog } from "../../core/mod.ts";
import { textOf } from "../../core/text_of.ts";
import type { CommitEffects } from "../store/mod.ts";
import {
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  type LimitedContext,
  TIME_LIMIT,
  type WebhookEvent,
} from "../worker/event.ts";

/** A handler, and the key that its progress is noted by. */
export interface NamedHandler {
  /** Its name among all handlers: the same in each process. */
  readonly key: string;
  readonly handler: EventHandler;
  /** Its time limit, in milliseconds; undefined for the worker's. */
  readonly timeoutMs: number | undefined;
}

interface Failure {
  readonly key: string;
  readonly error: unknown;
}

/** Largest number of failed handlers that are named in an event's error. */
const MAX_REASONS = 10;

/** Length of the text about them: an event's record keeps 1,000 characters of an error. */
const MAX_REASONS_LENGTH = 900;

/** Runs the handlers of an event that have not succeeded yet, and notes those that succeed. */
export async function handleAll(
  handlers: readonly NamedHandler[],
  event: WebhookEvent,
  context: HandlerContext,
): Promise<void> {
  const unfinished = handlers.filter(({ key }) => !context.progress.includes(key));
  const signalOf = limiting(unfinished, context);
  const failures: Failure[] = [];
  let running = unfinished.length;
  await Promise.all(unfinished.map(async (named) => {
    const { key, handler } = named;
    const limited = signalOf(named);
    try {
      const effects = await run(handler, event, contextOf(key, context, limited));
      // The last one is noted by the event's settlement, which saves a commit.
      if (running > 1 || failures.length > 0) await context.checkpoint(key, effects);
      else if (effects) context.settleWith(effects);
    } catch (error) {
      failures.push({ key, error });
    }
    limited.end();
    running--;
  }));
  if (failures.length > 0) throw errorOf(failures, handlers.length);
}

/** The signal of a handler, its time limit for a router of its own, and what to call once it has ended. */
interface Limited {
  readonly signal: AbortSignal;
  readonly limit?: LimitedContext[typeof TIME_LIMIT];
  end(): void;
}

/**
 * Gives the attempt the longest of its handlers' time limits, and those with a shorter one a signal of their
 * own. A handler that is alone may be a router, whose handlers have limits as well.
 */
function limiting(
  handlers: readonly NamedHandler[],
  context: LimitedContext,
): (handler: NamedHandler) => Limited {
  const { signal, [TIME_LIMIT]: limit } = context;
  const end = () => {};
  if (!limit) return () => ({ signal, end });
  const limitOf = ({ timeoutMs = limit.ms }: NamedHandler) => timeoutMs;
  const longest = Math.max(...handlers.map(limitOf));
  if (handlers.length > 0 && longest !== limit.ms) limit.change(longest);
  const whole: Limited = handlers.length === 1
    ? { signal, end, limit: { ...limit, ms: longest } }
    : { signal, end };
  return (handler) =>
    limitOf(handler) < longest ? limited(handler, limitOf(handler), context) : whole;
}

function limited(
  { key }: NamedHandler,
  ms: number,
  { signal, log, [TIME_LIMIT]: limit }: LimitedContext,
): Limited {
  const own = new AbortController();
  const timeout = limit!.start(ms, () => {
    writeLog(log, "error", "handler still running", { handler: key, timeoutMs: ms });
    own.abort(new Error(`The handler has reached its time limit of ${ms} ms`));
  });
  return { signal: AbortSignal.any([signal, own.signal]), end: () => timeout.cancel() };
}

/** The context of one of several handlers, and the effects that it has asked for. */
interface OwnContext {
  readonly context: HandlerContext;
  readonly effects: readonly CommitEffects[];
  end(): void;
}

function contextOf(
  key: string,
  context: HandlerContext,
  { signal, limit }: Limited,
): OwnContext {
  const effects: CommitEffects[] = [];
  const prefix = `${key}/`;
  let ended = false;
  const own: LimitedContext = {
    ...(limit && { [TIME_LIMIT]: limit }),
    signal,
    log: context.log,
    kv: context.kv,
    settleWith: (each) => {
      if (ended) throw new TypeError("Cannot settle with effects: the handler has ended");
      effects.push(each);
    },
    progress: context.progress.filter((part) => part.startsWith(prefix)).map((part) =>
      part.slice(prefix.length)
    ),
    checkpoint: async (part, each) => {
      if (ended) throw new TypeError("Cannot note progress: the handler has ended");
      await context.checkpoint(prefix + part, each);
    },
  };
  return { context: own, effects, end: () => void (ended = true) };
}

/** Joins effects. A promise that one returns is a mistake: it is passed on, and refused there. */
function addAll(effects: readonly CommitEffects[]): CommitEffects {
  return (commit) => {
    for (const add of effects) {
      const result = add(commit);
      // Nobody would catch the error of a second promise.
      if (result instanceof Promise) return result;
    }
    return undefined;
  };
}

async function run(
  handler: EventHandler,
  event: WebhookEvent,
  { context, effects, end }: OwnContext,
): Promise<CommitEffects | undefined> {
  try {
    await handler(event, context);
  } finally {
    end();
  }
  // Effects, even empty ones, have an event settled in a commit of its own.
  return effects.length > 0 ? addAll(effects) : undefined;
}

/** Makes the error of the event, which is given up only if all its failed handlers give it up. */
function errorOf(failures: readonly Failure[], count: number): unknown {
  if (count === 1) return failures[0]!.error;
  const errors = failures.map(({ error }) => error);
  const message = `${failures.length} of ${count} handlers failed: ${reasonsOf(failures)}`;
  return errors.every((error) => error instanceof GiveUpError)
    ? new GiveUpError(message, { cause: errors[0] })
    : new AggregateError(errors, message);
}

function reasonsOf(failures: readonly Failure[]): string {
  const named = failures.slice(0, MAX_REASONS);
  const length = Math.floor(MAX_REASONS_LENGTH / named.length);
  const reasons = named.map(({ key, error }) => {
    const reason = `${key}: ${textOf(error)}`;
    return reason.length > length ? `${reason.slice(0, length - 1)}…` : reason;
  });
  const more = failures.length - named.length;
  return [...reasons, ...more > 0 ? [`and ${more} more`] : []].join("; ");
}
