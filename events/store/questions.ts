import { met } from "../../core/check_options.ts";
import { isInteger, isText, isTime, listOf, orNone, shape } from "../../core/shape.ts";
import type { CellChange, CellKey } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import { ownName, type Wake, wakeOf } from "./waits.ts";

/** Beginning of the keys of the cells. */
export const QUESTIONS: CellKey = ["question"];

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
  /** The number of the event's run: one that begins anew asks anew, by another name. Undefined for the first one. */
  readonly run?: number | undefined;
  /** The ids of the senders who may answer it; undefined for anybody. */
  readonly by?: readonly number[] | undefined;
  /** The time until which its event waits, if it was sent at once, milliseconds since the epoch. */
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

/**
 * Fate of an answer.
 *
 * @category Flows
 */
export interface AnswerResult {
  /**
   * - `taken`: the event that asks gets it.
   * - `refused`: the sender may not answer.
   * - `late`: the question was answered before, perhaps by a second press of the same person.
   * - `over`: its time has passed, or its event was cancelled, has died or was begun anew.
   * - `unknown`: there is no such question, or it was forgotten 30 days after its time.
   */
  readonly outcome: "taken" | "refused" | "late" | "over" | "unknown";
  /** Id of the sender who has answered, of a `late` answer. */
  readonly by?: number | undefined;
  /** Time of the earlier answer, of a `late` one, milliseconds since the epoch. */
  readonly at?: number | undefined;
}

/** Checks whether a value is a question. */
export const isQuestion = shape<Question>({
  eventId: isText,
  run: orNone(isInteger),
  by: orNone(listOf(isInteger)),
  until: isTime,
  answer: orNone(
    shape<NonNullable<Question["answer"]>>({ by: orNone(isInteger), at: isTime, eventId: isText }),
  ),
});

/** Makes the change of the cell of a question that is asked. */
export function questionCell(name: string, question: Question, now: number): CellChange {
  const forMs = Math.max(0, question.until - now) + REMEMBERED_MS;
  return { key: questionKey(name), after: question, forMs };
}

/** Makes the name that the event of a question waits for. */
export function waitNameOf(name: string): string {
  return ASK + name;
}

/** Takes the name of a question out of the name that an event waits for; undefined if that is none. */
export function questionNameOf(waitName: string | undefined): string | undefined {
  return waitName?.startsWith(ASK) ? waitName.slice(ASK.length) : undefined;
}

/**
 * Refuses the name that a question is waited for by: who answers it is checked.
 *
 * @param doing The action, for the message.
 * @param name The name.
 * @throws {TypeError} If it is one.
 */
export function checkNoQuestion(doing: string, name: unknown): void {
  const question = typeof name === "string" ? questionNameOf(name) : undefined;
  if (question === undefined) return;
  throw new TypeError(
    `Cannot ${doing} ${met(name)}: names that begin with ${ASK} are those of questions. ` +
      "Use ask to ask one, and answer (events answer) with the name behind it to answer it",
  );
}

/**
 * Checks what a handler, a route or a person wakes, and writes its value as JSON, see {@linkcode wakeOf}.
 *
 * @param name The name.
 * @param value The value.
 * @returns The name and the value.
 * @throws {TypeError} If the name is that of a question or something else, or the value cannot be written as JSON.
 * @throws {RangeError} If the value is too large.
 */
export function givenWakeOf(name: string, value: unknown): Wake {
  checkNoQuestion("wake", name);
  return wakeOf(name, value);
}

/**
 * Finds the step by which an event has asked a question: `on(release)/approval`.
 *
 * @param record The record of the event.
 * @param waitName The name that it waits for, or has waited for.
 * @returns The name of the step; undefined if that is no question of its steps.
 */
export function askingStepOf(
  { id, keyRun, steps = [] }: EventRecord,
  waitName: string,
): string | undefined {
  const own = questionNameOf(waitName);
  return steps.findLast(({ name }) => ownName({ id, keyRun }, ASK + name) === own)?.name;
}

/** Makes the key of the cell of a question. */
export function questionKey(name: string): CellKey {
  return [...QUESTIONS, name];
}
