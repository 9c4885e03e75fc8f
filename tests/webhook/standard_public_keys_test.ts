import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { variablesIn } from "../../core/env.ts";
import { signStandard } from "../../dev/harness/sign.ts";
import { HttpError } from "../../middleware/mod.ts";
import { standard } from "../../webhook/mod.ts";
import { BodyBudget } from "../../webhook/body_budget.ts";
import { openShop } from "./_standard.ts";
import { preparePlatform, type VerifyHead } from "../../webhook/platform.ts";

/** Public key of RFC 8032, section 7.1, test 1. */
const PUBLIC_KEY = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

const SECRET = btoa("a key of the tests, of 32 bytes..");

const encoder = new TextEncoder();

interface Sent {
  readonly id: string;
  readonly time: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

const SENT: Sent = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  time: "1614265330",
  body: '{"test": 2432232314}',
};

/** Signature over that by the private key of the RFC, as OpenSSL 3.0.19 makes it. */
const SIGNATURE = "v1a,fldxM4gAKugP6nnt1hdz3sgGfZ6d99nzrMFnZOELIxbz" +
  "EHoVmAb2ADpkJK7zgPePmPsle0zV9jSeGlHFG2NVAw==";

function verifierOf(...secrets: string[]): VerifyHead {
  return preparePlatform(standard({ name: "shop", secrets }), variablesIn({}, () => {})).verifyHead;
}

function bytesIn(body: string | Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? encoder.encode(body) : body;
}

function headersOf({ id, time }: Sent, signatures: string): Headers {
  return new Headers({
    "Content-Type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": time,
    "webhook-signature": signatures,
  });
}

async function verify(verifyHead: VerifyHead, signatures: string, sent = SENT) {
  return await verifyHead(headersOf(sent, signatures))({ bytes: bytesIn(sent.body) });
}

/** A sender with a key pair of its own. */
async function newSender() {
  const { publicKey, privateKey } = await crypto.subtle.generateKey("Ed25519", true, [
    "sign",
    "verify",
  ]) as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  return {
    raw,
    key: `whpk_${btoa(String.fromCharCode(...raw))}`,
    async sign({ id, time, body }: Sent): Promise<string> {
      const signed = await new Blob([`${id}.${time}.`, body]).arrayBuffer();
      const signature = await crypto.subtle.sign("Ed25519", privateKey, signed);
      return `v1a,${btoa(String.fromCharCode(...new Uint8Array(signature)))}`;
    },
  };
}

const now = () => String(Math.floor(Date.now() / 1_000));

const hmac = ({ id, time, body }: Sent, key: string | Uint8Array) =>
  signStandard(body, id, time, key);

Deno.test("a public key verifies a signature of OpenSSL under the key of RFC 8032", async () => {
  using _time = new FakeTime(Number(SENT.time) * 1_000);
  assertEquals(await verify(verifierOf(PUBLIC_KEY), SIGNATURE), undefined);
  assertEquals(await verify(verifierOf(SECRET, PUBLIC_KEY), SIGNATURE), "secret 2");
});

Deno.test("a public key verifies no other id, time or body", async () => {
  using _time = new FakeTime(Number(SENT.time) * 1_000);
  const changes = [{ id: "msg_2" }, { time: "1614265331" }, { body: "{}" }, { body: "" }];
  for (const change of changes) {
    const changed = verify(verifierOf(PUBLIC_KEY), SIGNATURE, { ...SENT, ...change });
    const { code } = await assertRejects(() => changed, HttpError);
    assertEquals(code, "INVALID_SIG", JSON.stringify(change));
  }
});

Deno.test("a signature under a public key is stale after 5 minutes", async () => {
  using time = new FakeTime(Number(SENT.time) * 1_000 + 300_000);
  assertEquals(await verify(verifierOf(PUBLIC_KEY), SIGNATURE), undefined);
  time.tick(1);
  const stale = () => verify(verifierOf(PUBLIC_KEY), SIGNATURE);
  assertEquals((await assertRejects(stale, HttpError)).code, "STALE_SIG");
});

Deno.test("a signature under a public key is not taken ahead of its time", async () => {
  using time = new FakeTime(Number(SENT.time) * 1_000 - 300_001);
  const early = () => verify(verifierOf(PUBLIC_KEY), SIGNATURE);
  assertEquals((await assertRejects(early, HttpError)).code, "STALE_SIG");
  time.tick(1);
  assertEquals(await early(), undefined);
});

Deno.test("standard() takes deliveries under a public key end to end, each once", async () => {
  const { key, sign } = await newSender();
  using sut = await openShop({ secrets: [key] });
  const sent = { id: "msg_1", time: now(), body: '{"type":"invoice.paid"}' };
  const headers = headersOf(sent, await sign(sent));
  assertEquals(await sut.send(headers, sent.body), [200, null]);
  assertEquals(await sut.send(headers, sent.body), [200, null]);
  assertEquals(await sut.send(headers, `${sent.body} `), [401, "INVALID_SIG"]);
  assertEquals(await sut.events(), [["shop:msg_1", "invoice.paid"]]);
});

Deno.test("public keys and secrets are rotated together, and one right signature is enough", async () => {
  const [old, current] = [await newSender(), await newSender()];
  const verifyHead = verifierOf(SECRET, old.key, current.key);
  const sent = { ...SENT, time: now() };
  const [mac, other] = [hmac(sent, atob(SECRET)), hmac(sent, "another")];
  const signatures = { old: await old.sign(sent), current: await current.sign(sent) };
  const unknown = await (await newSender()).sign(sent);
  assertEquals(await verify(verifyHead, mac, sent), "secret 1");
  assertEquals(await verify(verifyHead, signatures.old, sent), "secret 2");
  assertEquals(await verify(verifyHead, signatures.current, sent), "secret 3");
  const all = `${other} ${unknown} v2,x ${signatures.current}`;
  assertEquals(await verify(verifyHead, all, sent), "secret 3");
  assertEquals(await verify(verifyHead, `${unknown} ${mac}`, sent), "secret 1");
  await assertRejects(() => verify(verifyHead, `${other} ${unknown}`, sent), HttpError);
});

Deno.test("a stale signature is stale, by whichever kind of key it was made", async () => {
  const { key, sign } = await newSender();
  const sent = { ...SENT, time: String(Number(now()) - 400) };
  const [mac, signature] = [hmac(sent, atob(SECRET)), await sign(sent)];
  for (const signatures of [mac, signature, `${mac} ${signature}`]) {
    const stale = () => verify(verifierOf(SECRET, key), signatures, sent);
    assertEquals((await assertRejects(stale, HttpError)).code, "STALE_SIG");
  }
});

Deno.test("a public key is never the key of an HMAC, and a secret never a public key", async () => {
  const { key, raw, sign } = await newSender();
  const sent = { ...SENT, time: now() };
  const base64 = key.slice("whpk_".length);
  for (const known of [verifierOf(key), verifierOf(SECRET, key)]) {
    for (const hmacKey of [raw, base64, key, encoder.encode(base64)]) {
      const forged = hmac(sent, hmacKey);
      for (const signature of [forged, forged.replace("v1", "v1a")]) {
        const { code } = await assertRejects(() => verify(known, signature, sent), HttpError);
        assertEquals(code, "INVALID_SIG");
      }
    }
  }
  const signature = await sign(sent);
  for (const secret of [base64, `whsec_${base64}`]) {
    for (const sentSignature of [signature, signature.replace("v1a", "v1")]) {
      await assertRejects(() => verify(verifierOf(secret), sentSignature, sent), HttpError);
    }
  }
});

const MALFORMED: Readonly<Record<string, string>> = {
  "no version": SIGNATURE.slice("v1a,".length),
  "another version": SIGNATURE.replace("v1a", "v1b"),
  "the version of secrets": SIGNATURE.replace("v1a", "v1"),
  "a version in capitals": SIGNATURE.replace("v1a", "V1A"),
  "no padding": SIGNATURE.replace("==", ""),
  "its end missing": SIGNATURE.slice(0, 60),
  "another 64 bytes": `v1a,${"A".repeat(86)}==`,
  "a character that base64 has not": SIGNATURE.replace("fldx", "fl_x"),
  "hex": `v1a,${"0".repeat(128)}`,
  "a comma behind": `${SIGNATURE},`,
  "itself behind a comma": `${SIGNATURE},${SIGNATURE}`,
  "two headers": `${SIGNATURE}, ${SIGNATURE}`,
  "only its version": "v1a,",
};

for (const [what, signatures] of Object.entries(MALFORMED)) {
  Deno.test(`a public key verifies no signature with ${what}`, async () => {
    using _time = new FakeTime(Number(SENT.time) * 1_000);
    for (const verifyHead of [verifierOf(PUBLIC_KEY), verifierOf(SECRET, PUBLIC_KEY)]) {
      const { code } = await assertRejects(() => verify(verifyHead, signatures), HttpError);
      assertEquals(code, "INVALID_SIG");
    }
  });
}

Deno.test("a public key verifies the first 4 of its signatures, so that junk takes no time", async () => {
  using _time = new FakeTime(Number(SENT.time) * 1_000);
  const junk = `v1a,${"A".repeat(86)}==`;
  const behind = (count: number) => `${`${junk} `.repeat(count)}${SIGNATURE}`;
  assertEquals(await verify(verifierOf(PUBLIC_KEY), `v1,x ${behind(3)}`), undefined);
  await assertRejects(() => verify(verifierOf(PUBLIC_KEY), behind(4)), HttpError);
});

Deno.test("without a signature the answer is the same as of secrets", () => {
  for (const verifyHead of [verifierOf(PUBLIC_KEY), verifierOf(SECRET, PUBLIC_KEY)]) {
    const code = (headers: Headers) => assertThrows(() => verifyHead(headers), HttpError).code;
    assertEquals(code(new Headers()), "MISSING_SIG");
    assertEquals(code(new Headers({ "webhook-signature": SIGNATURE })), "INVALID_SIG");
  }
});

/** Keys under which anybody can sign, for some messages: libsodium refuses the same. */
const WEAK = [
  "00".repeat(32),
  `${"00".repeat(31)}80`,
  `01${"00".repeat(31)}`,
  `01${"00".repeat(30)}80`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
  `ec${"ff".repeat(30)}7f`,
  `ed${"ff".repeat(31)}`,
  `ee${"ff".repeat(30)}7f`,
];

Deno.test("a public key that anybody can sign for is refused", async () => {
  for (const hex of WEAK) {
    const raw = Uint8Array.from(hex.match(/../g)!, (byte) => parseInt(byte, 16));
    const key = `whpk_${btoa(String.fromCharCode(...raw))}`;
    assertThrows(
      () => verifierOf(key),
      TypeError,
      "secret 1 is a public key that anybody can sign",
    );
  }
  // Web Crypto would take it: the point itself is a signature, for one message in 8.
  const zeros = new Uint8Array(32);
  const imported = await crypto.subtle.importKey("raw", zeros, "Ed25519", false, ["verify"]);
  const signature = new Uint8Array(64);
  const forged = Array.from(
    { length: 256 },
    (_, i) => crypto.subtle.verify("Ed25519", imported, signature, Uint8Array.of(i)),
  );
  assert((await Promise.all(forged)).includes(true));
});

Deno.test("a key that is no public key is refused, and not quoted", () => {
  const wrong: readonly (readonly [string, string])[] = [
    [`whsk_${SECRET}`, "secret 1 is a private key, which only the sender may have"],
    ["whpk_", "secret 1 begins with whpk_ and is not an Ed25519 key"],
    ["whpk_!", "secret 1 begins with whpk_ and is not an Ed25519 key"],
    [`whpk_${btoa("31 bytes, which is one too few.")}`, "and is not an Ed25519 key"],
    [`whpk_${SECRET}`, "and is not an Ed25519 key"],
    [`${PUBLIC_KEY}\n`, "secret 1 ends with white space"],
    [`WHPK_${SECRET}`, "secret 1 is not base64"],
  ];
  for (const [key, message] of wrong) {
    const error = assertThrows(() => verifierOf(key), TypeError, message);
    assert(!error.message.includes(SECRET));
  }
});

const LARGE = 300_000;

Deno.test("a large body is verified by a public key in any room, and its copies are counted", async () => {
  const { key, sign } = await newSender();
  const sent = { id: "msg_1", time: now(), body: new Uint8Array(LARGE).fill(97) };
  const verifyBody = verifierOf(key)(headersOf(sent, await sign(sent)));
  const changed = sent.body.with(LARGE - 1, 98) as Uint8Array<ArrayBuffer>;
  for (const [room, counted] of [[100_000_000, 2 * LARGE], [1, 0]] as const) {
    const budget = new BodyBudget(room);
    const verifying = verifyBody({ bytes: sent.body, budget });
    assertEquals(budget.bytes, counted);
    assertEquals(await verifying, undefined);
    await assertRejects(async () => await verifyBody({ bytes: changed, budget }), HttpError);
    assertEquals(budget.bytes, 0);
  }
});

Deno.test("large bodies without room are verified one after the other", async () => {
  const { key, sign } = await newSender();
  const sent = { id: "msg_1", time: now(), body: new Uint8Array(LARGE).fill(97) };
  const verifyBody = verifierOf(key)(headersOf(sent, await sign(sent)));
  const full = new BodyBudget(3 * LARGE);
  const shares = [1, 2, 3].map(() => full.open(() => {}));
  for (const share of shares) share.add(LARGE);
  const [first, second, third] = shares.map((share) =>
    verifyBody({ bytes: sent.body, share, budget: full })
  );
  assertEquals(await first, undefined);
  // By now the third has not begun, so that it can still be evicted.
  shares[0]!.close();
  shares[1]!.close();
  full.open(() => {}).add(3 * LARGE);
  const outcomes = await Promise.allSettled([second, third]);
  assertEquals(outcomes.map(({ status }) => status), ["fulfilled", "rejected"]);
});

Deno.test("large bodies without room wait for their turns, and one that is evicted gives up its own", async () => {
  const { key, sign } = await newSender();
  const sent = { id: "msg_1", time: now(), body: new Uint8Array(LARGE).fill(97) };
  const verifyBody = verifierOf(key)(headersOf(sent, await sign(sent)));
  const full = new BodyBudget(3 * LARGE);
  const shares = [1, 2, 3].map(() => full.open(() => {}));
  for (const share of shares) share.add(LARGE);
  const bodies = shares.map((share) => verifyBody({ bytes: sent.body, share, budget: full }));
  full.open(() => {}).add(LARGE);
  const outcomes = await Promise.allSettled(bodies);
  assertEquals(outcomes.map(({ status }) => status), ["rejected", "fulfilled", "fulfilled"]);
  const { reason } = outcomes[0] as PromiseRejectedResult;
  assertEquals([reason.status, reason.code], [503, "OVERLOADED"]);
});
