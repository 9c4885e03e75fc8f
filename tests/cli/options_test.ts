import { assertEquals } from "@std/assert";
import { type CliOptions, readOptions } from "../../cli/_commands.ts";
import type { EventFilter } from "../../events/mod.ts";
import { runHere } from "./_cli.ts";

const NOW = 1_000_000_000;
const DAY = 86_400_000;
const HOUR = 3_600_000;

const read = (...args: string[]) => readOptions(["events", ...args], NOW) as CliOptions;

Deno.test("readOptions() reads what is to be done where", () => {
  assertEquals(read("list", "--kv", "./a.db", "--namespace=bot", "--json", "--limit", "3"), {
    ...{ command: "list", words: [], filter: {}, asks: false },
    values: { json: true, limit: 3, kv: "./a.db", namespace: "bot" },
  });
});

Deno.test("readOptions() reads ids wherever they stand", () => {
  assertEquals(read("replay", "d1", "--type", "push", "d2").filter, {
    ...{ ids: ["d1", "d2"], type: "push" },
  });
  assertEquals(read("show", "--", "--d1").filter, { ids: ["--d1"] });
});

Deno.test("readOptions() takes a negative number as a value, such as the id of a group", () => {
  const { filter } = read("list", "--chat", "-1001234567890", "--ordering-key", "-5:messages");
  assertEquals(filter, { chat: -1001234567890, orderingKey: "-5:messages" });
});

/** Conditions as they are given, and what they mean. */
const CONDITIONS: readonly (readonly [readonly string[], EventFilter])[] = [
  [["--state", "dead"], { state: "dead" }],
  [["--type=push"], { type: "push" }],
  [["--source", "github"], { source: "github" }],
  [["--repository", "octocat/hello-world", "--chat=-5"], {
    repository: "octocat/hello-world",
    chat: -5,
  }],
  [["--ordering-key", "a:1"], { orderingKey: "a:1" }],
  [["--text", "Crash"], { text: "Crash" }],
  [["--older-than", "1d"], { receivedBefore: NOW - DAY }],
  [["--newer-than", "2d"], { receivedAfter: NOW - 2 * DAY }],
  [["--settled-before", "1h"], { settledBefore: NOW - HOUR }],
  [["d1", "d2"], { ids: ["d1", "d2"] }],
];

Deno.test("readOptions() reads all combinations of ids and filters", () => {
  for (let bits = 1; bits < 2 ** CONDITIONS.length; bits++) {
    const given = CONDITIONS.filter((_, i) => bits & (1 << i));
    const args = given.flatMap(([args]) => args);
    const filter = Object.assign({}, ...given.map(([, filter]) => filter));
    for (const command of ["replay", "purge"]) assertEquals(read(command, ...args).filter, filter);
    if (filter.ids) continue;
    for (const command of ["list", "stats"]) assertEquals(read(command, ...args).filter, filter);
  }
});

Deno.test("readOptions() has a command ask that deletes, or that changes what a filter chooses", () => {
  const asked = [
    ["purge", "d1"],
    ["purge", "--all"],
    ["replay", "--all"],
    ["replay", "d1", "--type", "push"],
    ["cancel", "--state", "queued"],
    ["delete-states", "a"],
    ["delete-answers", "--all"],
  ];
  for (const args of asked) {
    assertEquals(read(...args).asks, true, args.join(" "));
    for (const option of ["--yes", "--dry-run"]) {
      assertEquals(read(...args, option).asks, false, args.join(" "));
    }
  }
  for (const args of [["replay", "d1"], ["cancel", "d1", "d2"], ["list", "--state", "dead"]]) {
    assertEquals(read(...args).asks, false, args.join(" "));
  }
});

Deno.test("readOptions() reads ages in seconds, minutes, hours and days", () => {
  const ages = { "0s": 0, "30s": 30_000, "15m": 900_000, "12h": 43_200_000, "7d": 7 * DAY };
  for (const [age, ms] of Object.entries(ages)) {
    assertEquals(read("list", "--older-than", age).filter, { receivedBefore: NOW - ms });
  }
});

const MISTAKES: Readonly<Record<string, string>> = {
  "":
    "Give a command: list, show, replay, forget-step, set-step, cancel, answer, wake, purge, answers, delete-answers, states, delete-states, limits, reopen-limit, problems, schedules, emit, stats, doctor, export, backup, migrate, import, catch-up",
  "listen": "Unknown command: events listen, did you mean list?",
  "constructor": "Unknown command: events constructor",
  "list d1": "events list takes no ids (events show does)",
  "stats d1": "events stats takes no ids (events show does)",
  "show": "Give the ids of events",
  "show d1 --state dead": "events show has no --state",
  "replay": "Give ids, a filter, or --all",
  "cancel": "Give ids, a filter, or --all",
  "purge": "Give ids, a filter, or --all",
  "purge d1 --all": "--all goes with no other choice",
  "purge --type push --all": "--all goes with no other choice",
  "purge --all --limit 1": "events purge has no --limit",
  "list --all": "events list has no --all",
  "list --unknown": "Unknown option --unknown",
  "list --stat dead": "Unknown option --stat, did you mean --state?",
  "list --older 1d": "Unknown option --older, did you mean --older-than?",
  "list --tpye push": "Unknown option --tpye, did you mean --type?",
  "list -x": "Unknown option -x",
  "list --no-json": "Unknown option --no-json",
  "list --json=yes": "--json takes no value",
  "list --json --json": "--json is given twice",
  "list --state dead --state done": "--state is given twice",
  "list --state": "--state needs a value: --state STATE",
  "list --type=": "--type needs a value: --type TYPE",
  "list --type --json": "--type needs a value: --type TYPE",
  "list --chat -h": "--chat needs a value: --chat ID",
  "list --state asleep": "--state must be one of queued, running, parked, done, dead, " +
    "unreadable, got asleep",
  "list --state ded": "--state must be one of queued, running, parked, done, dead, " +
    "unreadable, got ded, did you mean dead?",
  "list --outcome canceled":
    "--outcome must be one of handled, ignored, failed, cancelled, got canceled, did you mean cancelled?",
  "list --outcome handled --state dead": "No event is both dead and handled",
  "replay --outcome handled": "Events that are handled are done: give --state done as well",
  "replay --outcome cancelled --state done": "No event is both done and cancelled",
  "cancel --outcome failed": "events cancel takes no dead events",
  "purge --outcome failed --state unreadable": "The --outcome of unreadable events is not known",
  "list --yes": "events list has no --yes",
  "list --dry-run": "events list has no --dry-run",
  "replay --state queued": "--state must be one of dead, done, got queued",
  "cancel --state dead": "--state must be one of queued, running, parked, got dead",
  "purge --state queued": "--state must be one of done, dead, unreadable, got queued",
  "list --state unreadable --type push": "The --type of unreadable events is not known",
  "list --state unreadable --ordering-key a":
    "The --ordering-key of unreadable events is not known",
  "list --chat five": "--chat must be a number, got five",
  "list --older-than soon": "--older-than must be an age such as 30s, 15m, 12h or 7d, got soon",
  "list --newer-than 1.5h": "--newer-than must be an age such as 30s, 15m, 12h or 7d, got 1.5h",
  "list --newer-than=-1h": "--newer-than must be an age such as 30s, 15m, 12h or 7d, got -1h",
  "list --state unreadable --settled-before 1h":
    "The --settled-before of unreadable events is not known",
  "list --older-than 2d --newer-than 1d":
    "No event is both older than --older-than and newer than --newer-than",
  "wake": "Give the name that the event waits for",
  "wake a 1 2": "Give a name and one JSON document",
  "wake a yes": "The value must be JSON, such as true, 42 or '\"a text\"', got yes",
  "wake a --state parked": "events wake has no --state",
  "list --limit 0": "--limit must be a number from 1, got 0",
  "list --limit many": "--limit must be a number from 1, got many",
};

Deno.test("the tool explains in one line what it cannot understand", async () => {
  for (const [line, message] of Object.entries(MISTAKES)) {
    const args = line === "" ? [] : line.split(" ");
    assertEquals(await runHere(["events", ...args]), { code: 2, out: [], err: [message] });
  }
});

Deno.test("the tool explains what it lacks before the command", async () => {
  assertEquals((await runHere([])).err, ["Give a command, such as events list, send or connect"]);
  assertEquals((await runHere(["list"])).err, ["Unknown command: list, did you mean events list?"]);
  assertEquals((await runHere(["event", "list"])).err, [
    "Unknown command: event, did you mean events?",
  ]);
});
