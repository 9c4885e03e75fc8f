import { type EventStore, openEventStore } from "../events/mod.ts";
import { openStoreInspector } from "../events/store/kv/store_inspector.ts";
import type { CommandName } from "./_commands.ts";
import { doctor } from "./_doctor.ts";
import { change, emit, list, show, stats, wake, WAYS, withEventIds } from "./_events.ts";
import { type FlowCommand, FLOWS, isFlow } from "./_flows.ts";
import { answered, findStore, NoAnswerError, openKv, withoutCredentials } from "./_kv.ts";
import { type CliOptions, readOptions } from "./_options.ts";
import { printable } from "./_output.ts";
import { checkSource, exportEventsTo, importEventsFrom } from "./_port.ts";
import { type CliWorld, InterruptedError, UsageError } from "./_world.ts";
import { CONNECT_HELP, runConnect } from "./connect.ts";
import { runSend, SEND_HELP } from "./send.ts";

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
    if (args[0] === "send") return await send(args.slice(1), world) ? 0 : 1;
    if (args[0] === "connect") return await connect(args.slice(1), world) ? 0 : 1;
    const request = readOptions(args, world.now());
    if ("help" in request) {
      world.out(request.help);
      return 0;
    }
    return await operate(request, world) ? 0 : 1;
  } catch (error) {
    return fail(error, args, world);
  }
}

async function send(args: readonly string[], { out, err, env }: CliWorld): Promise<boolean> {
  if (args.includes("--help") || args.includes("-h")) {
    out(SEND_HELP);
    return true;
  }
  return await runSend(args, { out, err, variable: env });
}

async function connect(args: readonly string[], world: CliWorld): Promise<boolean> {
  if (args.includes("--help") || args.includes("-h")) {
    world.out(CONNECT_HELP);
    return true;
  }
  return await runConnect(args, world);
}

/** Commands that store events in a KV that may have none yet. */
const MAKING: readonly CommandName[] = ["emit", "import"];

async function operate(options: CliOptions, world: CliWorld): Promise<boolean> {
  const url = options.kv ?? (world.env("KV_URL")?.trim() || undefined);
  const { command, create, retentionMs } = options;
  if (options.asks && !world.ask) {
    throw new UsageError(
      "There is no terminal to ask at: give --yes, or --dry-run to see what would be done",
    );
  }
  if (command === "import") await checkSource(options, world);
  const kv = await openKv(url, create);
  let answers = true;
  try {
    const { namespace, note } = await answered(findStore(kv, options.namespace));
    const makesEvents = MAKING.includes(command);
    if (makesEvents && note !== undefined && options.namespace === undefined) {
      throw new UsageError("The KV holds no events yet: give the app's name with --namespace");
    }
    // A KV that is to be made has no events yet.
    if (note !== undefined && !create) world.err(note + (url === undefined ? DEFAULT_KV_NOTE : ""));
    const store = await answered(openEventStore(kv, { namespace, retentionMs }));
    if (isFlow(command)) return await FLOWS[command]({ store, namespace }, options.flow!, world);
    const filter = await withEventIds(store, openStoreInspector(kv, namespace), options.filter);
    return await run(store, { ...options, filter }, world);
  } catch (error) {
    answers = !(error instanceof NoAnswerError);
    throw error;
  } finally {
    if (answers) kv.close();
  }
}

async function run(store: EventStore, options: CliOptions, world: CliWorld): Promise<boolean> {
  if (options.emission) return await emit(store, options.emission, options.json, world);
  if (options.wake) return await wake(store, options.wake, options, world);
  const command = options.command as Exclude<CommandName, "wake" | "emit" | FlowCommand>;
  if (command === "list") return await list(store, options, world);
  if (command === "show") return await show(store, options, world);
  if (command === "stats") return await stats(store, options, world);
  if (command === "doctor") return await doctor(store, options, world);
  if (command === "export") return await exportEventsTo(store, options, world);
  if (command === "import") return await importEventsFrom(store, options, world);
  if (command === "catch-up") {
    // Only this command loads the client of GitHub's API.
    const { runCatchUp } = await import("./_catch_up.ts");
    return await runCatchUp(store, options, world);
  }
  return await change(WAYS[command], store, options, world);
}

const DEFAULT_KV_NOTE = ", which is Deno's default one for this script and configuration file: " +
  "give the app's with --kv or KV_URL";

function fail(error: unknown, given: readonly string[], { err }: CliWorld): number {
  if (error instanceof InterruptedError) return 130;
  // The reader has gone, as `head` does.
  if (error instanceof Deno.errors.BrokenPipe) return 0;
  const message = error instanceof Error ? error.message : String(error);
  const what = ["send", "connect"].includes(given[0] ?? "") ? "the given URL" : "the given KV";
  err(withoutCredentials(message, given, what).replaceAll(/\s+/g, " "));
  return error instanceof UsageError ? 2 : 1;
}
