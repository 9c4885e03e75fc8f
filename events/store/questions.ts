import { isInteger, isText, isTime, listOf, orNone, shape } from "../../core/shape.ts";
import { untilDone } from "../../core/tries.ts";
import { wakeChange } from "./_waits.ts";
import type { CellChange, CellKey } from "./engine.ts";
import { isOpen } from "./event_record.ts";
import { nameOfCell, type StoreCore } from "./store_core.ts";
import { wakeOf } from "./waits.ts";

/** Kind of the cells. */
const QUESTION = "question";

/** Beginning of the names that questions are waited for by. */
const ASK = "ask/";

/** Time for which a question is remembered after its time has passed, in milliseconds: 30 days. */
const REMEMBERED_MS = 2_592_000_000;

/**
 * A question that an event waits for, or has waited for.
 *
 * @category Moving events
 */
export interface Question {
  /** The id of the event. */
  readonly eventId: string;
  /** The ids of the senders who may answer it; undefined for anybody. */
  readonly by?: readonly number[] | undefined;
  /** The time until which it can be answered, milliseconds since the epoch. */
  readonly until: number;
  /** Its answer. */
  readonly answer?: {
    /** The id of the sender who has given it; undefined if that is not known. */
    readonly by?: number | undefined;
    /** The time, milliseconds since the epoch. */
    readonly at: number;
    /** The id of the event that has brought it. */
    readonly eventId: string;
  } | undefined;
}

/** A value that a question was answered with, as its name is woken. */
export interface Answered {
  readonly value?: unknown;
  readonly by?: number | undefined;
}

/** An answer that somebody gives. */
interface Given {
  readonly name: string;
  readonly value: unknown;
  /** The id of the sender; undefined if that is not known. */
  readonly by?: number | undefined;
  /** The id of the event that brings it; undefined for none. */
  readonly eventId?: string | undefined;
}

/**
 * What has become of an answer.
 *
 * @category Flows
 */
export interface AnswerResult {
  /**
   * - `taken`: the event that asks gets it.
   * - `refused`: the sender may not answer.
   * - `late`: the question was answered before, perhaps by a second press of the same person.
   * - `over`: its time has passed, or its event was cancelled or has died.
   * - `unknown`: there is no such question, or it was forgotten 30 days after its time.
   */
  readonly outcome: "taken" | "refused" | "late" | "over" | "unknown";
  /** For `late`: the id of the sender who has answered. */
  readonly by?: number | undefined;
  /** For `late`: the time of the answer, milliseconds since the epoch. */
  readonly at?: number | undefined;
}

/** Checks whether a value is a question. */
export const isQuestion = shape<Question>({
  eventId: isText,
  by: orNone(listOf(isInteger)),
  until: isTime,
  answer: orNone(
    shape<NonNullable<Question["answer"]>>({ by: orNone(isInteger), at: isTime, eventId: isText }),
  ),
});

/** Makes the change of the cell of a question that is asked. */
export function questionCell(name: string, question: Question, now: number): CellChange {
  const forMs = Math.max(0, question.until - now) + REMEMBERED_MS;
  return { key: keyOf(name), after: question, forMs };
}

/** Lists the questions, with their names. One that cannot be read is undefined. */
export async function* listQuestions(
  { engine }: StoreCore,
): AsyncGenerator<{ readonly name: string; readonly question: Question | undefined }> {
  for await (const cell of engine.list([QUESTION])) {
    const question = isQuestion(cell.value) ? cell.value : undefined;
    yield { name: nameOfCell(cell, [QUESTION]), question };
  }
}

/** Makes the name that the event of a question waits for. */
export function waitNameOf(name: string): string {
  return ASK + name;
}

/** Answers a question, and wakes its event, in one commit: of several answers at the same time one is taken. */
export async function answerQuestion(core: StoreCore, given: Given): Promise<AnswerResult> {
  const { name, value, by, eventId = "" } = given;
  const wake = wakeOf(waitNameOf(name), { value, by } satisfies Answered);
  return await untilDone(async () => {
    const { engine } = core;
    const [cell] = await engine.cells([keyOf(name)]);
    const question = isQuestion(cell!.value) ? cell!.value : undefined;
    const now = engine.now();
    const result = outcomeOf(question, given, now);
    if (result.outcome !== "taken" || question!.answer) return result;
    const [asking] = await engine.get([question!.eventId]);
    if (!asking?.record || !isOpen(asking.record)) return { outcome: "over" };
    const after = { ...question!, answer: { by, at: now, eventId } };
    const waking = await wakeChange(core, [wake]);
    const applied = await engine.apply({
      ...waking,
      cells: [{ ...questionCell(name, after, now), version: cell!.version }, ...waking.cells],
      urgency: "work",
    });
    return applied.ok ? result : undefined;
  });
}

function outcomeOf(
  question: Question | undefined,
  { by: sender, eventId }: Given,
  now: number,
): AnswerResult {
  if (!question) return { outcome: "unknown" };
  const { by, answer, until } = question;
  if (by && !by.includes(sender!)) return { outcome: "refused" };
  // An earlier attempt of the same event has answered.
  if (answer && eventId !== undefined && answer.eventId === eventId) return { outcome: "taken" };
  if (answer) return { outcome: "late", by: answer.by, at: answer.at };
  return { outcome: now > until ? "over" : "taken" };
}

function keyOf(name: string): CellKey {
  return [QUESTION, name];
}
