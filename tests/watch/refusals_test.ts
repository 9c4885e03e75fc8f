import { assert, assertEquals } from "@std/assert";
import { isRefusalList, merged, RefusalNotes } from "../../watch/refusals.ts";
import { WallClock } from "../_wall_clock.ts";
import { testStoreOnce } from "../events/store/contract/_contract.ts";

const DAY_MS = 86_400_000;

/** Notes a refusal, and returns whether its request was looked at. */
function refuse(
  notes: RefusalNotes,
  headers: Record<string, string> = {},
  code = "INVALID_SIG",
  platform = "github",
): boolean {
  let isRead = false;
  const request = () => {
    isRead = true;
    return { headers: new Headers(headers), address: "203.0.113.7" };
  };
  notes.note({ platform, outcome: "rejected", code, request });
  return isRead;
}

Deno.test("a sample shows no header that may have a secret in it", () => {
  const notes = new RefusalNotes();
  const secret = "s3cret-0123456789";
  refuse(notes, {
    ...{
      "X-GitHub-Event": "push",
      "User-Agent": "GitHub-Hookshot/1",
      "X-Hub-Signature-256": secret,
    },
    ...{
      "X-Gitlab-Token": secret,
      Cookie: secret,
      Authorization: secret,
      "Webhook-Signature": secret,
    },
    ...{ "X-Telegram-Bot-Api-Secret-Token": secret, "X-My-Key": secret },
  });
  const [noted] = notes.list();
  const { headers, address } = noted!.samples[0]!;
  assertEquals(address, "203.0.113.7");
  assertEquals(headers.filter(({ value }) => value !== undefined), [
    { name: "user-agent", value: "GitHub-Hookshot/1" },
    { name: "x-github-event", value: "push" },
  ]);
  assertEquals(headers.length, 9);
  assert(!JSON.stringify(notes.list()).includes(secret));
});

Deno.test("refusals take little memory, and are hardly looked at, however many there are", () => {
  using clock = new WallClock();
  const notes = new RefusalNotes();
  const long = Object.fromEntries(
    Array.from({ length: 500 }, (_, i) => [`x-${i}-${"n".repeat(100)}`, "v".repeat(1_000)]),
  );
  let read = 0;
  for (let i = 0; i < 20_000; i++) if (refuse(notes, long)) read++;
  assert(read <= 5, `${read}`);
  assertEquals(notes.list()[0]!.count, 20_000);
  for (let i = 0; i < 1_000; i++) {
    clock.advance(2);
    refuse(notes, long, `CODE_${i}${"c".repeat(5_000)}`, "p".repeat(5_000));
  }
  const size = JSON.stringify(notes.list()).length;
  assert(notes.list().length === 20 && size < 60_000, `${size}`);
  assert(isRefusalList(JSON.parse(JSON.stringify(notes.list()))));
  // What is an hour old makes room.
  clock.advance(3_600_001);
  refuse(notes, {}, "NEW");
  assertEquals(notes.list()[0]!.code, "NEW");
});

/** Headers whose values are shown. */
const SHOWN = [
  ...["accept", "content-encoding", "content-type", "host", "user-agent", "webhook-id"],
  ...["x-github-delivery", "x-github-event", "x-github-hook-id", "x-gitlab-event"],
  ...["x-github-hook-installation-target-id", "x-github-hook-installation-target-type"],
  ...["x-gitlab-event-uuid", "x-gitlab-instance", "x-gitlab-webhook-uuid", "x-gitea-delivery"],
  ...["x-gitea-event", "x-forgejo-delivery", "x-forgejo-event", "webhook-timestamp"],
];

testStoreOnce("what is refused is stored, however long its headers are", async ({ store }) => {
  using clock = new WallClock();
  const notes = new RefusalNotes();
  const headers = Object.fromEntries(SHOWN.map((name) => [name, "é".repeat(200)]));
  for (let i = 0; i < 60; i++) {
    clock.advance(1_001);
    refuse(notes, headers, `CODE_${i % 20}`);
  }
  const record = { kind: "refused", number: 1, id: "a", value: notes.take() } as const;
  await store.consoleRecords.write([{ ...record, forMs: 3_600_000 }]);
  const [stored] = await Array.fromAsync(store.consoleRecords.last("refused", 1));
  const { value } = stored!;
  assert(isRefusalList(value));
  assertEquals(value.map(({ count }) => count), Array(20).fill(3));
  // The latest ones stay.
  assertEquals([value[0]!.code, value[0]!.samples.length], ["CODE_19", 3]);
  assertEquals(value[0]!.samples, notes.list()[0]!.samples);
});

Deno.test("refusals begin anew after an hour without any, and those of several processes add up", () => {
  using clock = new WallClock();
  const [a, b] = [new RefusalNotes(), new RefusalNotes()];
  const start = Date.now();
  refuse(a);
  clock.advance(3_000_000);
  refuse(a);
  refuse(b);
  const [both] = merged([a.list(), b.list()]);
  assertEquals([both!.count, both!.samples.length], [3, 3]);
  assert(both!.since - start < 1_000 && both!.last - start >= 3_000_000);
  clock.advance(3_600_001);
  refuse(a);
  assertEquals(a.list()[0]!.count, 1);
  assertEquals([a.take()?.length, a.take()], [1, undefined]);
});

Deno.test("what was refused is forgotten after a day, also by a process that refuses nothing more", () => {
  using clock = new WallClock();
  const notes = new RefusalNotes();
  refuse(notes);
  assertEquals(notes.take()?.length, 1);
  clock.advance(DAY_MS - 1_000);
  assertEquals([notes.take(), notes.list().length], [undefined, 1]);
  clock.advance(1_001);
  assertEquals(notes.take(), undefined);
  clock.advance(-1_001);
  assertEquals(notes.list(), []);
});
