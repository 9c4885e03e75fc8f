import type { StoredEvent } from "../events/store/mod.ts";
import { type DeliveryRow, rowOf } from "./_delivery_rows.ts";
import { downloadResponse, ParameterError } from "./_http.ts";
import type { Visit } from "./_layout.ts";
import { queryOf, word } from "./_query.ts";
import type { Turns } from "./_turns.ts";
import { readAnswers } from "./_waits.ts";

/** Most deliveries of a file. */
export const MAX_EXPORTED = 50_000;

/** Rows that are written at a time. */
const ROWS = 200;

/** Forms of a file. */
const FORMATS = ["jsonl", "csv"] as const;

const TYPES = {
  jsonl: "application/x-ndjson; charset=utf-8",
  csv: "text/csv; charset=utf-8",
} as const;

/** Columns of a table, in their order. */
const COLUMNS = [
  ...["id", "state", "outcome", "receivedAt", "settledAt", "type", "action", "source"],
  ...["repository", "chat", "sender", "description", "error", "attempts", "waits"],
  ...["deliveryId", "requestId"],
] as const satisfies readonly (keyof DeliveryRow)[];

/** Answers with a file of the deliveries that match, the newest first: it is written while they are read. */
export function exported({ data, parameters, context }: Visit): Response {
  const format = word(parameters, "format", FORMATS);
  if (format === undefined) throw new ParameterError(`'format' must be ${FORMATS.join(" or ")}`);
  const events = data.list(queryOf(parameters));
  const write = format === "csv" ? csvOf : jsonOf;
  const lines = async (some: readonly StoredEvent[]) => {
    const answers = await readAnswers(data.store, some);
    const now = Date.now();
    return some.map((event) =>
      write(rowOf(event, context.hidesPayloads, now, answers.has(event.id)))
    );
  };
  const head = format === "csv" ? lineOfCsv(COLUMNS) : "";
  return downloadResponse(
    linesOf(events, lines, head, data.exports),
    TYPES[format],
    `deliveries.${format}`,
  );
}

/**
 * Writes lines as a stream, as fast as it is read: some in each turn, so that a reader who is slow keeps nobody waiting. If
 * the reader goes, no more is read from the store.
 */
function linesOf(
  events: AsyncIterator<StoredEvent, undefined>,
  lines: (some: readonly StoredEvent[]) => Promise<string[]>,
  head: string,
  turns: Turns,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let left = MAX_EXPORTED;
  let rest = head;
  let isEnded = false;
  const readSome = async () => {
    const begin = rest;
    rest = "";
    isEnded = left <= 0;
    const some: StoredEvent[] = [];
    while (some.length < Math.min(ROWS, left) && !isEnded) {
      const { done, value } = await events.next();
      if (done) isEnded = true;
      else some.push(value);
    }
    left -= some.length;
    return begin + (await lines(some)).join("");
  };
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      const text = await turns.take(readSome);
      if (text !== "") controller.enqueue(encoder.encode(text));
      if (!isEnded && left > 0) return;
      controller.close();
      await events.return?.();
    },
    async cancel() {
      await events.return?.();
    },
  };
  // Nothing is read ahead: nobody reads the body of an answer to HEAD, nor cancels it.
  return new ReadableStream(source, { highWaterMark: 0 });
}

/** Writes times as dates. */
function dated({ receivedAt, settledAt, ...row }: DeliveryRow) {
  const iso = (at: number) => new Date(at).toISOString();
  return {
    ...row,
    receivedAt: iso(receivedAt),
    settledAt: settledAt === undefined ? undefined : iso(settledAt),
  };
}

const jsonOf = (row: DeliveryRow): string => `${JSON.stringify(dated(row))}\n`;

function csvOf(row: DeliveryRow): string {
  const { sender, ...others } = dated(row);
  const flat = { ...others, sender: sender && (sender.name ?? sender.id) };
  return lineOfCsv(COLUMNS.map((name) => flat[name]));
}

/** Beginnings by which a spreadsheet takes a text for a formula. */
const FORMULA = /^[\s]*[=+\-@\t\r]/;

/** Writes a line of a table. A text that a spreadsheet would run gets an apostrophe before it. */
function lineOfCsv(values: readonly (string | number | undefined)[]): string {
  const cells = values.map((value) => {
    if (typeof value !== "string") return value ?? "";
    const text = FORMULA.test(value) ? `'${value}` : value;
    return `"${text.replaceAll('"', '""')}"`;
  });
  return `${cells.join(",")}\r\n`;
}
