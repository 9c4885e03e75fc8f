import {
  type EventStore,
  exportEvents,
  importEvents,
  type ImportResult,
  type LeftOutEvent,
} from "../events/mod.ts";
import type { CliOptions } from "./_commands.ts";
import { ProgressLine } from "./_output.ts";
import {
  type CliStore,
  type CliWorld,
  InterruptedError,
  interruptible,
  messageOf,
  UsageError,
} from "./_world.ts";

/** Beginning of the line of an event; other lines are of what belongs to the events. */
const EVENT_START = '{"format":"edge-base.event"';

/** Access to a file with payloads: its owner's alone. */
const FILE_MODE = 0o600;

/** Place that lines are written to. */
interface Target extends AsyncDisposable {
  write(line: string): Promise<void>;
  /** Makes sure that all lines are written. */
  finish(): Promise<void>;
}

/** Writes events to a file or the standard output, and their number. */
export async function exportEventsTo(
  { store }: CliStore,
  options: CliOptions,
  world: CliWorld,
): Promise<boolean> {
  const { filter, values: { file, json } } = options;
  // The standard output has the events, and perhaps the terminal.
  const report = file === undefined ? world.err : world.out;
  const missing = new Set(filter.ids);
  const { exported, entries, leftOut, interrupted } = await interruptible(
    world,
    (signal) => writeLines(store, options, world, signal, missing),
  );
  const absent = interrupted ? [] : [...missing];
  if (json) {
    report(JSON.stringify({ exported, entries, left: [...leftOut, ...absent], ...interrupted }));
  } else {
    report(`${exported} exported${interrupted ? ", interrupted" : ""}`);
    if (entries > 0) report(`${entries} states, answers and notes of schedules exported with them`);
    for (const id of absent) world.err(`not exported: ${id} (there is no such event)`);
  }
  if (interrupted) throw new InterruptedError();
  return leftOut.length + absent.length === 0;
}

/** Writes the lines of events until a signal. Those that are found are deleted from the missing ids. */
async function writeLines(
  store: EventStore,
  { filter, values: { file } }: CliOptions,
  world: CliWorld,
  signal: AbortSignal,
  missing: Set<string>,
) {
  const line = new ProgressLine(file === undefined ? undefined : world.terminal, "exported");
  const leftOut: string[] = [];
  const onLeftOut = ({ id, reason }: LeftOutEvent) => {
    missing.delete(id);
    leftOut.push(id);
    line.clear();
    world.err(`not exported: ${id} (${reason})`);
  };
  const count = { exported: 0, entries: 0 };
  await using target = file === undefined ? outputOf(world) : await createFile(file);
  try {
    for await (const each of exportEvents(store, filter, { onLeftOut })) {
      await target.write(each);
      if (each.startsWith(EVENT_START)) count.exported++;
      else count.entries++;
      if (missing.size > 0) missing.delete(JSON.parse(each).record.id);
      line.show({ seen: count.exported + leftOut.length, changed: count.exported });
      if (signal.aborted) break;
    }
    await target.finish();
  } catch (error) {
    const reason = error instanceof Deno.errors.BrokenPipe ? "nobody reads on" : messageOf(error);
    throw new Error(`${count.exported} exported, then: ${reason}`, { cause: error });
  } finally {
    line.clear();
  }
  return { ...count, leftOut, interrupted: signal.aborted && { interrupted: true } };
}

/** Checks that there is something to import, before a KV is opened for it. */
export async function checkSource(
  { values: { file } }: CliOptions,
  { input }: CliWorld,
): Promise<void> {
  if (file === undefined) {
    if (input()) return;
    throw new UsageError("Give --file, or the events on the standard input");
  }
  const { isDirectory } = await Deno.stat(file).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new UsageError(`There is no file ${file}`);
  });
  if (isDirectory) throw new UsageError(`${file} is a folder`);
}

/** Stores events from a file or the standard input, and writes what became of them. */
export async function importEventsFrom(
  { store }: CliStore,
  { values: { file, json } }: CliOptions,
  world: CliWorld,
): Promise<boolean> {
  const source = file === undefined ? world.input()! : (await Deno.open(file)).readable;
  const line = new ProgressLine(world.terminal, "imported");
  const { result, interrupted } = await interruptible(world, async (signal) => {
    const result = await importEvents(store, source, { onProgress: line.show, signal })
      .catch((error) => {
        if (error instanceof SyntaxError) throw new UsageError(error.message);
        throw new Error(`${line.changed} imported, then: ${messageOf(error)}`, { cause: error });
      })
      .finally(() => line.clear());
    return { result, interrupted: signal.aborted && { interrupted: true } };
  });
  if (json) world.out(JSON.stringify({ ...result, ...interrupted }));
  else for (const each of linesOf(result, interrupted !== false)) world.out(each);
  if (interrupted) throw new InterruptedError();
  return result.failed === 0;
}

function linesOf(
  { imported, known, expired, states, answers, schedules, failed, failures }: ImportResult,
  interrupted: boolean,
): string[] {
  const more = failed - failures.length;
  return [
    `${imported} imported${interrupted ? ", interrupted" : ""}`,
    ...(known > 0 ? [`${known} left as they are: this KV has them already`] : []),
    ...(expired > 0 ? [`${expired} forgotten: done for longer than the retention`] : []),
    ...linesOfEntries("states", states),
    ...linesOfEntries("answers", answers),
    ...linesOfEntries("notes of schedules", schedules),
    ...failures.map(({ line, reason }) => `not imported: line ${line} (${reason})`),
    ...(more > 0 ? [`not imported: ${more} more lines`] : []),
  ];
}

/** Formats the numbers of one kind of entry; nothing if there was none. */
function linesOfEntries(
  name: string,
  { imported, known, expired }: ImportResult["states"],
): string[] {
  if (imported + known + expired === 0) return [];
  const left = known > 0 ? `, ${known} left as they are` : "";
  return [`${imported} ${name} imported${left}${expired > 0 ? `, ${expired} expired` : ""}`];
}

function outputOf({ out }: CliWorld): Target {
  return {
    write: (line) => Promise.resolve(out(line.slice(0, -1))),
    finish: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function createFile(path: string): Promise<Target> {
  const file = await Deno.open(path, { write: true, createNew: true, mode: FILE_MODE })
    .catch((error) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      throw new UsageError(`The file ${path} exists: give the name of a new one`);
    });
  const encoder = new TextEncoder();
  return {
    async write(line) {
      let bytes = encoder.encode(line);
      while (bytes.length > 0) bytes = bytes.subarray(await file.write(bytes));
    },
    finish: () => file.sync(),
    [Symbol.asyncDispose]: () => Promise.resolve(file.close()),
  };
}
