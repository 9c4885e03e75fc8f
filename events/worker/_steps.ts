import { met } from "../../core/check_options.ts";
import type { CellChange } from "../store/engine.ts";
import { NoRoomError } from "../store/settlement.ts";
import { resultOf } from "../store/step_result.ts";
import type { LeasedProgress } from "./_leased_progress.ts";
import { GiveUpError, RetryLaterError } from "./event.ts";
import { NotDoneError, type StepContext, type StepOptions } from "./step.ts";

/** A step that a handler takes. */
interface Step<T> {
  readonly name: string;
  /** Its name in the record, with that of its handler in front. */
  readonly key: string;
  readonly fn: (context: StepContext) => T | Promise<T>;
  readonly options: StepOptions<T> | undefined;
  /** Cells that are stored with the note that it begins. */
  readonly cells?: readonly CellChange[] | undefined;
}

/** The run of a step: it collects what the step adds, and stores that with the result. */
interface StepRun {
  readonly limits: { readonly signal: AbortSignal };
  runStep(call: () => unknown): Promise<void>;
  stepContext(): StepContext;
  noteStep(json: string | undefined, keep: boolean | undefined): Promise<void>;
}

/** Finding about a step that has begun in an earlier attempt. */
type Found = { readonly value: unknown } | "not happened";

/**
 * Takes a step, or returns the result that an earlier attempt has stored.
 *
 * @param step The step.
 * @param run Its run, which collects what it adds.
 * @param progress The changes of the event's record.
 * @returns The result, as its JSON has it: the same in each attempt.
 */
export async function takeStep<T>(
  step: Step<T>,
  run: StepRun,
  progress: LeasedProgress,
): Promise<T> {
  const { key, options: { unknown } = {} } = step;
  const known = progress.step(key);
  if (known && !known.isBegun) {
    const json = await progress.result(key);
    if (json !== null) return valueOf(json) as T;
    // Its result is not kept any more. A step that is noted would not be stored again.
    await progress.note({ part: { is: "not_begun", name: key } });
  }
  const found = known?.isBegun ? await lookFor(step, run) : "not happened";
  if (found !== "not happened") return await stored(step, found.value, run);
  if (unknown !== undefined && !known?.isBegun) {
    await progress.note({ part: { is: "begun", name: key }, added: { cells: step.cells } });
  }
  let value: T | undefined;
  try {
    await run.runStep(async () => value = await step.fn(run.stepContext()));
  } catch (error) {
    if (!(error instanceof NotDoneError)) throw error;
    if (unknown !== undefined) await progress.note({ part: { is: "not_begun", name: key } });
    const { message, afterMs } = error;
    throw afterMs === undefined ? error : new RetryLaterError(message, { afterMs, cause: error });
  }
  return await stored(step, value, run);
}

/** Finds out, as the step says, whether it has happened in an earlier attempt. */
async function lookFor<T>(
  { name, options: { unknown } = {} }: Step<T>,
  run: StepRun,
): Promise<Found> {
  if (unknown === "skip") return { value: undefined };
  if (unknown === "fail") throw new GiveUpError(`unknown outcome of step '${name}'`);
  if (typeof unknown !== "function") return "not happened";
  const value = await unknown({ signal: run.limits.signal });
  return value === undefined ? "not happened" : { value };
}

/** Stores the result of a step, and what the step has added. */
async function stored<T>(
  { name, options: { keep } = {} }: Step<T>,
  value: unknown,
  run: StepRun,
): Promise<T> {
  const json = jsonOf(name, value);
  try {
    await run.noteStep(json, keep);
  } catch (error) {
    // It would be paid for in vain again.
    throw error instanceof NoRoomError ? new GiveUpError(error.message, { cause: error }) : error;
  }
  return valueOf(json) as T;
}

/** Checks whether a value can be the result of a step. */
export function canBeKept(value: unknown): boolean {
  return "json" in resultOf(value);
}

function jsonOf(name: string, value: unknown): string | undefined {
  const result = resultOf(value);
  if ("json" in result) return result.json;
  // Each attempt would do the work again, and pay for it.
  throw new GiveUpError(`Cannot store the step ${met(name)}: ${result.flaw}`);
}

function valueOf(json: string | undefined): unknown {
  return json === undefined ? undefined : JSON.parse(json);
}
