import type { StoredEvent } from "../events/mod.ts";

/** The options that there are. A text in brackets stands for what follows one. */
export const OPTIONS = {
  state: { value: "STATE", about: "events in this state" },
  type: { value: "TYPE", about: "events of this type, such as push" },
  "older-than": { value: "AGE", about: "events received longer ago, such as 30s, 15m, 12h or 7d" },
  "newer-than": { value: "AGE", about: "events received since" },
  limit: { value: "N", about: "only the N events received last" },
  all: { value: undefined, about: "all events that it can be done with" },
  kv: { value: "KV", about: "a path or URL; else KV_URL, else Deno's default database" },
  namespace: { value: "NAME", about: "the app's name, where a KV holds the events of several" },
  json: { value: undefined, about: "one JSON document per line" },
  help: { value: undefined, about: "this text" },
} as const satisfies Record<string, { readonly value: string | undefined; readonly about: string }>;

/** The options of every command. */
export const COMMON_OPTIONS: readonly OptionName[] = ["kv", "namespace", "json", "help"];

const FILTERS: readonly OptionName[] = ["state", "type", "older-than", "newer-than"];

const ALL_STATES = ["queued", "running", "done", "dead", "unreadable"] as const;

const CHANGING = { ids: "some", options: [...FILTERS, "all"] } as const;

const WHICH =
  "Choose by ids, by filters, by both (those of the ids that the filters let through), or " +
  "by --all.";

const INTERRUPT = "Ctrl-C ends it between two commits: what was done until then stays done.";

/** The commands on events. */
export const COMMANDS = {
  list: {
    about: "List events, a line each: received, state, attempts, type, id, last error",
    example: "events list --state dead --newer-than 1d --limit 20",
    details: ["They come in the order received."],
    ids: "none",
    states: ALL_STATES,
    options: [...FILTERS, "limit"],
  },
  show: {
    about: "Show events with their payloads",
    example: "events show 72d3162e-cc78-11e3-81ab-4c9367dc0958",
    details: [
      "An id is that of an event, or that of its delivery, as the forge's page shows it.",
      "An event is shown also where its payload is lost; the exit code is 1 then.",
    ],
    ids: "needed",
    states: ALL_STATES,
    options: [],
  },
  replay: {
    about: "Put dead events back, to be handled again",
    example: "events replay --type push --newer-than 1d",
    details: [WHICH, "Those of one ordering key are handled in the order received.", INTERRUPT],
    states: ["dead"],
    ...CHANGING,
  },
  cancel: {
    about: "Give up events that wait or run: they are dead then",
    example: "events cancel --state queued --type push",
    details: [
      WHICH,
      "The signal of a running handler is aborted at the next renewal of its lease.",
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
      "One that was cancelled while it ran is left until its lease would have ended.",
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

/** The name of an option, without its dashes. */
export type OptionName = keyof typeof OPTIONS;

/** What there is to know of a command before it runs. */
export interface Command {
  /** What it does, in a line. */
  readonly about: string;
  /** What it is told to do, for instance. */
  readonly example: string;
  /** What else is to be known. */
  readonly details: readonly string[];
  /** Whether it takes ids, or cannot do without. */
  readonly ids: "none" | "some" | "needed";
  /** The states it is for. */
  readonly states: readonly StoredEvent["state"][];
  /** Its own options, beside those of all commands. */
  readonly options: readonly OptionName[];
}

/** The name of a command. */
export type CommandName = keyof typeof COMMANDS;

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
