/**
 * The command line tool: looks at the events of an app's KV and operates on them, also while the app
 * runs; and sends deliveries to an app while it is developed.
 *
 * ```sh
 * deno run --unstable-kv -A jsr:@org/edge-base/cli events list --state dead --kv ./forge.db
 * deno run -A jsr:@org/edge-base/cli send forge push --secret 'a long random text'
 * ```
 *
 * @module
 */
import { withDeadline } from "../webhook/deadline.ts";
import { openEventStore } from "../webhook/mod.ts";
import { findNamespace } from "./_namespace.ts";
import { type CliOptions, readOptions, UsageError } from "./_options.ts";
import { runEventsCommand } from "./events.ts";
import { runSend, SEND_HELP } from "./send.ts";

/** A remote KV that does not answer is tried for ever. */
const KV_TIMEOUT_MS = 10_000;

const HELP = `Usage: events COMMAND [ID...] [OPTION...]

Commands
  list             one line per event: received, state, attempts, type, id, last error
  show ID          one event with its payload
  replay ID...     put dead events back, to be handled again
  cancel ID...     give up events that wait or run
  purge            delete events that are done or dead
  stats            how many events there are of each state

Which events
  --state STATE    queued, running, done or dead
  --type TYPE      such as push
  --older-than AGE such as 30s, 15m, 12h or 7d
  --newer-than AGE
  --all            replay, cancel or purge without any filter
  --limit N        list no more

Where
  --kv KV          a path or URL (else KV_URL, else Deno's default database)
  --namespace NAME the app's name, where a KV holds the events of several

  --json           one JSON document per line
  --help`;

async function main(args: readonly string[]): Promise<number> {
  try {
    if (args[0] === "send") return await send(args.slice(1)) ? 0 : 1;
    const options = readOptions(args, Date.now());
    if (options.help) {
      console.log(HELP);
      return 0;
    }
    return await run(options) ? 0 : 1;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    console.error(error instanceof UsageError ? `${message}\nSee --help` : message);
    return error instanceof UsageError ? 2 : 1;
  }
}

async function send(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help") || args.includes("-h")) {
    console.log(SEND_HELP);
    return true;
  }
  return await runSend(args, { out: console.log, variable: (name) => Deno.env.get(name) });
}

async function run(options: CliOptions): Promise<boolean> {
  using kv = await withDeadline(openKv(options.kv ?? Deno.env.get("KV_URL")), KV_TIMEOUT_MS);
  const finding = options.namespace ?? findNamespace(kv);
  const namespace = await withDeadline(Promise.resolve(finding), KV_TIMEOUT_MS);
  const store = await withDeadline(openEventStore(kv, { namespace }), KV_TIMEOUT_MS);
  let shown = false;
  const progress = (text: string) => {
    if (!Deno.stderr.isTerminal()) return;
    shown = true;
    Deno.stderr.writeSync(new TextEncoder().encode(`\r${text}`));
  };
  const done = await runEventsCommand(store, options, { out: console.log, progress });
  if (shown) console.error();
  return done;
}

/** Opens a KV that is there: a file that is not would be made. */
async function openKv(url: string | undefined): Promise<Deno.Kv> {
  if (url !== undefined && !/^(https?:|:memory:$)/.test(url)) {
    await Deno.stat(url).catch(() => {
      throw new UsageError("There is no such KV file");
    });
  }
  return await Deno.openKv(url);
}

if (import.meta.main) Deno.exit(await main(Deno.args));
