/**
 * Command line tool. It shows and changes the events in an app's KV, also while the app runs, and sends
 * deliveries to an app during development.
 *
 * @example
 * ```sh
 * deno run --unstable-kv -A jsr:@org/edge-base/cli events list --state dead --kv ./forge.db
 * FORGE_WEBHOOK_SECRET='a long random text' deno run -A jsr:@org/edge-base/cli send forge push
 * ```
 *
 * @module
 */
import { runCli } from "./_run.ts";
import type { CliWorld } from "./_world.ts";

const encoder = new TextEncoder();

/** Writes all of a text, or throws. */
function write(file: typeof Deno.stdout | typeof Deno.stderr, text: string): void {
  let bytes = encoder.encode(text);
  while (bytes.length > 0) bytes = bytes.subarray(file.writeSync(bytes));
}

/** Listens for Ctrl-C: the first one ends the tool in order, the second one at once. */
function onInterrupt(listener: () => void): () => void {
  let interrupted = false;
  const end = () => {
    if (interrupted) Deno.exit(130);
    interrupted = true;
    listener();
  };
  Deno.addSignalListener("SIGINT", end);
  return () => Deno.removeSignalListener("SIGINT", end);
}

const WORLD: CliWorld = {
  env: (name) => Deno.env.get(name),
  now: () => Date.now(),
  out: (line) => write(Deno.stdout, `${line}\n`),
  err: (line) => write(Deno.stderr, `${line}\n`),
  terminal: Deno.stderr.isTerminal() ? (text) => write(Deno.stderr, text) : undefined,
  onInterrupt,
};

if (import.meta.main) Deno.exit(await runCli(Deno.args, WORLD));
