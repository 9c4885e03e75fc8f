import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import type { ForgeSender } from "../../testing/deliveries.ts";
import { forgeDelivery, messengerUpdate, startTestBot, TEST_SECRETS } from "../../testing/mod.ts";
import { botOf } from "./_bots.ts";
import { SENDERS } from "../_senders.ts";

const DOCUMENT = '{"text":"a+b c&payload=d=e%\u00e9\u{1f600}\\n"}';

const FORGES: readonly (readonly [ForgeSender, form: boolean])[] = [
  ...(["forge", "github", "gitea", "forgejo"] as const).flatMap((from) =>
    [false, true].map((form) => [from, form] as const)
  ),
  ["gitlab", false],
  ["gitlab-token", false],
];

for (const [from, form] of FORGES) {
  Deno.test(`forgeDelivery() is accepted as ${from}'s${form ? ", in a form" : ""}`, async () => {
    await using bot = await startTestBot(botOf(() => {}));
    const { status, event } = await bot.deliver(forgeDelivery("push", DOCUMENT, { from, form }));
    assertEquals([status, event?.state, event?.type], [200, "done", "push"]);
    assertEquals(event?.source, from.replace("-token", ""));
  });

  Deno.test(`forgeDelivery() is refused with ${from}'s wrong secret${form ? ", in a form" : ""}`, async () => {
    await using bot = await startTestBot(botOf(() => {}));
    const secret = `whsec_${btoa("another key")}`;
    const { status, event } = await bot.deliver(
      forgeDelivery("push", DOCUMENT, { from, form, secret }),
    );
    assertEquals([status, event], [401, undefined]);
  });
}

const TWINS = {
  github: [SENDERS.github, TEST_SECRETS.signing],
  gitea: [SENDERS.gitea, TEST_SECRETS.signing],
  forgejo: [SENDERS.forgejo, TEST_SECRETS.signing],
  gitlab: [SENDERS.gitlab, TEST_SECRETS.gitlab],
  "gitlab-token": [SENDERS.gitlabToken, TEST_SECRETS.gitlabToken],
} as const;

for (const [from, [build, secret]] of Object.entries(TWINS)) {
  Deno.test(`forgeDelivery() signs as ${from} does`, async () => {
    for (const form of from.startsWith("gitlab") ? [false] : [false, true]) {
      const options = { id: "id-1", form };
      const [built, expected] = [
        forgeDelivery("push", DOCUMENT, { ...options, from: from as ForgeSender, sentAt: 1.7e12 }),
        await build(DOCUMENT, { ...options, secret, sentAt: 1.7e9 }),
      ];
      assertEquals(built.body, expected.body);
      for (const [name, value] of built.headers) assertEquals(expected.headers.get(name), value);
    }
  });
}

Deno.test("forgeDelivery() takes bytes as they are, and an object as JSON", () => {
  const bytes = Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d);
  assertEquals(forgeDelivery("push", bytes).body, bytes);
  assertEquals(forgeDelivery("push", { a: 1 }).body, '{"a":1}');
});

Deno.test("forgeDelivery() writes GitLab's types as GitLab does", () => {
  const typeOf = (type: string) =>
    forgeDelivery(type, {}, { from: "gitlab" }).headers.get("X-Gitlab-Event");
  assertEquals(typeOf("merge_request"), "Merge Request Hook");
  assertEquals(typeOf("Tag Push Hook"), "Tag Push Hook");
});

Deno.test("forgeDelivery() refuses a signing token that is none", () => {
  assertThrows(() => forgeDelivery("push", {}, { from: "gitlab", secret: "x" }), TypeError);
});

Deno.test("messengerUpdate() gives each update a number of its own", () => {
  const [one, other] = [messengerUpdate({ message: {} }), messengerUpdate({ message: {} })];
  assertNotEquals(one.body, other.body);
  assert(JSON.parse(String(one.body)).update_id >= 0);
  assertEquals(messengerUpdate({ update_id: 7 }).body, '{"update_id":7}');
  assertEquals(messengerUpdate('{"update_id":7} ').body, '{"update_id":7} ');
});

for (const from of ["messenger", "telegram"] as const) {
  Deno.test(`messengerUpdate() is accepted as ${from}'s, and refused with a wrong token`, async () => {
    await using bot = await startTestBot(botOf(() => {}));
    const { status, event } = await bot.deliver(messengerUpdate({ message: {} }, { from }));
    assertEquals([status, event?.state, event?.source], [200, "done", from]);
    const wrong = await bot.deliver(messengerUpdate({ message: {} }, { from, secret: "wrong" }));
    assertEquals([wrong.status, wrong.code, wrong.event], [401, "INVALID_TOKEN", undefined]);
  });
}
