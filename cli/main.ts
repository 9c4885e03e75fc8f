/**
 * Command line tool. It shows, changes and moves the events in an app's store, also while the app runs, and sends
 * deliveries to an app during development. It also registers an app's webhook with Telegram or GitHub, or
 * fetches what they have for an app without a public address.
 *
 * @example
 * ```sh
 * deno run --unstable-kv -A jsr:@org/edge-base/cli events list --state dead --kv ./data/kv.db
 * GITHUB_WEBHOOK_SECRET='a long random text' deno run -A jsr:@org/edge-base/cli send github push
 * deno run -A jsr:@org/edge-base/cli connect telegram https://bot.example.com
 * ```
 *
 * @example A program that counts dead events
 * ```ts
 * import { assertEquals } from "@std/assert";
 *
 * const folder = await Deno.makeTempDir();
 * const path = `${folder}/kv.db`;
 * (await Deno.openKv(path)).close(); // the KV of an app, here an empty one
 *
 * const tool = import.meta.resolve("@org/edge-base/cli");
 * const args = ["run", "--unstable-kv", "-A", tool, "events", "stats", "--json", "--kv", path];
 * const { stdout } = await new Deno.Command(Deno.execPath(), { args }).output();
 * assertEquals(JSON.parse(new TextDecoder().decode(stdout)).dead, 0);
 *
 * await Deno.remove(folder, { recursive: true });
 * ```
 *
 * @module
 */
import { sleep } from "../core/timeouts.ts";
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

/** Asks at the terminal. The input comes line by line. */
async function ask(question: string): Promise<string> {
  write(Deno.stderr, question);
  const buffer = new Uint8Array(1024);
  const count = await Deno.stdin.read(buffer);
  // Ctrl-D leaves the cursor in the line of the question.
  if (count === null) write(Deno.stderr, "\n");
  return new TextDecoder().decode(buffer.subarray(0, count ?? 0));
}

const WORLD: CliWorld = {
  env: (name) => Deno.env.get(name),
  now: () => Date.now(),
  out: (line) => write(Deno.stdout, `${line}\n`),
  err: (line) => write(Deno.stderr, `${line}\n`),
  input: () => Deno.stdin.isTerminal() ? undefined : Deno.stdin.readable,
  terminal: Deno.stderr.isTerminal() ? (text) => write(Deno.stderr, text) : undefined,
  ask: Deno.stdin.isTerminal() && Deno.stderr.isTerminal() ? ask : undefined,
  onInterrupt,
  sleep,
};

if (import.meta.main) Deno.exit(await runCli(Deno.args, WORLD));
