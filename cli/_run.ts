import { openEventStore } from "../events/mod.ts";
import { runCatchUp } from "./_catch_up.ts";
import { cancel, purge, replay, withEventIds } from "./_change.ts";
import { type CliOptions, type CliRun, type CommandName, readOptions } from "./_commands.ts";
import { doctor } from "./_doctor.ts";
import { emit, list, show, stats, wake } from "./_events.ts";
import { deleteAnswers, deleteStates, showAnswers, showSchedules, showStates } from "./_flows.ts";
import { answered, findStore, NoAnswerError, openKv, withoutCredentials } from "./_kv.ts";
import { printable } from "./_output.ts";
import { checkSource, exportEventsTo, importEventsFrom } from "./_port.ts";
import { type CliWorld, InterruptedError, messageOf, UsageError } from "./_world.ts";
import { runConnect } from "./connect.ts";
import { runSend } from "./send.ts";

/** Commands on events. Each returns false if not everything could be done. */
const RUNS: Readonly<Record<CommandName, (run: CliRun) => Promise<boolean>>> = {
  ...{ list, show, replay, cancel, wake, purge },
  ...{ answers: showAnswers, "delete-answers": deleteAnswers },
  ...{ states: showStates, "delete-states": deleteStates, schedules: showSchedules },
  ...{ emit, stats, doctor, export: exportEventsTo, import: importEventsFrom },
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

/** Commands that store events in a KV that may have none yet. */
const MAKING: readonly CommandName[] = ["emit", "import"];

async function operate(options: CliOptions, world: CliWorld): Promise<boolean> {
  const { command, values } = options;
  const { create = false, retention: retentionMs } = values;
  const url = values.kv ?? (world.env("KV_URL")?.trim() || undefined);
  if (options.asks && !world.ask) {
    throw new UsageError(
      "There is no terminal to ask at: give --yes, or --dry-run to see what would be done",
    );
  }
  if (command === "import") await checkSource(options, world);
  const kv = await openKv(url, create);
  let answers = true;
  try {
    const { namespace, note } = await answered(findStore(kv, values.namespace));
    const makesEvents = MAKING.includes(command);
    if (makesEvents && note !== undefined && values.namespace === undefined) {
      throw new UsageError("The KV holds no events yet: give the app's name with --namespace");
    }
    // A KV that is to be made has no events yet.
    if (note !== undefined && !create) world.err(note + (url === undefined ? DEFAULT_KV_NOTE : ""));
    const store = await answered(openEventStore(kv, { namespace, retentionMs }));
    const filter = await withEventIds(store, options.filter);
    return await RUNS[command]({ ...options, filter, store, namespace, world });
  } catch (error) {
    answers = !(error instanceof NoAnswerError);
    throw error;
  } finally {
    if (answers) kv.close();
  }
}

const DEFAULT_KV_NOTE = ", which is Deno's default one for this script and configuration file: " +
  "give the app's with --kv or KV_URL";

function fail(error: unknown, given: readonly string[], { err }: CliWorld): number {
  if (error instanceof InterruptedError) return 130;
  // The reader has gone away, as `head` does.
  if (error instanceof Deno.errors.BrokenPipe) return 0;
  const what = ["send", "connect"].includes(given[0] ?? "") ? "the given URL" : "the given KV";
  err(withoutCredentials(messageOf(error), given, what).replaceAll(/\s+/g, " "));
  return error instanceof UsageError ? 2 : 1;
}
