import { assertEquals } from "@std/assert";
import { claimOne, delivery } from "../events/store/_events.ts";
import { ask } from "../events/store/_limited.ts";
import { until } from "../events/worker/_worker.ts";
import { recordKey, type Sut, testCli } from "./_cli.ts";
import { changeValue, setNewer } from "../events/store/kv/_values.ts";

const iso = (time: number) => new Date(time).toISOString();

async function setStates({ store }: Sut): Promise<void> {
  // The tool finds the namespace by its events.
  await store.accept(delivery("d1"));
  await (await store.state("chat:1", { intake: "telegram" })).set({ step: 1 });
  await (await store.state("chat:1")).set(["a", 1]);
  await (await store.state("chat:2", { intake: "telegram" })).set("x", { expireAfterMs: 60_000 });
}

testCli("events states lists states without their values", async (sut) => {
  await setStates(sut);
  const { code, out } = await sut.cli("states");
  const [, , last] = await Array.fromAsync(sut.store.states());
  assertEquals([code, out], [0, [
    "-  chat:1",
    "telegram  chat:1",
    `telegram  chat:2  until ${iso(last!.expiresAt!)}`,
  ]]);
  const lines = async (...args: string[]) => (await sut.cli("states", ...args)).out;
  assertEquals(await lines("--intake", "telegram", "--limit", "1"), [out[1]!]);
  assertEquals(await lines("--prefix", "chat:2"), [out[2]!]);
  const [first] = (await lines("--json")).map((line) => JSON.parse(line));
  assertEquals(Object.keys(first), ["key", "version"]);
});

testCli("events states shows the value and the version of states with a key", async (sut) => {
  await setStates(sut);
  const { code, out } = await sut.cli("states", "chat:1");
  const { version } = await sut.store.state("chat:1", { intake: "telegram" });
  assertEquals([code, out.length], [0, 2]);
  assertEquals(JSON.parse(out[0]!).value, ["a", 1]);
  assertEquals(JSON.parse(out[1]!), {
    ...{ intake: "telegram", key: "chat:1", version, value: { step: 1 } },
  });
  const [shown] = (await sut.cli("states", "chat:2", "--json")).out;
  assertEquals([JSON.parse(shown!).value, shown!.includes("\n")], ["x", false]);
  const missing = await sut.cli("states", "chat:1", "chat:9", "--intake", "telegram");
  assertEquals([missing.code, missing.out.length, missing.err], [1, 1, [
    "There is no state chat:9",
  ]]);
});

testCli("events states shows what it cannot read", async (sut) => {
  await sut.store.accept(delivery("d1"));
  await (await sut.store.state("a")).set(1);
  await setNewer(sut.kv, ["bot", "state", "", "a"]);
  assertEquals((await sut.cli("states")).out, ["-  a  unreadable"]);
  assertEquals((await sut.cli("delete-states", "a", "--yes")).out, ["1 deleted"]);
});

testCli("events delete-states deletes those that are chosen", async (sut) => {
  await setStates(sut);
  const { code, err } = await sut.cli("delete-states");
  assertEquals([code, err], [2, ["Give keys, --intake, --prefix, or --all"]]);
  const one = await sut.cli("delete-states", "chat:1", "chat:9", "--intake", "telegram", "--yes");
  assertEquals([one.code, one.out], [1, ["1 deleted", "not deleted: chat:9 (there is none)"]]);
  assertEquals((await sut.cli("states")).out.length, 2);
  const prefixed = await sut.cli("delete-states", "--prefix", "chat:2", "--json", "--yes");
  assertEquals(JSON.parse(prefixed.out[0]!), { deleted: 1, left: [] });
  assertEquals((await sut.cli("delete-states", "--all", "--yes")).out, ["1 deleted"]);
  assertEquals((await sut.cli("states")).out, []);
  const both = await sut.cli("delete-states", "a", "--all");
  assertEquals([both.code, both.err], [2, ["--all goes with no other choice"]]);
});

testCli("events answers lists the answers that no event has taken", async ({ cli, store }) => {
  await store.wake("approval:1", { text: "\x1b[31m" });
  await store.wake("other");
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "approval:2", timeoutMs: 60_000 });
  await store.wake("approval:2", true);
  const [first, second] = await Array.fromAsync(store.answers());
  const { code, out } = await cli("answers", "--prefix", "approval:");
  assertEquals([code, out], [0, [
    `${iso(first!.at)}  approval:1  {"text":"\\u001b[31m"}  kept until ${iso(first!.keptUntil!)}`,
    `${iso(second!.at)}  approval:2  true  for d1`,
  ]]);
  const [json] = (await cli("answers", "approval:2", "--json")).out.map((line) => JSON.parse(line));
  assertEquals([json.name, json.value, json.eventId, json.at], [
    "approval:2",
    true,
    "d1",
    second!.at,
  ]);
  const missing = await cli("answers", "approval:9");
  assertEquals([missing.code, missing.err], [1, ["There is no answer for approval:9"]]);
});

testCli("events delete-answers deletes what no event takes", async ({ cli, store }) => {
  await store.wake("early", 1);
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "waited", timeoutMs: 60_000 });
  await store.wake("waited", 1);
  assertEquals((await cli("delete-answers")).err, ["Give names, --prefix, or --all"]);
  const json = await cli("delete-answers", "early", "no", "--dry-run", "--json");
  assertEquals(json.out, ['{"deleted":1,"left":["no"],"dryRun":true}']);
  const { code, out } = await cli("delete-answers", "--all", "--yes");
  assertEquals([code, out], [1, ["1 deleted", "not deleted: waited (an event takes it)"]]);
  assertEquals((await claimOne(store)).record.woken?.[0]?.value, "1");
  assertEquals((await cli("answers")).out, []);
});

testCli("events problems tells what errors events have, and chooses by them", async (sut) => {
  const { cli, store } = sut;
  assertEquals((await cli("problems")).out, []);
  for (const id of ["1", "2"]) {
    await store.accept(delivery(`d${id}`));
    await store.bury(await claimOne(store), new Error(`no issue ${id}`), { handler: "on(push)" });
  }
  await store.accept(delivery("d3"));
  await store.retry(await claimOne(store), 60_000, new TypeError("\x1b[31m"));
  const { problems } = await store.inspect.problems();
  const [first, second] = problems;
  const { code, out } = await cli("problems");
  assertEquals([code, out], [0, [
    `${iso(first!.lastAt)}  2 dead, 0 retrying  ${first!.id}  github/on(push)  Error: no issue 1`,
    `${iso(second!.lastAt)}  0 dead, 1 retrying  ${second!.id}  github/push  TypeError:  [31m`,
  ]]);
  assertEquals((await cli("problems", "--limit", "1")).out, out.slice(0, 1));
  assertEquals((await cli("problems", second!.id)).out, out.slice(1));
  const json = (await cli("problems", "--json")).out.map((line) => JSON.parse(line));
  assertEquals(json, JSON.parse(JSON.stringify(problems)));
  const missing = await cli("problems", "0123456789abcdef");
  assertEquals([missing.code, missing.err], [1, ["There is no problem 0123456789abcdef"]]);
  assertEquals((await cli("list", "--problem", second!.id)).out.length, 1);
  assertEquals((await cli("replay", "--problem", first!.id, "--yes")).out, ["2 replayed"]);
  assertEquals((await cli("purge", "--problem", first!.id, "--yes")).out, ["0 purged"]);
  assertEquals((await cli("cancel", "--problem", second!.id, "--yes")).out, ["1 cancelled"]);
  assertEquals((await cli("problems")).out, []);
  assertEquals((await cli("list", "--problem", "no")).code, 0);
  assertEquals((await cli("list", "--problem", "../x")).code, 2);
});

testCli("events limits tells what is free of each, and until when it is closed", async (sut) => {
  const { cli, store } = sut;
  await store.accept(delivery("d1"));
  assertEquals((await cli("limits")).out, []);
  const rule = { limit: 2, perMs: 3_600_000 };
  for (const key of ["42", "\x1b[31m"]) await ask(store, rule, { name: "chats", key });
  await ask(store, rule, { name: "models" });
  await store.tokens.of("models", "").closeFor(600_000);
  await store.tokens.of("new", "").closeFor(600_000);
  await store.tokens.of("newer", "1").closeFor(1);
  await setNewer(sut.kv, ["bot", "limit", "newer", "1"]);
  const limits = await Array.fromAsync(store.limits());
  const [, , models, closed] = limits.map(({ closedUntil }) => closedUntil);
  const { code, out } = await cli("limits");
  assertEquals([code, out], [0, [
    "chats   [31m  1 free of 2 in 3600 s",
    "chats  42  1 free of 2 in 3600 s",
    `models  -  0 free of 2 in 3600 s  closed until ${iso(models!)}`,
    `new  -  closed until ${iso(closed!)}`,
    "newer  1  unreadable",
  ]]);
  assertEquals((await cli("limits", "chats", "--limit", "1")).out, out.slice(0, 1));
  assertEquals((await cli("limits", "chats", "new")).out, [0, 1, 3].map((i) => out[i]!));
  const json = (await cli("limits", "--json")).out.map((line) => JSON.parse(line));
  assertEquals(json, JSON.parse(JSON.stringify(limits)));
  const missing = await cli("limits", "telegram");
  assertEquals([missing.code, missing.err], [1, ["There is no limit telegram"]]);
});

testCli("events reopen-limit opens a limit that is closed", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  for (const key of ["", "42"]) await store.tokens.of("chats", key).closeFor(600_000);
  assertEquals((await cli("reopen-limit", "chats", "42")).out, ["reopened: chats 42"]);
  const again = await cli("reopen-limit", "chats", "42");
  assertEquals([again.code, again.out], [1, ["not reopened: chats 42 (it is not closed)"]]);
  assertEquals((await cli("reopen-limit", "chats", "--json")).out, ['{"reopened":true}']);
  for (const words of [[], ["a", "b", "c"]]) {
    assertEquals((await cli("reopen-limit", ...words)).code, 2);
  }
});

testCli("events schedules tells up to when slots are made", async ({ cli, store }) => {
  await store.accept(delivery("d1"));
  assertEquals((await cli("schedules")).out, []);
  const notes = store.scheduleNotes;
  const now = Date.parse("2026-11-23T10:00:00Z");
  await notes.write("digest", { plan: "0 7 * * 1-5 UTC", at: now }, null);
  const making = { owner: "o", until: now, since: now + 1_000, firstTriedAt: now };
  const paused = { at: now + 2_000, by: "Ada" };
  await notes.write("hourly", { plan: "0 * * * * UTC", at: now, making, paused }, null);
  await notes.write("newer", {}, null);
  const { code, out } = await cli("schedules");
  assertEquals([code, out], [0, [
    "digest  made up to 2026-11-23T10:00:00.000Z  0 7 * * 1-5 UTC",
    "hourly  made up to 2026-11-23T10:00:00.000Z  0 * * * * UTC  being made since 2026-11-23T10:00:01.000Z  paused since 2026-11-23T10:00:02.000Z",
    "newer  unreadable",
  ]]);
  const json = (await cli("schedules", "--json")).out.map((line) => JSON.parse(line));
  assertEquals([json[0].name, json[0].at, json[2]], ["digest", now, {
    name: "newer",
    unreadable: true,
  }]);
  assertEquals((await cli("schedules", "digest")).err, [
    "events schedules takes no ids (events show does)",
  ]);
});

const last = async ({ cli }: Sut, ...args: string[]) =>
  (await cli("list", ...args)).out.map((line) => line.split("  ").at(-1));

testCli("events list and stats tell when delayed events are due", async (sut) => {
  const { id } = await sut.store.emit("jobs", "item", {}, { delayMs: 60_000 });
  const { dueAt } = (await sut.store.get(id))!;
  assertEquals(await last(sut), [`due at ${iso(dueAt!)}`]);
  const { out } = await sut.cli("stats");
  assertEquals([out[0], out.length], ["queued     1 (1 due later)", 6]);
  assertEquals(JSON.parse((await sut.cli("stats", "--json")).out[0]!).dueLater, 1);
  const soon = await sut.store.emit("jobs", "item", {}, { delayMs: 10 });
  const due = (await sut.store.get(soon.id))!.dueAt!;
  await until(() => Date.now() >= due);
  assertEquals((await last(sut)).at(-1), soon.id);
});

testCli("events list and show tell that a parked event was woken", async (sut) => {
  const { cli, store } = sut;
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "approval:1", timeoutMs: 60_000 });
  await store.wake("approval:1", { at: 1 });
  const { at } = (await Array.fromAsync(store.answers()))[0]!;
  assertEquals(await last(sut, "--state", "parked"), [`woken at ${iso(at)}, not claimed yet`]);
  const shown = async (...args: string[]) => JSON.parse((await cli("show", "d1", ...args)).out[0]!);
  assertEquals((await shown()).answer, { at: iso(at), value: { at: 1 } });
  assertEquals((await shown("--json")).answer, { at, value: { at: 1 } });
  const lease = await claimOne(store);
  const { at: takenAt } = lease.record.woken![0]!;
  const woken = { name: "approval:1", value: { at: 1 } };
  assertEquals((await shown()).woken, [{ ...woken, at: iso(takenAt) }]);
  assertEquals((await shown("--json")).woken, [{ ...woken, at: takenAt }]);
  const [listed] = (await cli("list", "--json")).out.map((line) => JSON.parse(line));
  assertEquals([listed.woken, (await shown()).answer], [[{ ...woken, at: takenAt }], undefined]);
});

testCli("events list and show write a value that is damaged as it is", async (sut) => {
  const { cli, kv, store } = sut;
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "a", timeoutMs: 60_000 });
  await store.wake("a", 1);
  await claimOne(store);
  const key = await recordKey(kv, "d1");
  await changeValue(kv, key, { woken: [{ name: "a", at: 1, value: "{" }] });
  for (const args of [["list", "--json"], ["show", "d1"], ["show", "d1", "--json"]]) {
    assertEquals(JSON.parse((await cli(...args)).out[0]!).woken[0].value, "{");
  }
});
