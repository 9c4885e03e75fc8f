import {
  checkFunction,
  checkOptions,
  met,
  type OptionCheck,
  wholeNumber,
} from "../../core/check_options.ts";
import { MAX_TIMEOUT_MS } from "../store/waits.ts";
import { checkStepName, checkUnknown, type StepContext, type StepOptions } from "./step.ts";

/** Largest number of senders who may answer. */
const MAX_SENDERS = 1_000;

/**
 * Options of {@linkcode HandlerContext.ask}.
 *
 * @category Flows
 */
export interface AskOptions extends StepOptions {
  /**
   * The ids of the senders who may answer, 1 to 1,000. Events of several senders that are handled together count as nobody's.
   *
   * @default {undefined} Everybody who gets the name.
   */
  readonly by?: readonly number[] | undefined;
  /**
   * Longest time to wait, in milliseconds: from 1 to 31,536,000,000, which is a year.
   *
   * @default {604_800_000} 7 days.
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * The answer to a question.
 *
 * @typeParam TValue The value.
 * @typeParam TSent The result of the function that has sent the question.
 * @category Flows
 */
export type Answer<TValue = unknown, TSent = unknown> =
  & {
    /**
     * Result of the function that has sent the question, such as the id of the message, to edit it. Undefined if it is
     * not JSON, or not known.
     */
    readonly sent: TSent | undefined;
  }
  & (
    | {
      /** The value. */
      readonly value: TValue;
      /** The id of the sender who has answered; undefined if the tool has, or it is not known. */
      readonly by: number | undefined;
      /** False: it was answered. */
      readonly timedOut: false;
    }
    | {
      /** No value. */
      readonly value: undefined;
      /** Nobody. */
      readonly by: undefined;
      /** True: the time has passed. */
      readonly timedOut: true;
    }
  );

/**
 * Asks a question, see {@linkcode HandlerContext.ask}.
 *
 * @typeParam TTx What the functions of `settleWith` get.
 * @category Flows
 */
export type Ask<TTx = unknown> = <TValue = unknown, TSent = unknown>(
  name: string,
  send: (name: string, context: StepContext<TTx>) => TSent | Promise<TSent>,
  options?: AskOptions,
) => Promise<Answer<TValue, TSent>>;

const checkSenders: OptionCheck = (doing, name, value) => {
  const must = `Cannot ${doing}: '${name}' must be a list of 1 to ${MAX_SENDERS} ids of senders`;
  if (!Array.isArray(value)) throw new TypeError(`${must}, got ${met(value)}`);
  const { length } = value;
  if (length === 0) {
    throw new TypeError(`${must}, got none: nobody could answer. Leave it out for anybody`);
  }
  if (length > MAX_SENDERS) throw new TypeError(`${must}, got ${length}`);
  const wrong = value.findIndex((id) => !Number.isSafeInteger(id));
  if (wrong < 0) return;
  throw new TypeError(
    `${must}, which are whole numbers: the one at ${wrong} is ${met(value[wrong])}`,
  );
};

/** Checks a question before it is asked. */
export function checkQuestion(name: unknown, send: unknown, options: unknown): void {
  checkStepName("ask", name);
  const doing = `ask ${met(name)}`;
  checkFunction(doing, "send", send);
  checkOptions(doing, options ?? {}, {
    by: checkSenders,
    timeoutMs: wholeNumber({ max: MAX_TIMEOUT_MS }),
    unknown: checkUnknown,
  });
}
