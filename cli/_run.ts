import { withoutCredentials } from "../core/hosts.ts";
import { type ExistingDatabases, NoDatabaseError } from "../events/store/store_definition.ts";
import { backUp } from "./_backup.ts";
import { runCatchUp } from "./_catch_up.ts";
import { cancel, purge, replay, withEventIds } from "./_change.ts";
import { type CliOptions, type CliRun, type CommandName, readOptions } from "./_commands.ts";
import { doctor } from "./_doctor.ts";
import { answer, emit, forgetStep, list, setStep, show, stats, wake } from "./_events.ts";
import {
  deleteAnswers,
  deleteStates,
  reopenLimit,
  showAnswers,
  showLimits,
  showProblems,
  showSchedules,
  showStates,
} from "./_flows.ts";
import { printable } from "./_output.ts";
import { checkSource, exportEventsTo, importEventsFrom } from "./_port.ts";
import { findDatabase, findStore } from "./_store.ts";
import { type CliWorld, InterruptedError, messageOf, UsageError } from "./_world.ts";
import { runConnect } from "./connect.ts";
import { runSend } from "./send.ts";

/** Commands on events. Each returns false if not everything could be done. */
const RUNS: Readonly<
  Record<Exclude<CommandName, "migrate">, (run: CliRun) => Promise<boolean>>
> = {
  ...{ list, show, replay, cancel, answer, wake, purge },
  ...{ answers: showAnswers, "delete-answers": deleteAnswers },
  ...{ states: showStates, "delete-states": deleteStates, schedules: showSchedules },
  ...{ limits: showLimits, "reopen-limit": reopenLimit, problems: showProblems },
  ...{ "forget-step": forgetStep, "set-step": setStep },
  ...{ emit, stats, doctor, export: exportEventsTo, import: importEventsFrom, backup: backUp },
  "catch-up": runCatchUp,
};

/**
 * Runs the tool.
 *
 * @param args The command line.
 * @param ownWorld The environment of the process.
 * @returns The exit code.
 */
export async function runCli(args: readonly string[], ownWorld: CliWorld): Promise<number> {
  const world: CliWorld = {
    ...ownWorld,
    out: (line) => ownWorld.out(printable(line)),
    err: (line) => ownWorld.err(printable(line)),
  };
  try {
    const [topic, ...rest] = args;
    if (topic === "send") return await runSend(rest, world) ? 0 : 1;
    if (topic === "connect") return await runConnect(rest, world) ? 0 : 1;
    const request = readOptions(args, world.now());
    if (!("help" in request)) return await operate(request, world) ? 0 : 1;
    world.out(request.help);
    return 0;
  } catch (error) {
    return fail(error, args, world);
  }
}

/** Commands that store events in a database that may have none yet. */
const MAKING: readonly CommandName[] = ["emit", "import"];

async function operate(options: CliOptions, world: CliWorld): Promise<boolean> {
  const { command, values } = options;
  const { create = false, retention: retentionMs } = values;
  const { engine, place } = findDatabase(values, world);
  if (options.asks && !world.ask) {
    throw new UsageError(
      "There is no terminal to ask at: give --yes, or --dry-run to see what would be done",
    );
  }
  if (command === "migrate") return printMigrations(engine, place, world);
  if (command === "import") await checkSource(options, world);
  const database = await engine.open(place, create);
  try {
    const { namespace, note } = await findStore(database, values.namespace);
    const makesEvents = MAKING.includes(command);
    if (makesEvents && note !== undefined && values.namespace === undefined) {
      throw new UsageError(
        "The database holds no events yet: give the app's name with --namespace",
      );
    }
    // A database that is to be made has no events yet.
    if (note !== undefined && !create) {
      const { byDefault, variable } = engine;
      const hint = `, which is ${byDefault}: give the app's with --store or ${variable}`;
      world.err(note + (place === undefined ? hint : ""));
    }
    const store = await database.openStore({ namespace, retentionMs });
    const filter = await withEventIds(store, options.filter);
    return await RUNS[command]({ ...options, filter, store, database, namespace, world });
  } finally {
    await database.close();
  }
}

/** Writes the statements that make the tables of a database, without opening it. */
function printMigrations(
  { migrations }: ExistingDatabases,
  place: string | undefined,
  { out }: CliWorld,
): boolean {
  if (!migrations || place === undefined) {
    throw new UsageError(
      "Only a Postgres database has such statements: give --store postgres://... or DATABASE_URL",
    );
  }
  for (const line of migrations(place).trimEnd().split("\n")) out(line);
  return true;
}

function fail(error: unknown, given: readonly string[], { err }: CliWorld): number {
  if (error instanceof InterruptedError) return 130;
  // The reader has gone away, as `head` does.
  if (error instanceof Deno.errors.BrokenPipe) return 0;
  const what = ["send", "connect"].includes(given[0] ?? "")
    ? "the given URL"
    : "the given database";
  err(withoutCredentials(messageOf(error), given, what).replaceAll(/\s+/g, " "));
  return error instanceof UsageError || error instanceof NoDatabaseError ? 2 : 1;
}
