import { assert, assertEquals } from "@std/assert";
import { readConnectOptions } from "../../cli/_connect_options.ts";
import { readOptions } from "../../cli/_commands.ts";
import { readSendOptions } from "../../cli/_send_options.ts";
import { testWith } from "../_permissions.ts";
import { documents, prose } from "./_documents.ts";

/** Lines of shells that a document shows, without comments, and what its text names in the type of code. */
function commandsOf(document: string): string[] {
  const blocks = [...document.matchAll(/^ *```sh[^\n]*\n([^]*?)^ *```$/gm)];
  const lines = blocks.flatMap(([, block]) => block!.replaceAll(/ #.*$/gm, "").split(/\n| \| /));
  const named = [...prose(document).matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);
  return [...lines, ...named].map((command) => command.trim());
}

/** Ways to call the tool: by a task of the reader's, and from the package. */
const TOOL = "deno task |deno run [^:]*jsr:@org/edge-base/cli ";

/** The arguments of the tool in a command, if that is one of it; undefined where it is no whole one. */
function argumentsOf(command: string): string[] | undefined {
  const [, name, rest] = new RegExp(`^(?:${TOOL})?(events|send|connect) (.*)$`).exec(command) ?? [];
  if (name === undefined || rest!.includes("...")) return undefined;
  const words = [...rest!.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, a, b, c]) =>
    a ?? b ?? c!
  );
  return words.length > 1 || words[0] === "stats" ? [name, ...words] : undefined;
}

/** The variables that the tool finds: all are secrets. */
const env = (name: string) => name === "PORT" ? undefined : SECRETS[name] ?? "A-long_random-text";

/** Secrets that have a form. */
const SECRETS: Readonly<Record<string, string>> = { TELEGRAM_BOT_TOKEN: "123456:AA-random_text" };

/** Finds the mistake in a command; undefined where there is none. */
function mistakeOf([name, ...rest]: readonly string[]): string | undefined {
  try {
    if (name === "events") readOptions(["events", ...rest], Date.now());
    else if (name === "send") readSendOptions(rest, { env, err: () => {} });
    else readConnectOptions(rest, { env, err: () => {} });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

testWith(["read"], "documents show commands of the tool that it understands", async () => {
  const mistakes: string[] = [];
  let count = 0;
  for (const [path, document] of await documents()) {
    const commands = commandsOf(document).map(argumentsOf).filter((args) => args !== undefined);
    count += commands.length;
    for (const command of commands) {
      const mistake = mistakeOf(command);
      if (mistake !== undefined) mistakes.push(`${path}: ${command.join(" ")}: ${mistake}`);
    }
  }
  assertEquals(mistakes, []);
  assert(count > 15, `Only ${count} commands were found`);
});
