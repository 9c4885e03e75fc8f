import examples from "@octokit/webhooks-examples" with { type: "json" };
import { assert, assertEquals, assertThrows } from "@std/assert";
import { startWorker, type WebhookEvent } from "../../events/mod.ts";
import { forge as platform } from "../../webhook/mod.ts";

import type { RequestOptions } from "../_request_options.ts";
import { type SenderOptions, SENDERS } from "../_senders.ts";
import { forgeIntake, type ForgeIntakeOptions, openIntake } from "./_intakes.ts";

const HUB_SECRET = "It's a Secret to Everybody";
const STANDARD_SECRET = `whsec_${btoa("32 bytes that nobody can guess..")}`;
const OTHER_STANDARD_SECRET = `whsec_${btoa("32 bytes that nobody would guess")}`;
const TOKEN = "a-token-that-travels";

const DOCUMENT = '{"text":"a+b c&payload=d=e%\u00e9\u{1f600}\\n"}';

type Secrets = Pick<ForgeIntakeOptions, "secrets" | "tokens">;

/** Secrets of an app that accepts one kind of sender only. */
const ONLY: Record<keyof typeof SENDERS, Secrets> = {
  github: { secrets: [HUB_SECRET] },
  gitea: { secrets: [HUB_SECRET] },
  forgejo: { secrets: [HUB_SECRET] },
  gitlab: { secrets: [STANDARD_SECRET] },
  gitlabToken: { tokens: [TOKEN] },
};

const ALL: Secrets = { secrets: [HUB_SECRET, STANDARD_SECRET], tokens: [TOKEN] };

type Sender = keyof typeof SENDERS;
type Sent = RequestOptions & { readonly headers: Headers };

function send(sender: Sender, options: Partial<SenderOptions> = {}, document = DOCUMENT) {
  const { secrets = [], tokens = [] } = ONLY[sender];
  return SENDERS[sender](document, { secret: [...secrets, ...tokens][0]!, ...options });
}

/** Posts a request to a fresh app, and returns what it answers, logs and stores. */
async function post(sent: Sent | Promise<Sent>, secrets: Secrets) {
  using sut = await openIntake((store) => forgeIntake({ ...secrets, store }));
  const response = await sut.post(sent);
  const [event] = await sut.events();
  return {
    status: response.status,
    code: response.headers.get("X-Error-Code"),
    records: sut.records,
    event: event && { ...event, body: new TextDecoder().decode(event.body) },
  };
}

async function assertRefused(sent: Sent | Promise<Sent>, secrets: Secrets, code: string) {
  const { status, code: found, event } = await post(sent, secrets);
  assertEquals([status, found, event], [401, code, undefined]);
}

for (const sender of Object.keys(SENDERS) as Sender[]) {
  Deno.test(`forge() takes what ${sender} sends with nothing but its secret`, async () => {
    const { status, event } = await post(send(sender, { id: "id-1" }), ONLY[sender]);
    assertEquals([status, event?.body], [200, DOCUMENT]);
    assertEquals([event?.source, event?.type], [sender.replace("Token", ""), "push"]);
    assertEquals(event?.deliveryId, "id-1");
  });

  Deno.test(`forge() answers 401 to ${sender} with another secret`, async () => {
    const secret = sender === "gitlab" ? OTHER_STANDARD_SECRET : "another secret, and a long one";
    const code = sender === "gitlabToken" ? "INVALID_TOKEN" : "INVALID_SIG";
    await assertRefused(send(sender, { secret }), ONLY[sender], code);
  });
}

for (const sender of ["github", "gitea", "forgejo"] as const) {
  Deno.test(`forge() takes a form as ${sender} signs it`, async () => {
    const { status, event } = await post(send(sender, { form: true }), ONLY[sender]);
    assertEquals([status, event?.body, event?.source], [200, DOCUMENT, sender]);
  });
}

Deno.test("forge() takes a ping like any event", async () => {
  const ping = send("github", { type: "ping" }, '{"zen":"Design for failure.","hook_id":1}');
  const { status, event } = await post(ping, ONLY.github);
  assertEquals([status, event?.type], [200, "ping"]);
});

const GITLAB_TYPES: Record<string, string> = {
  "Merge Request Hook": "merge_request",
  "Confidential Note Hook": "confidential_note",
  "System Hook": "system",
  "push": "push",
};

for (const [header, type] of Object.entries(GITLAB_TYPES)) {
  Deno.test(`forge() makes the type ${type} of GitLab's "${header}"`, async () => {
    assertEquals((await post(send("gitlab", { type: header }), ONLY.gitlab)).event?.type, type);
  });
}

Deno.test("forge() answers 400 to a GitLab event type that is none", async () => {
  for (const type of ["Push", "Push  Hook", " Hook", "a b"].map((text) => `${text} x`)) {
    assertEquals((await post(send("gitlab", { type }), ONLY.gitlab)).code, "INVALID_EVENT");
  }
});

Deno.test("forge() does not take a secret that is signed with for a token", async () => {
  for (const secret of [HUB_SECRET, STANDARD_SECRET]) {
    await assertRefused(send("gitlabToken", { secret }), { secrets: [secret] }, "MISSING_SIG");
    await assertRefused(send("gitlabToken", { secret }), ALL, "INVALID_TOKEN");
  }
});

Deno.test("forge() does not take a token for a secret that is signed with", async () => {
  await assertRefused(send("github", { secret: TOKEN }), ALL, "INVALID_SIG");
  await assertRefused(send("github", { secret: TOKEN }), ONLY.gitlabToken, "MISSING_TOKEN");
});

Deno.test("forge() does not let a right token make up for a wrong signature", async () => {
  const wrong = [
    await send("github", { secret: "another secret, and a long one" }),
    await send("gitlab", { secret: OTHER_STANDARD_SECRET }),
  ];
  for (const sent of wrong) {
    sent.headers.set("X-Gitlab-Token", TOKEN);
    await assertRefused(sent, ALL, "INVALID_SIG");
  }
});

Deno.test("forge() does not let one right signature make up for another", async () => {
  const sent = await send("gitlab");
  sent.headers.set("X-Hub-Signature-256", `sha256=${"0".repeat(64)}`);
  await assertRefused(sent, ALL, "INVALID_SIG");
});

Deno.test("forge() judges only credentials that it has secrets for", async () => {
  const sent = await send("gitlab");
  sent.headers.set("X-Gitlab-Token", TOKEN);
  assertEquals((await post(sent, ONLY.gitlabToken)).status, 200);
  await assertRefused(send("gitlab"), ONLY.gitlabToken, "MISSING_TOKEN");
  await assertRefused(send("gitlab"), ONLY.github, "MISSING_SIG");
});

Deno.test("forge() judges a token before it reads the body", async () => {
  let pulled = 0;
  const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
  const { headers } = await send("gitlabToken", { secret: "another token" });
  await assertRefused({ method: "POST", headers, body }, ONLY.gitlabToken, "INVALID_TOKEN");
  assertEquals(pulled, 0);
});

Deno.test("forge() takes one of several standard signatures", async () => {
  const sent = await send("gitlab");
  const right = sent.headers.get("webhook-signature")!;
  const other = `v1,${btoa("0".repeat(32))}`;
  for (const signatures of [`${other} ${right}`, `${right} ${other}`, `v1a,MEUCIQ== ${right}`]) {
    sent.headers.set("webhook-signature", signatures);
    assertEquals((await post(sent, ONLY.gitlab)).status, 200);
  }
});

const CHANGES: Record<string, (headers: Headers) => void> = {
  "another id": (headers) => headers.set("webhook-id", "id-2"),
  "another time": (headers) => headers.set("webhook-timestamp", String(Date.now()).slice(0, 10)),
  "no id": (headers) => headers.delete("webhook-id"),
  "no time": (headers) => headers.delete("webhook-timestamp"),
  "a time with a fraction": (headers) => headers.set("webhook-timestamp", "1700000000.5"),
  "two times": (headers) => headers.append("webhook-timestamp", "1700000000"),
  "a time that is no number": (headers) => headers.set("webhook-timestamp", "now"),
  "two headers, both right": (headers) =>
    headers.append("webhook-signature", headers.get("webhook-signature")!),
  "a signature without its version": (headers) =>
    headers.set("webhook-signature", headers.get("webhook-signature")!.slice(3)),
  "a signature of another version": (headers) =>
    headers.set("webhook-signature", headers.get("webhook-signature")!.replace("v1", "v2")),
  "a signature that is cut": (headers) =>
    headers.set("webhook-signature", headers.get("webhook-signature")!.slice(0, -4)),
};

for (const [what, change] of Object.entries(CHANGES)) {
  Deno.test(`forge() answers 401 to a standard signature with ${what}`, async () => {
    const sent = await send("gitlab", { sentAt: Math.floor(Date.now() / 1_000) - 60 });
    change(sent.headers);
    await assertRefused(sent, ONLY.gitlab, "INVALID_SIG");
  });
}

Deno.test("forge() answers 401 to another body under a standard signature", async () => {
  await assertRefused({ ...(await send("gitlab")), body: "{}" }, ONLY.gitlab, "INVALID_SIG");
});

Deno.test("forge() takes a standard signature of 4 minutes ago, or ahead", async () => {
  for (const minutes of [-4, 4]) {
    const sentAt = Math.floor(Date.now() / 1_000) + minutes * 60;
    assertEquals((await post(send("gitlab", { sentAt }), ONLY.gitlab)).status, 200);
  }
});

Deno.test("forge() answers 401 to a standard signature of 6 minutes ago, or ahead", async () => {
  for (const minutes of [-6, 6]) {
    const sentAt = Math.floor(Date.now() / 1_000) + minutes * 60;
    const { status, code, records } = await post(send("gitlab", { sentAt }), ONLY.gitlab);
    assertEquals([status, code], [401, "STALE_SIG"]);
    assertEquals(records[0]?.message, "delivery refused: Stale signature");
    await assertRefused(
      send("gitlab", { sentAt, secret: OTHER_STANDARD_SECRET }),
      ONLY.gitlab,
      "INVALID_SIG",
    );
  }
});

Deno.test("forge() knows a standard delivery by the id that is signed", async () => {
  const sent = await send("gitlab", { id: "signed-id" });
  for (const name of ["X-Forge-Delivery", "X-GitHub-Delivery", "Idempotency-Key"]) {
    sent.headers.set(name, "another-id");
  }
  sent.headers.set("X-Forge-Event", "push");
  assertEquals((await post(sent, ONLY.gitlab)).event?.deliveryId, "signed-id");
});

Deno.test("forge() logs which of several secrets has verified a delivery", async () => {
  const expected: readonly (readonly [Sent, string])[] = [
    [await send("github"), "secret 1"],
    [await send("gitea", { form: true }), "secret 1"],
    [await send("gitlab"), "secret 2"],
    [await send("gitlabToken"), "token 1"],
  ];
  for (const [sent, verifiedBy] of expected) {
    const { records } = await post(sent, ALL);
    assertEquals(records.map((record) => record.verifiedBy), [verifiedBy]);
    for (const secret of [HUB_SECRET, STANDARD_SECRET, TOKEN]) {
      assert(!JSON.stringify(records).includes(secret));
    }
  }
});

Deno.test("forge() logs no position where there is one secret only", async () => {
  assertEquals((await post(send("github"), ONLY.github)).records[0]?.verifiedBy, undefined);
});

const BAD: readonly (readonly [Secrets, string])[] = [
  [{ secrets: [], tokens: [] }, "'secrets' must be an array with at least one secret"],
  [{ secrets: ["good"], tokens: [""] }, "token 1 is blank"],
  [{ secrets: [""], tokens: ["good"] }, "secret 1 is blank"],
  [{ secrets: ["good", "whsec_!"] }, "secret 2 begins with whsec_ and is not base64"],
  [{ secrets: ["whsec_"] }, "secret 1 begins with whsec_ and is not base64"],
  [{ tokens: ["a\nb"] }, "token 1 has characters that no header can bring"],
  [{ secrets: ["good", "same"], tokens: ["same"] }, "token 1 is the same as secret"],
];

for (const [secrets, message] of BAD) {
  Deno.test(`forge() refuses ${JSON.stringify(secrets)}: ${message}`, () => {
    const define = () => platform(secrets);
    assertThrows(define, TypeError, `Cannot define the platform 'forge': ${message}`);
  });
}

Deno.test("forge() brings all of GitHub's examples to the handler byte for byte", async () => {
  using sut = await openIntake((store) => forgeIntake({ ...ONLY.github, store }));
  const handled = new Map<string, WebhookEvent>();
  const worker = startWorker(sut.store, (event) => void handled.set(event.deliveryId!, event));
  const sent = new Map<string, readonly [type: string, body: string]>();
  for (const { name, examples: payloads } of examples) {
    for (const payload of payloads) {
      const [id, body] = [crypto.randomUUID(), JSON.stringify(payload)];
      sent.set(id, [name, body]);
      assertEquals((await sut.post(send("github", { type: name, id }, body))).status, 200);
    }
  }
  await worker.poll();
  await worker.stop();
  assert(sent.size > 200);
  assertEquals(handled.size, sent.size);
  for (const [id, [type, body]] of sent) {
    const event = handled.get(id)!;
    assertEquals([event.type, event.source], [type, "github"]);
    assertEquals(new TextDecoder().decode(event.body), body);
    assertEquals(event.payload, JSON.parse(body));
  }
});
