import type { StoredEvent } from "../events/mod.ts";

/** Options of all commands. A name in `value` stands for the value that an option takes. */
export const OPTIONS = {
  state: { value: "STATE", about: "events in this state" },
  type: { value: "TYPE", about: "events of this type, such as push" },
  "older-than": { value: "AGE", about: "events received longer ago, such as 30s, 15m, 12h or 7d" },
  "newer-than": { value: "AGE", about: "events received since" },
  limit: { value: "N", about: "only the N events received last" },
  all: { value: undefined, about: "all events that the command applies to" },
  kv: { value: "KV", about: "a path or URL; by default KV_URL, or else Deno's default database" },
  namespace: { value: "NAME", about: "the app's name, if a KV holds the events of several apps" },
  json: { value: undefined, about: "one JSON document per line" },
  help: { value: undefined, about: "this text" },
} as const satisfies Record<string, { readonly value: string | undefined; readonly about: string }>;

/** Options of every command. */
export const COMMON_OPTIONS: readonly OptionName[] = ["kv", "namespace", "json", "help"];

const FILTERS: readonly OptionName[] = ["state", "type", "older-than", "newer-than"];

const ALL_STATES = ["queued", "running", "done", "dead", "unreadable"] as const;

const CHANGING = { ids: "some", options: [...FILTERS, "all"] } as const;

const WHICH =
  "Choose events by ids, by filters, by both (the ids that pass the filters), or by --all.";

const INTERRUPT = "Ctrl-C stops it between two commits: the changes up to then remain.";

/** Commands on events. */
export const COMMANDS = {
  list: {
    about: "List events, one per line: received, state, attempts, type, id, last error",
    example: "events list --state dead --newer-than 1d --limit 20",
    details: ["They are listed in the order received."],
    ids: "none",
    states: ALL_STATES,
    options: [...FILTERS, "limit"],
  },
  show: {
    about: "Show events with their payloads",
    example: "events show 72d3162e-cc78-11e3-81ab-4c9367dc0958",
    details: [
      "An id is that of an event, or that of its delivery, as on the forge's page.",
      "An event whose payload is lost is shown as well; the exit code is 1 then.",
    ],
    ids: "needed",
    states: ALL_STATES,
    options: [],
  },
  replay: {
    about: "Put dead events back, so that they are handled again",
    example: "events replay --type push --newer-than 1d",
    details: [WHICH, "Events of one ordering key are handled in the order received.", INTERRUPT],
    states: ["dead"],
    ...CHANGING,
  },
  cancel: {
    about: "Cancel events that wait or run: they never become done",
    example: "events cancel --state queued --type push",
    details: [
      WHICH,
      "The signal of a running handler is aborted at the next renewal of its lease. Its event is dead " +
      "once the handler has ended. Until then it counts as cancelled: the exit code for its id is 0, and " +
      "it is in 'beingCancelled' of --json.",
      INTERRUPT,
    ],
    states: ["queued", "running"],
    ...CHANGING,
  },
  purge: {
    about: "Delete events that are done or dead",
    example: "events purge --state dead --older-than 30d",
    details: [
      WHICH,
      "A delivery that is sent again after that makes a new event.",
      "Events that this version cannot read are deleted with --state unreadable only: another version " +
      "may be able to, and they may wait to be handled.",
      INTERRUPT,
    ],
    states: ["done", "dead", "unreadable"],
    ...CHANGING,
  },
  stats: {
    about: "Count the events of each state",
    example: "events stats --type push --newer-than 1h",
    details: [],
    ids: "none",
    states: ALL_STATES,
    options: FILTERS,
  },
} as const satisfies Record<string, Command>;

/** Exit codes, with their meaning. */
const EXIT_CODES = [
  "0    done",
  "1    not everything could be done",
  "2    the command line is wrong, and nothing was done",
  "130  ended by Ctrl-C",
];

/** Ids in the usage line of a command. */
const IDS: Readonly<Record<Command["ids"], string>> = {
  none: "",
  some: " [ID...]",
  needed: " ID...",
};

/** Width of the texts, in columns. */
const WIDTH = 96;

/** Name of an option, without its dashes. */
export type OptionName = keyof typeof OPTIONS;

/** Description of a command. */
export interface Command {
  /** Purpose, in one line. */
  readonly about: string;
  /** Command line of an example. */
  readonly example: string;
  /** Further sentences of its help. */
  readonly details: readonly string[];
  /** Ids: not taken, optional or required. */
  readonly ids: "none" | "some" | "needed";
  /** States of the events that it applies to. */
  readonly states: readonly StoredEvent["state"][];
  /** Own options, in addition to those of every command. */
  readonly options: readonly OptionName[];
}

/** Name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** Makes the help text of a command, or of all. */
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
    "See events COMMAND --help for a command, and send --help for sending deliveries to an app.",
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
    ...section("Example", [example]),
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
