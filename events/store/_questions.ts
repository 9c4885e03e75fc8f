import { untilDone } from "../../core/tries.ts";
import { readToWake, wakingOf } from "./_waits.ts";
import type { Engine } from "./engine.ts";
import { isOpen } from "./event_record.ts";
import {
  type Answered,
  type AnswerResult,
  isQuestion,
  type Question,
  questionCell,
  questionKey,
  QUESTIONS,
  waitNameOf,
} from "./questions.ts";
import { nameOfCell, type StoreCore } from "./store_core.ts";
import { wakeOf } from "./waits.ts";

/** An answer that somebody gives. */
interface Given {
  readonly name: unknown;
  readonly value: unknown;
  /** The id of the sender; undefined if that is not known. */
  readonly by?: number | undefined;
  /** The id of the event that brings it; undefined for none. */
  readonly eventId?: string | undefined;
  /** The person or the tool that gives it instead of a sender. */
  readonly operator?: string | undefined;
}

/** Lists the questions, with their names. One that cannot be read is undefined. */
export async function* listQuestions(
  { engine }: StoreCore,
): AsyncGenerator<{ readonly name: string; readonly question: Question | undefined }> {
  for await (const cell of engine.list(QUESTIONS)) {
    const question = isQuestion(cell.value) ? cell.value : undefined;
    yield { name: nameOfCell(cell, QUESTIONS), question };
  }
}

/** Answers a question, and wakes its event, in one commit: of several answers at the same time one is taken. */
export async function answerQuestion(core: StoreCore, given: Given): Promise<AnswerResult> {
  const { name, value, by, eventId = "", operator } = given;
  // A button of somebody else has any text, or none.
  if (!isName(name)) return { outcome: "unknown" };
  const waitName = waitNameOf(name);
  // As a member, what JSON does not have would be left out.
  wakeOf(waitName, value);
  const wake = { ...wakeOf(waitName, { value, by } satisfies Answered), by: operator };
  return await untilDone(async () => {
    const { engine } = core;
    const [cell] = await engine.cells([questionKey(name)]);
    const question = isQuestion(cell!.value) ? cell!.value : undefined;
    const result = outcomeOf(question, given);
    if (result.outcome !== "taken" || question!.answer) return result;
    if (!await isWaitedFor(engine, question!, wake.name)) return { outcome: "over" };
    const { result: { outcome }, ...waking } = wakingOf(
      core,
      await readToWake(core, wake.name),
      wake,
    );
    // An answer from another store has woken it.
    if (outcome === "late") return { outcome };
    const now = engine.now();
    const after = { ...question!, answer: { by, at: now, eventId } };
    const answered = { ...questionCell(name, after, now), version: cell!.version };
    const cells = [answered, ...waking.cells];
    return (await engine.apply({ ...waking, cells, urgency: "work" })).ok ? result : undefined;
  });
}

/** Checks for what can be the name of a question, see `ownName`. */
function isName(name: unknown): name is string {
  return typeof name === "string" && /^[0-9A-Za-z]{22}$/.test(name);
}

/** Checks whether the run of a question's event is open, and has had neither an answer nor the end of its time. */
async function isWaitedFor(
  engine: Engine,
  { eventId, run }: Question,
  waitName: string,
): Promise<boolean> {
  const [found] = await engine.get([eventId]);
  if (!found?.record || !isOpen(found.record) || found.record.keyRun !== run) return false;
  return !found.record.woken?.some(({ name }) => name === waitName);
}

function outcomeOf(
  question: Question | undefined,
  { by: sender, eventId }: Given,
): AnswerResult {
  if (!question) return { outcome: "unknown" };
  const { by, answer } = question;
  if (by && !by.includes(sender!)) return { outcome: "refused" };
  // An earlier attempt of the same event has answered.
  if (answer && eventId !== undefined && answer.eventId === eventId) return { outcome: "taken" };
  if (answer) return { outcome: "late", by: answer.by, at: answer.at };
  return { outcome: "taken" };
}
