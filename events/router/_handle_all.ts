import {
  type CommitEffects,
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  type WebhookEvent,
} from "../mod.ts";
import { textOf } from "../../core/text_of.ts";

/** A handler, and what its progress is noted by. */
export interface NamedHandler {
  /** Its name among all handlers: the same in each process. */
  readonly key: string;
  readonly handler: EventHandler;
}

interface Failure {
  readonly key: string;
  readonly error: unknown;
}

/** How many handlers that have failed are named in an event's error. */
const MAX_REASONS = 10;

/** How much is told of them: an event's record keeps 1,000 characters of an error. */
const MAX_REASONS_LENGTH = 900;

/** Runs the handlers of an event that have not succeeded yet, and notes which of them have. */
export async function handleAll(
  handlers: readonly NamedHandler[],
  event: WebhookEvent,
  context: HandlerContext,
): Promise<void> {
  const open = handlers.filter(({ key }) => !context.progress.includes(key));
  const failures: Failure[] = [];
  let running = open.length;
  await Promise.all(open.map(async ({ key, handler }) => {
    try {
      const effects = await run(handler, event, contextOf(key, context));
      // The last one is noted by the event's settlement, which spares a commit.
      if (running > 1 || failures.length > 0) await context.checkpoint(key, effects);
      else if (effects) context.settleWith(effects);
    } catch (error) {
      failures.push({ key, error });
    }
    running--;
  }));
  if (failures.length > 0) throw errorOf(failures, handlers.length);
}

/** The context of one of several handlers, and the effects that it wants to be committed. */
interface OwnContext {
  readonly context: HandlerContext;
  readonly effects: readonly CommitEffects[];
  end(): void;
}

function contextOf(key: string, context: HandlerContext): OwnContext {
  const effects: CommitEffects[] = [];
  const prefix = `${key}/`;
  let ended = false;
  const own: HandlerContext = {
    signal: context.signal,
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

/** All effects as one. A promise is an error of the one that returns it: it is handed on, and refused. */
function addAll(effects: readonly CommitEffects[]): CommitEffects {
  return (commit) => {
    for (const add of effects) {
      const result = add(commit);
      // Of a second promise nobody would catch the error.
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
  // With effects, be they none, an event is settled in a commit of its own.
  return effects.length > 0 ? addAll(effects) : undefined;
}

/** What the event fails with: it is given up only if all its failed handlers give it up. */
function errorOf(failures: readonly Failure[], count: number): unknown {
  if (count === 1) return failures[0]!.error;
  const errors = failures.map(({ error }) => error);
  const message = `${failures.length} of ${count} handlers failed: ${reasonsOf(failures)}`;
  return errors.every((error) => error instanceof GiveUpError)
    ? new GiveUpError(message, { cause: errors[0] })
    : new AggregateError(errors, message);
}

function reasonsOf(failures: readonly Failure[]): string {
  const told = failures.slice(0, MAX_REASONS);
  const length = Math.floor(MAX_REASONS_LENGTH / told.length);
  const reasons = told.map(({ key, error }) => {
    const reason = `${key}: ${textOf(error)}`;
    return reason.length > length ? `${reason.slice(0, length - 1)}…` : reason;
  });
  const more = failures.length - told.length;
  return [...reasons, ...more > 0 ? [`and ${more} more`] : []].join("; ");
}
