/**
 * Commands on events: a table of their options, words and help texts, and the reading of their command lines.
 *
 * @module
 */
import { FORMS, MAX_PACE_MS } from "../catch_up/options.ts";
import { httpUrl } from "../core/hosts.ts";
import type { EventFilter, EventStore, StoredEvent } from "../events/mod.ts";
import type { Database } from "../events/store/store_definition.ts";
import { isProblemId } from "../events/store/problem.ts";
import {
  EVENT_STATES,
  OPEN_STATES,
  OUTCOMES,
  STORED_STATES,
} from "../events/store/event_record.ts";
import {
  apiOption,
  COMMON,
  formed,
  hint,
  matching,
  numeric,
  oneOf,
  optionLines,
  readValues,
  section,
  splitArguments,
  timed,
  type Values,
  wrap,
} from "./_arguments.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Options that choose events. `--state` takes the states that the command applies to. */
const FILTERS = {
  state: oneOf("STATE", "events in this state", STORED_STATES),
  outcome: oneOf("OUTCOME", `events with this outcome: ${OUTCOMES.join(", ")}`, OUTCOMES),
  type: { value: "TYPE", about: "events of this type, such as push or issues.opened" },
  source: {
    value: "NAME",
    about: "events of this product or intake, or of this source of the app",
  },
  repository: { value: "NAME", about: "events of this repository, such as octocat/hello-world" },
  chat: numeric("ID", "events of this chat"),
  "ordering-key": { value: "KEY", about: "events with this ordering key" },
  problem: formed(
    "ID",
    "events that have failed by this problem, as events problems lists it",
    "the id of a problem",
    (text) => isProblemId(text) ? text : undefined,
  ),
  text: {
    value: "TEXT",
    about: "events with this text in an id, a name, their description or an error",
  },
  "older-than": timed("AGE", "events received longer ago, such as 30s, 15m, 12h or 7d"),
  "newer-than": timed("AGE", "events received since"),
  "settled-before": timed("AGE", "events that are done or dead for longer, such as 1h"),
} as const;

/** Options of every command. */
const OF_ALL = {
  store: {
    value: "URL",
    about:
      "the database, sqlite:PATH, kv:PATH, kv:https://HOST or postgres://...; by default that of SQLITE_FILE, " +
      "KV_URL or DATABASE_URL, or else Deno's default KV",
  },
  kv: { value: "KV", about: "a path or URL: the same as --store kv:KV" },
  namespace: {
    value: "NAME",
    about: "the app's name, if a database holds the events of several apps",
  },
  ...COMMON,
} as const;

/** Options of all commands. */
const OPTIONS = {
  ...FILTERS,
  limit: numeric("N", "only N, of events those received last", 1),
  since: timed("AGE", "deliveries of this age at most, such as 2h: GitHub keeps 3 days"),
  repo: matching("OWNER/REPO", "the repository whose webhook leads to the app", FORMS.repository),
  org: matching("NAME", "the organization whose webhook leads to the app", FORMS.organization),
  "github-app": { about: "the webhook of a GitHub App leads to the app" },
  hook: matching("ID", "the id of the webhook, if there are several", FORMS.id),
  url: formed(
    "URL",
    "the URL of the webhook, instead of its id",
    "a URL with http or https",
    (text) => httpUrl(text)?.href,
  ),
  intake: {
    value: "NAME",
    about: "the intake; by default github for catch-up, and any for states",
  },
  prefix: { value: "TEXT", about: "only keys or names that begin with this" },
  max: numeric("N", "ask for N deliveries at most, by default 1000", 1, 99_999),
  pace: numeric("MS", "the milliseconds between two requests, by default 250", 0, MAX_PACE_MS),
  delivered: { about: "ask for what was answered 2xx and is not stored, as after a restore" },
  "dry-run": { about: "only say what would be done" },
  yes: { about: "do not ask before" },
  api: apiOption("the address of GitHub's API, for GitHub Enterprise Server"),
  all: { about: "all that the command applies to" },
  fresh: { about: "let dead events begin anew, without their steps and answers" },
  by: numeric("ID", "the id of the sender in whose name is answered"),
  id: { value: "ID", about: "the event's id: one that is known is not stored again" },
  delay: timed("TIME", "the time until it is due, such as 30s, 15m, 12h or 7d", "a time"),
  group: { value: "KEY", about: "the ordering key: one event of a key is handled at a time" },
  file: { value: "FILE", about: "the file with the events, instead of standard output or input" },
  create: { about: "make the file or the tables of the database if there are none" },
  print: { about: "write the statements, and change nothing" },
  "discard-unreadable": { about: "delete what cannot be read, except events" },
  retention: timed("AGE", "the app's retentionMs, if that is not 7d"),
  ...OF_ALL,
} as const;

type OptionName = keyof typeof OPTIONS;

/** Values of the options of all commands. */
export type EventValues = Values<typeof OPTIONS>;

/** Description of a command. */
interface Command {
  /** Purpose, in one line. */
  readonly about: string;
  /** Command line of an example. */
  readonly example: string;
  /** Further sentences of its help. */
  readonly details: readonly string[];
  /** Words beside the options, as its help shows them; undefined for none. */
  readonly words?: string;
  /** States of the events that it applies to. */
  readonly states?: readonly StoredEvent["state"][];
  /** Options beside the ones that every command has. */
  readonly options?: readonly OptionName[];
  /** Ways to choose what it changes: one must be given, or `--all`. */
  readonly choice?: string;
  /** Decides whether it asks before. */
  readonly asks?: (values: EventValues) => boolean;
  /** Further checks. */
  readonly check?: (words: readonly string[], values: EventValues) => void;
}

/** Names of the options that choose events. */
const FILTER_NAMES = Object.keys(FILTERS) as (keyof typeof FILTERS)[];

const CHANGING = {
  words: "[ID...]",
  options: [...FILTER_NAMES, "all", "dry-run", "yes"],
  choice: "ids, a filter",
} as const;

const WHICH =
  "Choose events by ids, by filters, by both (the ids that pass the filters), or by --all.";

const ASKS =
  "It asks before, unless they are chosen by ids alone. Without a terminal it needs --yes.";

const ASKS_ALWAYS = "It asks before. Without a terminal it needs --yes.";

const INTERRUPT = "Ctrl-C stops it between two commits: the changes up to then remain.";

/** Commands on events. */
const COMMANDS = {
  list: {
    about: "List events, one per line: received, state, attempts, type, id, last error",
    example: "events list --state dead --newer-than 2d --limit 20",
    details: ["They are listed in the order received."],
    states: STORED_STATES,
    options: [...FILTER_NAMES, "limit"],
  },
  show: {
    about: "Show events with their payloads",
    example: "events show 72d3162e-cc78-11e3-81ab-4c9367dc0958",
    details: [
      "An id is the event's, or its delivery's as on the forge's page.",
      "The payload of a done event is shown as long as the app keeps it.",
      "An event whose payload is lost is shown as well; the exit code is 1 then.",
    ],
    words: "ID...",
    states: STORED_STATES,
  },
  replay: {
    about: "Put dead events back, or done ones, so that they are handled again",
    example: "events replay --type push --newer-than 2d",
    details: [
      WHICH,
      "Dead events are those that failed. A cancelled one is put back by its id, or with --outcome " +
      "cancelled.",
      "A dead event goes on with the steps that it has stored; with --fresh it begins anew.",
      "Done events are put back with --state done only, as long as the app keeps their payloads. Their work " +
      "is done again.",
      ASKS,
      "Events of one ordering key are handled in the order received.",
      INTERRUPT,
    ],
    states: ["dead", "done"],
    ...CHANGING,
    options: [...CHANGING.options, "fresh"],
    asks: isChosenByOption,
  },
  "forget-step": {
    about: "Forget a step of an event and what came after it, to be repeated",
    example: "events forget-step github:72d3162e-cc78-11e3-81ab-4c9367dc0958 'on(push)/review'",
    details: [
      "events show lists the steps of an event, with their results. An event that runs or is done is left as it is.",
      "A dead event is put back with events replay then.",
    ],
    words: "ID NAME",
    check: ({ length }) => {
      if (length !== 2) throw new UsageError("Give the id of the event and the name of the step");
    },
  },
  "set-step": {
    about: "Say that a step has happened of which that is unknown, with its result",
    example:
      "events set-step github:72d3162e-cc78-11e3-81ab-4c9367dc0958 'on(push)/post' '{\"id\":7}'",
    details: [
      "events show lists the steps of an event; one that is unknown has isBegun. Without JSON it has no result.",
      "A dead event is put back with events replay then, and goes on after the step.",
    ],
    words: "ID NAME [JSON]",
    check: (words) => {
      if (words.length < 2) {
        throw new UsageError("Give the id of the event and the name of the step");
      }
      checkWake(words.slice(1));
    },
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
    states: OPEN_STATES,
    ...CHANGING,
    asks: isChosenByOption,
  },
  answer: {
    about: "Answer a question that a handler has asked",
    example: "events answer 76C8TnL7J9jiTXQ1iO4CKW true --by 4711",
    details: [
      "The name is the one that the question was sent with. Without JSON the value is undefined.",
      "If only some senders may answer, --by is the id of one of them.",
    ],
    words: "NAME [JSON]",
    options: ["by"],
    check: checkWake,
  },
  wake: {
    about: "Wake the event that waits for a name, with a value",
    example: `events wake approval:42 '{"approved":true}'`,
    details: [
      "The value is JSON, so a text needs quotes. Without one the handler gets no value.",
      "events list --state parked shows the names that events wait for. If no event waits, the value is " +
      "kept for 7 days. If an earlier one is there that no event has taken yet, the exit code is 1.",
      "A name that begins with ask/ is a question: see events answer.",
    ],
    words: "NAME [JSON]",
    check: checkWake,
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
    asks: () => true,
  },
  answers: {
    about: "List the answers that no event has taken yet: when, name, value, who gets it",
    example: "events answers --prefix approval:",
    details: [
      "Some came before an event waits for the name, and are kept for 7 days. The others belong to a parked " +
      "event that goes on as soon as a worker has room.",
    ],
    words: "[NAME...]",
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
    words: "[NAME...]",
    options: ["prefix", "all", "dry-run", "yes"],
    choice: "names, --prefix",
    asks: () => true,
  },
  states: {
    about: "List the states of conversations, or show some with their values",
    example: "events states chat:42 --intake telegram",
    details: [
      "A line has the intake, the key and the time at which the state expires. With keys, states are shown " +
      "with value and version, of all intakes that have such a key.",
    ],
    words: "[KEY...]",
    options: ["intake", "prefix", "limit"],
  },
  "delete-states": {
    about: "Delete states of conversations",
    example: "events delete-states chat:42 --intake telegram",
    details: [
      "Choose them by keys, by --intake, by --prefix, by several of these, or by --all.",
      ASKS_ALWAYS,
      "A handler that has read such a state and changes it fails, and starts again without it.",
    ],
    words: "[KEY...]",
    options: ["intake", "prefix", "all", "dry-run", "yes"],
    choice: "keys, --intake, --prefix",
    asks: () => true,
  },
  limits: {
    about: "List the limits of services: name, key, what is free now, until when it is closed",
    example: "events limits github",
    details: [
      "Room that a process has taken for calls that it has not made yet is not free. A limit is listed until " +
      "a minute after all of it is free again.",
    ],
    words: "[NAME...]",
    options: ["limit"],
  },
  "reopen-limit": {
    about: "Open a limit of a service that a handler has closed until too late",
    example: "events reopen-limit telegram 42",
    details: [
      "Without KEY it is the limit that counts for all. Events that were put off until it would have opened come " +
      "no sooner: cancel and replay those.",
    ],
    words: "NAME [KEY]",
    check: ({ length }) => {
      if (length === 1 || length === 2) return;
      throw new UsageError("Give the name of the limit, and the key if it has one");
    },
  },
  problems: {
    about: "List the errors of failed events: last time, numbers, id, handler, error",
    example: "events problems",
    details: [
      "Errors are the same problem if they are of one handler and differ only by ids, numbers, addresses and what " +
      "is quoted. Each has its number of dead events and of those that are tried again, the time of the last " +
      "failed attempt, its id, its handler and an error. events replay --problem ID puts its dead events back.",
    ],
    words: "[ID...]",
    options: ["limit"],
  },
  schedules: {
    about: "List the schedules: up to when their slots are made, expression, time zone",
    example: "events schedules",
    details: ["A schedule that the app no longer has is listed as well."],
  },
  emit: {
    about: "Emit an event for a handler of bot.from(...)",
    example: `events emit jobs report.due '{"team":"a"}' --id a-today --delay 1h`,
    details: [
      "Without JSON the payload, an object, is read from the standard input.",
      "The app's worker takes the event within a second after it is due.",
      "A source with the name of a platform is refused.",
    ],
    words: "SOURCE TYPE [JSON]",
    check: ({ length }) => {
      if (length === 2 || length === 3) return;
      throw new UsageError(
        "Give the source and the type of the event, then its payload as one argument",
      );
    },
    options: ["id", "delay", "group"],
  },
  stats: {
    about: "Count the events of each state",
    example: "events stats --type push --newer-than 1h",
    details: [],
    states: STORED_STATES,
    options: FILTER_NAMES,
  },
  doctor: {
    about: "Check the store: put lost events back, and name what cannot be read",
    example: "events doctor --kv ./data/forge/kv.db",
    details: [
      "It may run beside the app, which checks its store by itself, slowly. A value that cannot be read was " +
      "written by another version of the package, or is damaged. It is left as it is, and what depends on it " +
      "waits: the exit code is 1 then.",
      "--discard-unreadable deletes these values: a state loses its value then, and a question its answer. Events stay, and may lose their place in their group. It asks before; without a " +
      "terminal it needs --yes.",
    ],
    options: ["discard-unreadable", "yes"],
    asks: (values) => values["discard-unreadable"] === true,
  },
  export: {
    about: "Write events with their payloads, one per line of JSON, for events import",
    example: "events export --kv ./old.db --file events.ndjson",
    details: [
      "Without ids and filters these are all events. Nothing is changed.",
      "While an app runs, this is not a snapshot: events are read one after the other. To move an app, " +
      "stop it before.",
      "An event that cannot be read is named, and left out; the exit code is 1 then. A file that exists is " +
      "not written over.",
      "The lines contain payloads: protect them as well as the database.",
    ],
    words: "[ID...]",
    states: EVENT_STATES,
    options: [...FILTER_NAMES, "file"],
  },
  backup: {
    about: "Copy a SQLite file, also while the app runs",
    example: "events backup --store sqlite:./data/my-bot.db ./my-bot-backup.db",
    details: [
      "All that the app has answered before the copy begins is in it. A file that exists is not written over.",
      "The copy is checked (pragma integrity_check). If it is damaged, it is left under another name, which is " +
      "told, and the exit code is 1.",
      "To restore, stop the app, put the copy in the place of its file, delete the files beside it whose names " +
      "end in -wal and -shm, and start the app.",
      "The copy contains payloads: protect it as well as the database. No other database has such a copy: of a " +
      "Postgres database pg_dump makes one.",
    ],
    words: "FILE",
    check: ({ length }) => {
      if (length !== 1) throw new UsageError("Give the name of the copy");
    },
  },
  migrate: {
    about: "Write the statements that make the tables of a store in a Postgres database",
    example: "events migrate --print --store postgres://my_bot@db.example.com/my_db",
    details: [
      "An app makes its tables by itself when it starts. If its user may not, have somebody run the statements who " +
      "may: they make the tables, and give the user of the URL the rights to use them.",
      "The database is not asked, so the URL needs no password. It names the schema by ?store_schema=, edge_base by default.",
    ],
    options: ["print"],
    check: (_, { print }) => {
      if (!print) throw new UsageError("Give --print: an app makes its tables when it starts");
    },
  },
  import: {
    about: "Store the events that events export has written",
    example: "events import --kv ./new.db --namespace my-bot --file events.ndjson",
    details: [
      "An event whose id the database knows is left as it is, so an interrupted import can be run again. A " +
      "running event becomes queued.",
      "--namespace is the app's name. It is needed if the database holds no events yet.",
      "A line that is not an event is named, and left out; the exit code is 1 then.",
      INTERRUPT,
    ],
    options: ["file", "create", "retention"],
    check: (_, values) => {
      if (values.create !== true || ((values.store ?? values.kv) && values.namespace)) return;
      throw new UsageError("--create needs --store or --kv, and --namespace");
    },
  },
  "catch-up": {
    about: "Ask GitHub again for what failed while the app was down",
    example: "events catch-up --repo acme/site --since 2h",
    details: [
      "GitHub does not send again by itself. It is asked for every delivery that was never answered 2xx and " +
      "is not stored. What the app refused with 4xx is left alone, except 408, 425 and 429.",
      "The variable GITHUB_TOKEN holds a token with the permission Webhooks (read and write); for " +
      "--github-app, GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY are read instead.",
      "Ctrl-C ends it with a summary. Running it twice does no harm.",
    ],
    options: [
      ...["since", "repo", "org", "github-app", "hook", "url", "intake", "max"] as const,
      ...["pace", "delivered", "dry-run", "api"] as const,
    ],
    check: checkCatchUp,
  },
} as const satisfies Record<string, Command>;

/** Exit codes, with their meaning. */
const EXIT_CODES = [
  "0    done",
  "1    not everything could be done",
  "2    the command line is wrong, and nothing was done",
  "130  ended by Ctrl-C",
];

/** Name of a command. */
export type CommandName = keyof typeof COMMANDS;

/** Command line of a command on events. */
export interface CliOptions {
  readonly command: CommandName;
  /** Ids, names or keys; for `emit` the source, type and payload. */
  readonly words: readonly string[];
  readonly values: EventValues;
  /** Filter for the events, with the given ids. */
  readonly filter: EventFilter;
  /** Set if the user is asked before anything is done. */
  readonly asks: boolean;
}

/** Command that is run. */
export interface CliRun extends CliOptions {
  readonly database: Database;
  readonly store: EventStore;
  readonly namespace: string;
  readonly world: CliWorld;
}

/** Reads a command line: `events COMMAND [ID...] [--OPTION ...]`. */
export function readOptions(
  args: readonly string[],
  now: number,
): CliOptions | { readonly help: string } {
  const { words: [topic, name, ...words], given } = splitArguments(args, OPTIONS);
  const isHelp = given.has("help");
  if (isHelp && name === undefined && (topic ?? "events") === "events") {
    return { help: helpOfAll() };
  }
  if (topic !== "events") throw new UsageError(topicMessage(topic));
  const command = commandOf(name);
  if (isHelp) return { help: helpOfCommand(command) };
  const description: Command = COMMANDS[command];
  const values = readValues(`events ${command}`, optionsOf(description), given) as EventValues;
  const filter = filterOf(command, words, values, now);
  checkWords(command, words, values);
  description.check?.(words, values);
  const isDecided = values.yes === true || values["dry-run"] === true;
  const asks = !isDecided && description.asks?.(values) === true;
  return { command, words, values, filter, asks };
}

/** Collects the options of a command. `--state` takes its states. */
function optionsOf({ states = [], options = [] }: Command): Partial<typeof OPTIONS> {
  const names: OptionName[] = [...options, ...Object.keys(OF_ALL) as OptionName[]];
  const own = names.map((name) => [name, OPTIONS[name]]);
  const state = oneOf("STATE", `${OPTIONS.state.about}: ${states.join(", ")}`, states);
  return { ...Object.fromEntries(own), ...names.includes("state") && { state } };
}

function commandOf(text: string | undefined): CommandName {
  const names = Object.keys(COMMANDS) as CommandName[];
  if (text === undefined) throw new UsageError(`Give a command: ${names.join(", ")}`);
  const name = names.find((each) => each === text);
  if (name !== undefined) return name;
  throw new UsageError(`Unknown command: events ${text}${hint(text, names)}`);
}

function topicMessage(topic: string | undefined): string {
  if (topic === undefined) return "Give a command, such as events list, send or connect";
  if (Object.hasOwn(COMMANDS, topic)) {
    return `Unknown command: ${topic}, did you mean events ${topic}?`;
  }
  return `Unknown command: ${topic}${hint(topic, ["events", "send", "connect"])}`;
}

/** Checks whether options choose what a command changes: they may match more than expected. */
function isChosenByOption(values: EventValues): boolean {
  const names: readonly OptionName[] = [...FILTER_NAMES, "intake", "prefix", "all"];
  return names.some((name) => values[name] !== undefined);
}

/** Checks that the command line chooses explicitly: a command must not change others by accident. */
function checkWords(command: CommandName, words: readonly string[], values: EventValues): void {
  const { words: takes, choice }: Command = COMMANDS[command];
  if (takes === undefined && words.length > 0) {
    throw new UsageError(`events ${command} takes no ids (events show does)`);
  }
  if (takes === "ID..." && words.length === 0) throw new UsageError("Give the ids of events");
  if (choice === undefined) return;
  const { all, ...others } = values;
  const isChosen = words.length > 0 || isChosenByOption(others);
  if (all && isChosen) throw new UsageError("--all goes with no other choice");
  if (!all && !isChosen) throw new UsageError(`Give ${choice}, or --all`);
}

function filterOf(
  command: CommandName,
  words: readonly string[],
  values: EventValues,
  now: number,
): EventFilter {
  const { words: takes = "", states = [] }: Command = COMMANDS[command];
  const { state, outcome, type, source, repository, chat, problem, ...others } = values;
  const { "older-than": olderThan, "newer-than": newerThan } = others;
  if (olderThan !== undefined && newerThan !== undefined && olderThan >= newerThan) {
    throw new UsageError("No event is both older than --older-than and newer than --newer-than");
  }
  if (outcome !== undefined) checkOutcome(command, outcome, states, state);
  const unknown = FILTER_NAMES.filter((name) =>
    !["state", "older-than", "newer-than"].includes(name)
  )
    .find((name) => values[name] !== undefined);
  if (state === "unreadable" && unknown !== undefined) {
    throw new UsageError(`The --${unknown} of unreadable events is not known`);
  }
  const before = (age: number | undefined) => age === undefined ? undefined : now - age;
  const filter: EventFilter = {
    ...{ state, outcome, type, source, repository, chat, problem, text: others.text },
    orderingKey: others["ordering-key"],
    receivedBefore: before(olderThan),
    receivedAfter: before(newerThan),
    settledBefore: before(others["settled-before"]),
    ids: takes.includes("ID...") && words.length > 0 ? words : undefined,
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

function checkOutcome(
  command: CommandName,
  outcome: typeof OUTCOMES[number],
  states: readonly StoredEvent["state"][],
  state: StoredEvent["state"] | undefined,
): void {
  const end = outcome === "handled" || outcome === "ignored" ? "done" : "dead";
  if (!states.includes(end)) throw new UsageError(`events ${command} takes no ${end} events`);
  if (command === "replay" && end === "done" && state === undefined) {
    throw new UsageError(`Events that are ${outcome} are done: give --state done as well`);
  }
  if (state === undefined || state === "unreadable" || state === end) return;
  throw new UsageError(`No event is both ${state} and ${outcome}`);
}

function checkWake([name, text, ...others]: readonly string[]): void {
  if (name === undefined) throw new UsageError("Give the name that the event waits for");
  if (others.length > 0) throw new UsageError("Give a name and one JSON document");
  try {
    JSON.parse(text ?? "null");
  } catch {
    throw new UsageError(`The value must be JSON, such as true, 42 or '"a text"', got ${text}`);
  }
}

function checkCatchUp(_words: readonly string[], values: EventValues): void {
  const { since, repo, org, "github-app": isApp, hook, url } = values;
  if (since === undefined) {
    throw new UsageError("Give the age of the oldest deliveries: --since 2h");
  }
  if (since === 0) throw new UsageError("--since must be longer than 0");
  if ([repo, org, isApp].filter((given) => given !== undefined).length !== 1) {
    throw new UsageError("Give one of --repo OWNER/REPO, --org NAME and --github-app");
  }
  if (isApp && (hook ?? url) !== undefined) {
    throw new UsageError("--github-app goes with neither --hook nor --url: an app has one webhook");
  }
  if (hook !== undefined && url !== undefined) {
    throw new UsageError("Give --hook or --url, not both");
  }
}

function helpOfAll(): string {
  const commands = Object.entries(COMMANDS).map(
    ([name, { about, words = "" }]: [string, Command]) => {
      const usage = `${name} ${words}`.trimEnd();
      return usage.length > 16
        ? `${usage}\n  ${"".padEnd(16)} ${about}`
        : `${usage.padEnd(16)} ${about}`;
    },
  );
  return [
    "Usage: events COMMAND [ID...] [OPTION...]",
    "",
    ...section("Commands", commands),
    ...section("Options", optionLines(OPTIONS)),
    ...section("Exit codes", EXIT_CODES),
    "See events COMMAND --help for a command, send --help for sending deliveries to an app, and",
    "connect --help for registering its webhook with Telegram or GitHub.",
  ].join("\n");
}

function helpOfCommand(name: CommandName): string {
  const command: Command = COMMANDS[name];
  const { about, example, details, words = "" } = command;
  return [
    `Usage: ${`events ${name} ${words}`.trimEnd()} [OPTION...]`,
    "",
    ...[`${about}.`, ...details].flatMap((text) => wrap(text)),
    "",
    ...section("Example", [example]),
    ...section("Options", optionLines(optionsOf(command))),
  ].join("\n").trimEnd();
}
