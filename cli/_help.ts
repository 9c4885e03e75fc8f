import {
  type Command,
  type CommandName,
  COMMANDS,
  COMMON_OPTIONS,
  type OptionName,
  OPTIONS,
} from "./_commands.ts";

/** Why a command ends with which exit code. */
const EXIT_CODES = [
  "0    done",
  "1    not all that was asked for could be done",
  "2    the command line cannot be understood, and nothing was done",
  "130  ended by Ctrl-C",
];

/** How the ids of a command are shown. */
const IDS: Readonly<Record<Command["ids"], string>> = {
  none: "",
  some: " [ID...]",
  needed: " ID...",
};

/** How many columns the texts have. */
const WIDTH = 96;

/** The help text of a command, or of all. */
export function helpOf(name?: CommandName): string {
  return name === undefined ? helpOfAll() : helpOfCommand(name, COMMANDS[name]);
}

function helpOfAll(): string {
  const commands = Object.entries(COMMANDS).map(([name, { about, ids }]) => {
    return `${(name + IDS[ids]).padEnd(16)} ${about}`;
  });
  return [
    "Usage: events COMMAND [ID...] [OPTION...]",
    "",
    ...section("Commands", commands),
    ...section("Options", (Object.keys(OPTIONS) as OptionName[]).map(lineOf)),
    ...section("Exit codes", EXIT_CODES),
    "events COMMAND --help tells more of a command, and send --help how to send deliveries to an app.",
  ].join("\n");
}

function helpOfCommand(name: CommandName, command: Command): string {
  const { about, example, details, ids, states, options } = command;
  const own = options.map((option) =>
    option === "state" ? `${lineOf(option)}: ${states.join(", ")}` : lineOf(option)
  );
  return [
    `Usage: events ${name}${IDS[ids]} [OPTION...]`,
    "",
    ...[`${about}.`, ...details].flatMap(wrap),
    "",
    ...section("For instance", [example]),
    ...section("Options", [...own, ...COMMON_OPTIONS.map(lineOf)]),
  ].join("\n").trimEnd();
}

function section(title: string, lines: readonly string[]): string[] {
  return [title, ...lines.map((line) => `  ${line}`), ""];
}

function lineOf(name: OptionName): string {
  const { value, about } = OPTIONS[name];
  return `${`--${name}${value === undefined ? "" : ` ${value}`}`.padEnd(18)} ${about}`;
}

function wrap(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line === undefined || line.length + word.length >= WIDTH) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
