import { type EventStore, openEventStore } from "../events/mod.ts";
import { change, InterruptedError, list, show, stats, WAYS, withEventIds } from "./_events.ts";
import { answered, findStore, NoAnswerError, openKv, withoutCredentials } from "./_kv.ts";
import { type CliOptions, readOptions } from "./_options.ts";
import { printable } from "./_output.ts";
import { type CliWorld, UsageError } from "./_world.ts";
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

async function operate(options: CliOptions, world: CliWorld): Promise<boolean> {
  const url = options.kv ?? (world.env("KV_URL")?.trim() || undefined);
  const kv = await openKv(url);
  let answers = true;
  try {
    const { namespace, note } = await answered(findStore(kv, options.namespace));
    if (note !== undefined) world.err(note + (url === undefined ? DEFAULT_KV_NOTE : ""));
    const store = await answered(openEventStore(kv, { namespace }));
    return await run(store, options, world);
  } catch (error) {
    answers = !(error instanceof NoAnswerError);
    throw error;
  } finally {
    if (answers) kv.close();
  }
}

async function run(store: EventStore, given: CliOptions, world: CliWorld): Promise<boolean> {
  const options = { ...given, filter: await withEventIds(store, given.filter) };
  const { command } = options;
  if (command === "list") return await list(store, options, world);
  if (command === "show") return await show(store, options, world);
  if (command === "stats") return await stats(store, options, world);
  return await change(WAYS[command], store, options, world);
}

const DEFAULT_KV_NOTE = ", which is Deno's default one for this script and configuration file: " +
  "give the app's with --kv or KV_URL";

function fail(error: unknown, given: readonly string[], { err }: CliWorld): number {
  if (error instanceof InterruptedError) return 130;
  // The reader has gone, as `head` does.
  if (error instanceof Deno.errors.BrokenPipe) return 0;
  const message = error instanceof Error ? error.message : String(error);
  const what = given[0] === "send" ? "the given URL" : "the given KV";
  err(withoutCredentials(message, given, what).replaceAll(/\s+/g, " "));
  return error instanceof UsageError ? 2 : 1;
}
