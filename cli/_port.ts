import { exportEvents, importEvents, type ImportResult } from "../events/mod.ts";
import type { CliOptions, CliRun } from "./_commands.ts";
import { withProgress } from "./_output.ts";
import { type CliWorld, InterruptedError, interruptible, UsageError } from "./_world.ts";

/** Beginning of an event's line. The other lines hold states, answers, questions and notes of schedules. */
const EVENT_START = '{"format":"edge-base.event"';

/** Mode of a file with payloads: only its owner can read it. */
const FILE_MODE = 0o600;

/** Writes events to a file or the standard output, and their number. */
export async function exportEventsTo(run: CliRun): Promise<boolean> {
  const { filter, values: { file, json }, world } = run;
  // The standard output has the events, and perhaps the terminal.
  const [report, terminal] = file === undefined
    ? [world.err, undefined]
    : [world.out, world.terminal];
  const missing = new Set(filter.ids);
  const leftOut: string[] = [];
  const count = { exported: 0, entries: 0 };
  const interrupted = await interruptible(world, async (signal) => {
    await withProgress(terminal, "exported", async (line) => {
      const onLeftOut = ({ id, reason }: { readonly id: string; readonly reason: string }) => {
        missing.delete(id);
        leftOut.push(id);
        line.clear();
        world.err(`not exported: ${id} (${reason})`);
      };
      using target = file === undefined ? undefined : await createFile(file);
      for await (const each of exportEvents(run.store, filter, { onLeftOut })) {
        if (target === undefined) world.out(each.slice(0, -1));
        else await writeAll(target, each);
        if (each.startsWith(EVENT_START)) count.exported++;
        else count.entries++;
        if (missing.size > 0) missing.delete(JSON.parse(each).record.id);
        line.show({ seen: count.exported + leftOut.length, changed: count.exported });
        if (signal.aborted) break;
      }
      await target?.sync();
    });
    return signal.aborted && { interrupted: true };
  });
  const absent = interrupted ? [] : [...missing];
  if (json) {
    report(JSON.stringify({ ...count, left: [...leftOut, ...absent], ...interrupted }));
  } else {
    const { exported, entries } = count;
    report(`${exported} exported${interrupted ? ", interrupted" : ""}`);
    if (entries > 0) {
      report(`${entries} states, answers, questions and notes of schedules exported with them`);
    }
    for (const id of absent) world.err(`not exported: ${id} (there is no such event)`);
  }
  if (interrupted) throw new InterruptedError();
  return leftOut.length + absent.length === 0;
}

/** Checks that there is something to import, before a database is opened for it. */
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

/** Stores events from a file or the standard input, and writes the outcome. */
export async function importEventsFrom(
  { store, values: { file, json }, world }: CliRun,
): Promise<boolean> {
  const source = file === undefined ? world.input()! : (await Deno.open(file)).readable;
  const [result, interrupted] = await interruptible(world, async (signal) => {
    const result = await withProgress(
      world.terminal,
      "imported",
      ({ show }) =>
        importEvents(store, source, { onProgress: show, signal }).catch((error) => {
          throw error instanceof SyntaxError ? new UsageError(error.message) : error;
        }),
    );
    return [result, signal.aborted && { interrupted: true }];
  });
  if (json) world.out(JSON.stringify({ ...result, ...interrupted }));
  else for (const each of linesOf(result, interrupted !== false)) world.out(each);
  if (interrupted) throw new InterruptedError();
  return result.failed === 0;
}

function linesOf(
  { imported, known, expired, states, answers, questions, schedules, failed, failures }:
    ImportResult,
  interrupted: boolean,
): string[] {
  const more = failed - failures.length;
  return [
    `${imported} imported${interrupted ? ", interrupted" : ""}`,
    ...(known > 0 ? [`${known} left as they are: this database has them already`] : []),
    ...(expired > 0 ? [`${expired} forgotten: done for longer than the retention`] : []),
    ...linesOfEntries("states", states),
    ...linesOfEntries("answers", answers),
    ...linesOfEntries("questions", questions),
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

async function createFile(path: string): Promise<Deno.FsFile> {
  const options = { write: true, createNew: true, mode: FILE_MODE };
  return await Deno.open(path, options).catch((error) => {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    throw new UsageError(`The file ${path} exists: give the name of a new one`);
  });
}

async function writeAll(file: Deno.FsFile, line: string): Promise<void> {
  let bytes = new TextEncoder().encode(line);
  while (bytes.length > 0) bytes = bytes.subarray(await file.write(bytes));
}
