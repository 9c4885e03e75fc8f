/**
 * The cases that the Standard Webhooks project tests its own libraries with, as data: those of JavaScript,
 * Python, Java, Go and Rust (github.com/standard-webhooks/standard-webhooks, MIT, as of August 2026). Each
 * is given to `standard()`, whose secrets may lack `whsec_`, under either name of the headers, and to
 * `verifyForgeDelivery()`, for which that prefix makes it a secret of GitLab.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { variablesIn } from "../../core/env.ts";
import { openEventStore } from "../../events/mod.ts";
import { HttpError } from "../../middleware/mod.ts";
import { createIntake, forge, standard, verifyForgeDelivery } from "../../webhook/mod.ts";
import { SENDERS } from "../_senders.ts";
import { svixNamed } from "./_standard.ts";
import { preparePlatform } from "../../webhook/platform.ts";

const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PAYLOAD = '{"test": 2432232314}';
const OTHER = "Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";

const encoder = new TextEncoder();

interface Case {
  /** The secret's base64; what is signed with has the padding that may be missing here. */
  readonly secret?: string;
  readonly payload?: string;
  /** Time of sending, in seconds from now. */
  readonly sent?: number;
  /** Headers that replace the right ones. `$` is the right signature, with its version. */
  readonly headers?: Readonly<Record<string, string | null>>;
}

type Named = Readonly<Record<string, Case>>;

const TAKEN: Named = {
  "a right signature": {},
  "headers in mixed case": {
    headers: { "WEBHOOK-ID": ID, "Webhook-Signature": "$" },
  },
  "several signatures": {
    headers: { "webhook-signature": `v1,${OTHER} v2,${OTHER} $ v1,${OTHER}` },
  },
  "a secret that needs one padding": { secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS" },
  "a secret that needs two paddings": { secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr" },
  "an empty payload": { payload: "" },
  "other signatures around it, as Rust's": {
    headers: {
      "webhook-signature": "v1,tFtCZ5RDCPxzWQRWXWPgrCgE2frDBe9gjpbWQxnVfsQ= " +
        "v1,Mm7xgUVICxZfQ3bgf0h0Dof65L/IFx+PnZvnDWPCX6Q= $ " +
        "v1,9DfC1c3eeOrXB6w/5dIDydLNQaEyww5KalE5jLBZucE=",
    },
  },
};

/** Deliveries that the libraries' parsers of the header accept, though their tests have no such case. */
const TAKEN_BY_READING: Named = {
  "20 signatures": { headers: { "webhook-signature": `${`v1,${OTHER} `.repeat(19)}$` } },
  "as many signatures as a head holds": {
    headers: { "webhook-signature": `${`v1,${OTHER} `.repeat(1_300)}$` },
  },
  "unknown items beside it": {
    headers: { "webhook-signature": `x a,b v1a,MEUCIQ== ${"y".repeat(300)} $ z` },
  },
  "an empty signature beside it": { headers: { "webhook-signature": "v1, $ v1," } },
  "a version of two digits beside it": { headers: { "webhook-signature": `v10,${OTHER} $` } },
  "two spaces": { headers: { "webhook-signature": `v1,${OTHER}  $ ` } },
};

const REFUSED: Named = {
  "no id": { headers: { "webhook-id": null } },
  "no time": { headers: { "webhook-timestamp": null } },
  "a time that is none": { headers: { "webhook-timestamp": "hello" } },
  "no signature": { headers: { "webhook-signature": null } },
  "a signature that is none": { headers: { "webhook-signature": "v1,dawfeoifkpqwoekfpqoekf" } },
  "another signature": {
    headers: { "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA=" },
  },
  "a part of the signature": { headers: { "webhook-signature": "$8" } },
  "an empty signature": { headers: { "webhook-signature": "v1," } },
  "a signature of another version": {
    headers: { "webhook-signature": "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" },
  },
  "a signature without a version": { headers: { "webhook-signature": "invalid_signature" } },
  "a signature that is a word": { headers: { "webhook-signature": "v1,invalid_signature" } },
  "several signatures, none of them right, as Rust's": {
    headers: {
      "webhook-signature": "v1,tFtCZ5RDCPxzWQRWXWPgrCgE2frDBe9gjpbWQxnVfsQ= " +
        "v1,Mm7xgUVICxZfQ3bgf0h0Dof65L/IFx+PnZvnDWPCX6Q= " +
        "v1,9DfC1c3eeOrXB6w/5dIDydLNQaEyww5KalE5jLBZucE=",
    },
  },
  "another time than that which is signed, as Go's": {
    headers: { "webhook-timestamp": "946684800" },
  },
  "a time too long ago": { sent: -301 },
  "a time too far ahead": { sent: 302 },
  // Not of the libraries' cases.
  "the right signature under another version": { headers: { "webhook-signature": "v2$" } },
  "the right signature behind two commas": { headers: { "webhook-signature": "v1,$" } },
  "nothing but spaces": { headers: { "webhook-signature": "     x " } },
};

async function request({ secret = SECRET, payload = PAYLOAD, sent = 0, headers = {} }: Case) {
  const padded = secret.padEnd(Math.ceil(secret.length / 4) * 4, "=");
  const sentAt = Math.floor(Date.now() / 1_000) + sent;
  const signed = await SENDERS.gitlab(payload, { secret: `whsec_${padded}`, id: ID, sentAt });
  const right = signed.headers.get("webhook-signature")!;
  const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
  const all = new Headers(names.map((name) => [name, signed.headers.get(name)!]));
  for (const [name, value] of Object.entries(headers)) {
    if (value === null) all.delete(name);
    else if (value === "$8") all.set(name, right.slice(0, 8));
    else if (value.startsWith("v2$")) all.set(name, right.replace("v1", "v2"));
    else all.set(name, value.replaceAll("$", right));
  }
  return { headers: all, body: encoder.encode(payload), secret: `whsec_${secret}` };
}

/** Verifies a request as an intake of `standard()` does. */
async function verifyStandard(
  headers: Headers,
  bytes: Uint8Array<ArrayBuffer>,
  secrets: readonly string[],
): Promise<string | undefined> {
  const platform = preparePlatform(
    standard({ name: "sender", secrets }),
    variablesIn({}, () => {}),
  );
  return await platform.verifyHead(headers)({ bytes }) ?? undefined;
}

for (const [what, each] of Object.entries({ ...TAKEN, ...TAKEN_BY_READING })) {
  Deno.test(`verifyForgeDelivery() takes what Standard Webhooks does: ${what}`, async () => {
    const { headers, body, secret } = await request(each);
    assertEquals(verifyForgeDelivery(headers, body, ["another", secret]), "secret 2");
  });

  Deno.test(`standard() takes what Standard Webhooks does: ${what}`, async () => {
    const { headers, body, secret } = await request(each);
    for (const sent of [headers, svixNamed(headers)]) {
      for (const known of [secret, secret.replace("whsec_", "")]) {
        assertEquals(await verifyStandard(sent, body, [OTHER, known]), "secret 2");
      }
    }
  });
}

for (const [what, each] of Object.entries(REFUSED)) {
  Deno.test(`verifyForgeDelivery() refuses what Standard Webhooks does: ${what}`, async () => {
    const { headers, body, secret } = await request(each);
    const error = assertThrows(() => verifyForgeDelivery(headers, body, [secret]), HttpError);
    assertEquals(error.status, 401);
  });

  Deno.test(`standard() refuses what Standard Webhooks does: ${what}`, async () => {
    const { headers, body, secret } = await request(each);
    for (const sent of [headers, svixNamed(headers)]) {
      const error = await assertRejects(() => verifyStandard(sent, body, [secret]), HttpError);
      assertEquals(error.status, 401);
    }
  });
}

/** Signatures that the libraries' tests state, with all that they are over. */
const VECTORS = {
  "JavaScript's": {
    ...{ secret: SECRET, id: ID, timestamp: "1614265330", payload: PAYLOAD },
    signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  },
  "Rust's": {
    secret: "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
    timestamp: "1649367553",
    payload: '{"email":"test@example.com","username":"test_user"}',
    signature: "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
  },
};

for (const [whose, { secret, id, timestamp, payload, signature }] of Object.entries(VECTORS)) {
  Deno.test(`standard() takes ${whose} vector, and no other time, id or payload with it`, async () => {
    using _time = new FakeTime(Number(timestamp) * 1_000);
    const verify = (id: string, time: string, body: string) => {
      const headers = new Headers({ "svix-id": id, "svix-timestamp": time });
      headers.set("svix-signature", signature);
      return verifyStandard(headers, encoder.encode(body), [secret, `whsec_${OTHER}`]);
    };
    assertEquals(await verify(id, timestamp, payload), "secret 1");
    const later = String(Number(timestamp) + 1);
    const changes = [[`${id}x`, timestamp, payload], [id, later, payload], [id, timestamp, "{}"]];
    for (const [id, time, body] of changes) {
      await assertRejects(() => verify(id!, time!, body!), HttpError, "Invalid signature");
    }
  });
}

Deno.test("forge() and standard() refuse the empty secrets of Standard Webhooks", () => {
  for (const secret of ["", "whsec_"]) {
    assertThrows(() => forge({ secrets: [secret] }), TypeError);
    assertThrows(() => standard({ name: "sender", secrets: [secret] }), TypeError);
  }
});

Deno.test("a standard signature does not cover the event type, as no forge's does", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const { headers, body, secret } = await request({});
  headers.set("Content-Type", "application/json");
  headers.set("X-Gitlab-Event", "Pipeline Hook");
  const intake = createIntake(forge({ secrets: [secret] }), { store });
  assertEquals((await intake.request("/webhook", { method: "POST", headers, body })).status, 200);
  const [lease] = await store.claim({ limit: 1, owner: "test", leaseMs: 60_000 });
  assertEquals(lease?.record.type, "pipeline");
});
