import type { StoredEvent } from "../events/mod.ts";

/** Options of all commands. A name in `value` stands for the value that an option takes. */
export const OPTIONS = {
  state: { value: "STATE", about: "events in this state" },
  outcome: { value: "OUTCOME", about: "events that ended so: handled, ignored, failed, cancelled" },
  type: { value: "TYPE", about: "events of this type, such as push or issues.opened" },
  source: { value: "NAME", about: "events of this product, intake or source of the app's own" },
  repository: { value: "NAME", about: "events of this repository, such as octocat/hello-world" },
  chat: { value: "ID", about: "events of this chat" },
  "ordering-key": { value: "KEY", about: "events with this ordering key" },
  "older-than": { value: "AGE", about: "events received longer ago, such as 30s, 15m, 12h or 7d" },
  "newer-than": { value: "AGE", about: "events received since" },
  "settled-before": { value: "AGE", about: "events that are done or dead for longer, such as 1h" },
  limit: { value: "N", about: "only N, of events those received last" },
  since: { value: "AGE", about: "deliveries of this age at most, such as 2h: GitHub keeps 3 days" },
  repo: { value: "OWNER/REPO", about: "the repository whose webhook leads to the app" },
  org: { value: "NAME", about: "the organization whose webhook leads to the app" },
  "github-app": { value: undefined, about: "the webhook of a GitHub App leads to the app" },
  hook: { value: "ID", about: "the id of the webhook, if there are several" },
  url: { value: "URL", about: "the URL of the webhook, instead of its id" },
  intake: { value: "NAME", about: "the intake: of catch-up by default github, of states any" },
  prefix: { value: "TEXT", about: "those whose keys or names begin with this" },
  max: { value: "N", about: "ask for N deliveries at most, by default 1000" },
  pace: { value: "MS", about: "the milliseconds between two requests, by default 250" },
  "dry-run": { value: undefined, about: "only say what would be done" },
  yes: { value: undefined, about: "do not ask before" },
  api: { value: "URL", about: "the address of GitHub's API, for GitHub Enterprise Server" },
  all: { value: undefined, about: "all that the command applies to" },
  id: { value: "ID", about: "the event's id: one that is known is not stored again" },
  delay: { value: "TIME", about: "the time until it is due, such as 30s, 15m, 12h or 7d" },
  group: { value: "KEY", about: "the ordering key: one event of a key is handled at a time" },
  file: {
    value: "FILE",
    about: "the file with the events, in the place of standard output or input",
  },
  create: { value: undefined, about: "make the KV file if there is none" },
  "discard-unreadable": { value: undefined, about: "delete what cannot be read, except events" },
  retention: { value: "AGE", about: "the app's retentionMs, if that is not 7d" },
  kv: { value: "KV", about: "a path or URL; by default KV_URL, or else Deno's default database" },
  namespace: { value: "NAME", about: "the app's name, if a KV holds the events of several apps" },
  json: { value: undefined, about: "one JSON document per line" },
  help: { value: undefined, about: "this text" },
} as const satisfies Record<string, { readonly value: string | undefined; readonly about: string }>;

/** Options of every command. */
export const COMMON_OPTIONS: readonly OptionName[] = ["kv", "namespace", "json", "help"];

/** Options that choose events. */
export const FILTERS: readonly OptionName[] = [
  "state",
  "outcome",
  "type",
  "source",
  "repository",
  "chat",
  "ordering-key",
  "older-than",
  "newer-than",
  "settled-before",
];

const ALL_STATES = ["queued", "running", "parked", "done", "dead", "unreadable"] as const;

const CHANGING = { ids: "some", options: [...FILTERS, "all", "dry-run", "yes"] } as const;

const WHICH =
  "Choose events by ids, by filters, by both (the ids that pass the filters), or by --all.";

const ASKS =
  "It asks before, unless they are chosen by ids alone. Without a terminal it needs --yes.";

const ASKS_ALWAYS = "It asks before. Without a terminal it needs --yes.";

const INTERRUPT = "Ctrl-C stops it between two commits: the changes up to then remain.";

/** Commands on events. */
export const COMMANDS = {
  list: {
    about: "List events, one per line: received, state, attempts, type, id, last error",
    example: "events list --state dead --newer-than 2d --limit 20",
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
      "The payload of a done event is shown as long as the app keeps it.",
      "An event whose payload is lost is shown as well; the exit code is 1 then.",
    ],
    ids: "needed",
    states: ALL_STATES,
    options: [],
  },
  replay: {
    about: "Put dead events back, or done ones, so that they are handled again",
    example: "events replay --type push --newer-than 2d",
    details: [
      WHICH,
      "Dead events are those that failed. What somebody has cancelled is put back by its id, or with " +
      "--outcome cancelled.",
      "Done events are put back with --state done only, as long as the app keeps their payloads. Their work " +
      "is done again.",
      ASKS,
      "Events of one ordering key are handled in the order received.",
      INTERRUPT,
    ],
    states: ["dead", "done"],
    ...CHANGING,
  },
  cancel: {
    about: "Cancel events that wait or run: they never become done",
    example: "events cancel --state queued --type push",
    details: [
      WHICH,
      ASKS,
      "The signal of a running handler is aborted at the next renewal of its lease. Its event is dead " +
      "once the handler has ended. Until then it counts as cancelled: the exit code for its id is 0, and " +
      "it is in 'beingCancelled' of --json.",
      INTERRUPT,
    ],
    states: ["queued", "running", "parked"],
    ...CHANGING,
  },
  wake: {
    about: "Wake the event that waits for a name, with a value",
    example: `events wake approval:42 '{"approved":true}'`,
    details: [
      "The value is JSON, so a text takes quotes of its own. Without one the handler gets no value.",
      "events list --state parked shows the names that events wait for. If no event waits, the value is " +
      "kept for 7 days. If an earlier one is there that no event has taken yet, the exit code is 1.",
    ],
    ids: "name",
    states: [],
    options: [],
  },
  purge: {
    about: "Delete events that are done or dead",
    example: "events purge --state dead --older-than 30d",
    details: [
      WHICH,
      ASKS_ALWAYS,
      "A delivery that is sent again after that makes a new event.",
      "Events that this version cannot read are deleted with --state unreadable only: another version " +
      "may be able to, and they may wait to be handled.",
      INTERRUPT,
    ],
    states: ["done", "dead", "unreadable"],
    ...CHANGING,
  },
  answers: {
    about: "List the answers that no event has taken yet: when, name, value, who gets it",
    example: "events answers --prefix approval:",
    details: [
      "They came before an event waits for the name, and are kept for 7 days; or they are for a parked event " +
      "that goes on as soon as a worker has room.",
    ],
    ids: "names",
    states: [],
    options: ["prefix", "limit"],
  },
  "delete-answers": {
    about: "Delete answers that no event waits for",
    example: "events delete-answers approval:42",
    details: [
      "Choose them by names, by --prefix, by both, or by --all. An answer that an event waits for is left.",
      ASKS_ALWAYS,
      "Of two answers the first one counts. After this another one can be given with events wake.",
    ],
    ids: "names",
    states: [],
    options: ["prefix", "all", "dry-run", "yes"],
  },
  states: {
    about: "List the states of conversations, or show some with their values",
    example: "events states chat:42 --intake telegram",
    details: [
      "A line has the intake, the key and the time at which the state expires. With keys, states are shown " +
      "with value and version, of all intakes that have such a key.",
    ],
    ids: "keys",
    states: [],
    options: ["intake", "prefix", "limit"],
  },
  "delete-states": {
    about: "Delete states of conversations",
    example: "events delete-states chat:42 --intake telegram",
    details: [
      "Choose them by keys, by --intake, by --prefix, by several of these, or by --all.",
      ASKS_ALWAYS,
      "A handler that has read such a state and changes it fails, and begins anew without it.",
    ],
    ids: "keys",
    states: [],
    options: ["intake", "prefix", "all", "dry-run", "yes"],
  },
  schedules: {
    about: "List the schedules: up to when their slots are made, expression, time zone",
    example: "events schedules",
    details: ["A schedule that the app has no longer is listed as well."],
    ids: "none",
    states: [],
    options: [],
  },
  emit: {
    about: "Emit an event of the app's own, for a handler of bot.from(...)",
    example: `events emit jobs report.due '{"team":"a"}' --id a-today --delay 1h`,
    details: [
      "Without JSON the payload, an object, is read from the standard input.",
      "The app's worker takes the event within a second after it is due.",
      "A source that deliveries have come under is refused: it is a platform.",
    ],
    ids: "event",
    states: [],
    options: ["id", "delay", "group"],
  },
  stats: {
    about: "Count the events of each state",
    example: "events stats --type push --newer-than 1h",
    details: [],
    ids: "none",
    states: ALL_STATES,
    options: FILTERS,
  },
  doctor: {
    about: "Check the store: put lost events back, and name what cannot be read",
    example: "events doctor --kv ./data/forge/kv.db",
    details: [
      "It may run beside the app, which checks its store by itself, slowly. A value that cannot be read was " +
      "written by another version of the package, or is damaged. It is left as it is, and what depends on it " +
      "waits: the exit code is 1 then.",
      "With --discard-unreadable such values are deleted: the value of a state is lost then, and so is the " +
      "answer to a question. Events stay, and may lose their place in their group. It asks before; without a " +
      "terminal it needs --yes.",
    ],
    ids: "none",
    states: [],
    options: ["discard-unreadable", "yes"],
  },
  export: {
    about: "Write events with their payloads, one per line of JSON, for events import",
    example: "events export --kv ./old.db --file events.ndjson",
    details: [
      "Without ids and filters these are all events. Nothing is changed.",
      "While an app runs this is no snapshot: each event is as it is when it is read. To move an app, " +
      "stop it before.",
      "An event that cannot be read is named, and left out; the exit code is 1 then. A file that exists is " +
      "not written over.",
      "The lines contain payloads: protect them as well as the KV.",
    ],
    ids: "any",
    states: ["queued", "running", "parked", "done", "dead"],
    options: [...FILTERS, "file"],
  },
  import: {
    about: "Store the events that events export has written",
    example: "events import --kv ./new.db --namespace my-bot --file events.ndjson",
    details: [
      "An event whose id the KV knows is left as it is, so an import that was interrupted is just run " +
      "again. A running event comes queued.",
      "--namespace is the app's name. It is needed if the KV holds no events yet.",
      "A line that is no event is named, and left out; the exit code is 1 then.",
      INTERRUPT,
    ],
    ids: "none",
    states: [],
    options: ["file", "create", "retention"],
  },
  "catch-up": {
    about: "Ask GitHub again for what failed while the app was down",
    example: "events catch-up --repo acme/site --since 2h",
    details: [
      "GitHub does not send again by itself. Asked for is what no attempt got a 2xx for, and what is not " +
      "stored. What the app refused with 4xx is left alone, except 408 and 429.",
      "The variable GITHUB_TOKEN holds a token with the permission Webhooks (read and write); for " +
      "--github-app, GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY are read instead.",
      "Ctrl-C ends it with a summary. Running it twice does no harm.",
    ],
    ids: "none",
    states: ALL_STATES,
    options: [
      ...["since", "repo", "org", "github-app", "hook", "url", "intake", "max"] as const,
      ...["pace", "dry-run", "api"] as const,
    ],
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
  any: " [ID...]",
  some: " [ID...]",
  needed: " ID...",
  event: " SOURCE TYPE [JSON]",
  name: " NAME [JSON]",
  names: " [NAME...]",
  keys: " [KEY...]",
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
  /**
   * Ids: not taken, optional, one way of a choice that has to be made, or required; or what an event is made
   * of, a name and a value, or names or keys of something else, in their place.
   */
  readonly ids: "none" | "any" | "some" | "needed" | "event" | "name" | "names" | "keys";
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
    const usage = name + IDS[ids];
    return usage.length > 16
      ? `${usage}\n  ${"".padEnd(16)} ${about}`
      : `${usage.padEnd(16)} ${about}`;
  });
  return [
    "Usage: events COMMAND [ID...] [OPTION...]",
    "",
    ...section("Commands", commands),
    ...section("Options", (Object.keys(OPTIONS) as OptionName[]).map(lineOf)),
    ...section("Exit codes", EXIT_CODES),
    "See events COMMAND --help for a command, send --help for sending deliveries to an app, and",
    "connect --help for registering its webhook with Telegram or GitHub.",
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
