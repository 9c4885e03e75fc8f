import { assert, assertEquals, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { HttpError } from "../../middleware/mod.ts";
import { FORGE_SECRET, sign } from "../_deliveries.ts";
import { verifyForgeDelivery } from "../../webhook/mod.ts";
import {
  isRecent,
  standardHeadersOf,
  verifySecretToken,
  verifySignature,
  verifySignatureBytes,
} from "../../webhook/verify_signature.ts";

/** GitHub's published vector, for the payload `Hello, World!` and the secret `FORGE_SECRET`. */
const DIGEST = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

const verifyHello = (signature: unknown, secret: unknown = FORGE_SECRET) =>
  verifySignature("Hello, World!", signature as string, secret as string);

Deno.test("verifySignature() accepts the published vector", () => {
  assertEquals(verifyHello(`sha256=${DIGEST}`), true);
});

Deno.test("verifySignature() accepts test case 2 of RFC 4231", () => {
  const digest = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  assert(verifySignature("what do ya want for nothing?", `sha256=${digest}`, "Jefe"));
});

Deno.test("verifySignature() is synchronous and answers a boolean", () => {
  assertEquals(typeof verifyHello(`sha256=${DIGEST}`), "boolean");
  assertEquals(typeof verifyHello("no signature"), "boolean");
});

const TEXTS = [
  "",
  "a",
  "é",
  "\u{1f600}",
  "\ufeffabc",
  "line\r\nline\n",
  "\0",
  "\ud800",
  "x".repeat(100_000),
];
const SECRETS = ["s", "clé secrète", " padded ", "s\0s", "x".repeat(64), "x".repeat(65)];

Deno.test("verifySignature() agrees with Web Crypto on every text and secret", async () => {
  for (const text of TEXTS) {
    for (const secret of SECRETS) {
      assert(verifySignature(text, await sign(text, secret), secret), `${text} with ${secret}`);
    }
  }
});

const otherDigit = (index: number) =>
  DIGEST.slice(0, index) + (DIGEST[index] === "0" ? "1" : "0") + DIGEST.slice(index + 1);

Deno.test("verifySignature() refuses a digest with one digit changed, wherever", () => {
  for (let i = 0; i < DIGEST.length; i++) {
    assertEquals(verifyHello(`sha256=${otherDigit(i)}`), false, `digit ${i}`);
  }
});

const MALFORMED: Record<string, string> = {
  "nothing": "",
  "prefix only": "sha256=",
  "no prefix": DIGEST,
  "62 digits": `sha256=${DIGEST.slice(2)}`,
  "63 digits": `sha256=${DIGEST.slice(1)}`,
  "65 digits": `sha256=${DIGEST}7`,
  "66 digits": `sha256=${DIGEST}17`,
  "twice the digits": `sha256=${DIGEST}${DIGEST}`,
  "prefix in capitals": `SHA256=${DIGEST}`,
  "prefix with a capital": `Sha256=${DIGEST}`,
  "prefix of SHA-1": `sha1=${DIGEST}`,
  "prefix of SHA-1, its length": `sha1=${DIGEST.slice(0, 40)}`,
  "prefix of SHA-512": `sha512=${DIGEST}`,
  "prefix with a hyphen": `sha-256=${DIGEST}`,
  "prefix with a colon": `sha256:${DIGEST}`,
  "prefix twice": `sha256=sha256=${DIGEST}`,
  "digits in capitals": `sha256=${DIGEST.toUpperCase()}`,
  "a digit that is not hex": `sha256=g${DIGEST.slice(1)}`,
  "0x before the digits": `sha256=0x${DIGEST.slice(2)}`,
  "full-width digits": `sha256=${DIGEST.replaceAll("7", "\uff17")}`,
  "a letter of another script": `sha256=${DIGEST.replaceAll("c", "\u0441")}`,
  "an emoji": `sha256=\u{1f600}${DIGEST.slice(2)}`,
  "a lone surrogate": `sha256=\ud800${DIGEST.slice(1)}`,
  "a space before": ` sha256=${DIGEST}`,
  "a space after": `sha256=${DIGEST} `,
  "a space within": `sha256= ${DIGEST}`,
  "a line break after": `sha256=${DIGEST}\n`,
  "a line before": `x\nsha256=${DIGEST}`,
  "a NUL after": `sha256=${DIGEST}\0`,
  "itself twice, as two headers are joined": `sha256=${DIGEST}, sha256=${DIGEST}`,
  "a wrong one before it": `sha256=${"0".repeat(64)}, sha256=${DIGEST}`,
  "a wrong one after it": `sha256=${DIGEST}, sha256=${"0".repeat(64)}`,
  "quotes": `"sha256=${DIGEST}"`,
  "base64": "sha256=dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc=",
  "64 KiB": `sha256=${DIGEST.repeat(1024)}`,
};

for (const [what, signature] of Object.entries(MALFORMED)) {
  Deno.test(`verifySignature() is false and throws nothing for a signature with ${what}`, () => {
    assertEquals(verifyHello(signature), false);
  });
}

Deno.test("verifySignature() is false and throws nothing for what is no text", () => {
  for (const value of [undefined, null, 0, {}, [`sha256=${DIGEST}`], Symbol("s"), 1n]) {
    assertEquals(verifyHello(value), false);
    assertEquals(verifyHello(`sha256=${DIGEST}`, value ?? null), false);
    assertEquals(verifySignature(value as string, `sha256=${DIGEST}`, FORGE_SECRET), false);
  }
});

Deno.test("verifySignature() is false for an empty secret, although the signature is right", () => {
  // HMAC-SHA256 of the empty text with the empty key.
  const digest = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
  assertEquals(verifySignature("", `sha256=${digest}`, ""), false);
});

Deno.test("verifySignature() is false for another secret", async () => {
  for (const secret of ["other", `${FORGE_SECRET} `, FORGE_SECRET.toLowerCase()]) {
    assertEquals(verifySignature("{}", await sign("{}", secret), FORGE_SECRET), false);
  }
});

Deno.test("verifySignatureBytes() accepts bytes that are no text", async () => {
  const bytes = Uint8Array.of(0xff, 0xfe, 0x00, 0x80, 0xed, 0xa0, 0x80);
  assert(verifySignatureBytes(bytes, await sign(bytes), FORGE_SECRET));
});

Deno.test("verifySignatureBytes() covers a view's own bytes and not those around it", async () => {
  const view = new TextEncoder().encode("..{}..").subarray(2, 4);
  assert(verifySignatureBytes(view, await sign("{}"), FORGE_SECRET));
});

/** Signatures that were published with their secrets: by the specification, and by its libraries. */
const PUBLISHED = [
  {
    secret: "whsec_plJ3nmyCDGBKInavdOK15jsl",
    body: '{"event_type":"ping","data":{"success":true}}',
    headers: {
      "webhook-id": "msg_loFOjxBNrRLzqYUf",
      "webhook-timestamp": "1731705121",
      "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    },
  },
  {
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    body: '{"test": 2432232314}',
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
  },
];

Deno.test("verifyForgeDelivery() takes the published vectors of the Standard Webhooks specification", () => {
  for (const { secret, body, headers } of PUBLISHED) {
    using _time = new FakeTime(Number(headers["webhook-timestamp"]) * 1_000);
    const bytes = new TextEncoder().encode(body);
    assertEquals(verifyForgeDelivery(new Headers(headers), bytes, [secret]), "secret 1");
  }
});

Deno.test("isRecent() takes 5 minutes to either side, to the millisecond", () => {
  const [timestamp, sent] = ["1731705121", 1_731_705_121_000];
  for (const ms of [-300_000, 0, 300_000]) assertEquals(isRecent(timestamp, sent + ms), true);
  for (const ms of [-300_001, 300_001]) assertEquals(isRecent(timestamp, sent + ms), false);
});

const HEADERS = { id: "msg_1", timestamp: "1700000000", signature: "v1,a v1a,b" };

/** Names headers with a prefix; of those that are left out there are none. */
const named = (prefix: string, { ...parts }: Partial<typeof HEADERS> = HEADERS) =>
  Object.entries(parts).map(([name, value]) => [`${prefix}-${name}`, value] as [string, string]);

const standardHeadersIn = (...all: [string, string][][]) =>
  standardHeadersOf(new Headers(all.flat()), ["webhook", "svix"]);

Deno.test("standardHeadersOf() reads the first prefix that has all three headers", () => {
  const { id, timestamp } = HEADERS;
  const read = { id, timestamp, signatures: ["v1,a", "v1a,b"] };
  const { id: _, ...withoutId } = HEADERS;
  const other = { ...HEADERS, id: "msg_2" };
  assertEquals(standardHeadersIn(named("webhook")), read);
  assertEquals(standardHeadersIn(named("svix")), read);
  assertEquals(standardHeadersIn(named("webhook"), named("svix", other)), read);
  assertEquals(standardHeadersIn(named("webhook", withoutId), named("svix")), read);
});

Deno.test("standardHeadersOf() is null for what cannot be right, and undefined without a signature", () => {
  const { id, timestamp, signature } = HEADERS;
  assertEquals(standardHeadersIn(), undefined);
  assertEquals(standardHeadersIn(named("webhook", { id, timestamp })), undefined);
  assertEquals(standardHeadersIn(named("webhook", { signature })), null);
  assertEquals(standardHeadersIn(named("webhook", { id, signature })), null);
  assertEquals(standardHeadersIn(named("webhook", { ...HEADERS, timestamp: "1e9" })), null);
  const twoHeaders = { ...HEADERS, signature: "v1,a, v1,a" };
  assertEquals(standardHeadersIn(named("webhook", twoHeaders)), null);
  assertEquals(standardHeadersIn(named("webhook", { signature }), named("svix", { id })), null);
});

Deno.test("verifyForgeDelivery() reads no headers of Svix, and takes no secret without its prefix", () => {
  const [{ secret, body, headers }] = PUBLISHED as [typeof PUBLISHED[0]];
  using _time = new FakeTime(Number(headers["webhook-timestamp"]) * 1_000);
  const bytes = new TextEncoder().encode(body);
  const svix = Object.entries(headers).map(([name, value]) =>
    [name.replace("webhook", "svix"), value] as [string, string]
  );
  for (const [sent, key] of [[svix, secret], [headers, secret.slice("whsec_".length)]] as const) {
    const verify = () => verifyForgeDelivery(new Headers(sent as HeadersInit), bytes, [key]);
    assertThrows(verify, HttpError, "Missing signature");
  }
});

const TOKEN = "a-secret-token-for-tests";

Deno.test("verifySecretToken() accepts the token, and nothing that is like it", () => {
  assertEquals(verifySecretToken(TOKEN, TOKEN), true);
  const others = ["", "a", TOKEN.slice(0, -1), `${TOKEN}s`, `b${TOKEN.slice(1)}`, `${TOKEN} `];
  others.push(TOKEN.toUpperCase(), `${TOKEN}\0`, `${TOKEN}, ${TOKEN}`, TOKEN.repeat(2_731));
  for (const token of others) assertEquals(verifySecretToken(token, TOKEN), false, token);
  assertEquals(verifySecretToken("e\u0301", "\u00e9"), false);
  assertEquals(verifySecretToken("", ""), false);
});

Deno.test("verifySecretToken() is false and throws nothing for what is no text", () => {
  for (const value of [undefined, null, 0, {}, [TOKEN], Symbol("s"), 1n]) {
    assertEquals(verifySecretToken(value as string, TOKEN), false);
    assertEquals(verifySecretToken(TOKEN, value as string), false);
  }
});
