import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { runHere } from "./_cli.ts";

Deno.test("--help tells all commands, options and exit codes", async () => {
  for (const args of [["--help"], ["-h"], ["events", "--help"]]) {
    const { code, out } = await runHere(args);
    assertEquals(code, 0);
    for (const part of ["purge [ID...]", "--older-than AGE", "130 "]) {
      assertStringIncludes(out[0]!, part);
    }
  }
});

Deno.test("--help of a command tells its own options and states, and no others", async () => {
  for (const args of [["replay", "--help"], ["replay", "-h"], ["replay", "d1", "--help"]]) {
    const { code, out } = await runHere(["events", ...args]);
    assertEquals(code, 0);
    assertStringIncludes(out[0]!, "events in this state: dead");
    assert(!out[0]!.includes("--limit"));
  }
  assertEquals((await runHere(["events", "listen", "--help"])).code, 2);
});

/** Parts of the other help texts. */
const PARTS = {
  send: ["--bad FAULT", "--secret-file PATH", "GITHUB_WEBHOOK_SECRET"],
  connect: ["--take-over", "--since AGE", "TELEGRAM_BOT_TOKEN", "admin:repo_hook"],
};

Deno.test("send --help and connect --help tell the options and the variables", async () => {
  for (const [topic, parts] of Object.entries(PARTS)) {
    const { code, out } = await runHere([topic, "--help"]);
    assertEquals(code, 0);
    for (const part of parts) assertStringIncludes(out[0]!, part);
  }
});

Deno.test("no line of a help text is too long for a terminal", async () => {
  const events = ["list", "show", "replay", "cancel", "purge", "emit", "stats", "doctor"];
  const flows = [
    "answers",
    "delete-answers",
    "states",
    "delete-states",
    "limits",
    "reopen-limit",
    "problems",
    "schedules",
  ];
  const names = [...events, ...flows, "export", "import", "catch-up"];
  const commands = [...names.map((name) => ["events", name]), ["events"], ["send"], ["connect"]];
  for (const command of commands) {
    const { out } = await runHere([...command, "--help"]);
    for (const line of out[0]!.split("\n")) assert(line.length <= 100, line);
  }
});
