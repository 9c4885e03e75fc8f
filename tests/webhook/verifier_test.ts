import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { BodyBudget, type BodyShare } from "../../webhook/body_budget.ts";
import { FORGE_CREDENTIALS } from "../../webhook/forge.ts";
import { HeldBody } from "../../webhook/read_body.ts";
import { Verifier } from "../../webhook/verifier.ts";
import { FORGE_SECRET, sign } from "../_deliveries.ts";
import { SENDERS } from "../_senders.ts";

const LARGE = 300_000;

const STANDARD_SECRET = `whsec_${btoa("32 bytes that nobody can guess..")}`;

const encoder = new TextEncoder();

/** Makes a verifier of one secret more than is asked for: it names its secrets only if there are several. */
const verifierOf = (...secrets: string[]) =>
  new Verifier(FORGE_CREDENTIALS, [...secrets, "one secret more"], []);

/** A request, and what of the verifier decides on it once the body is there. */
interface Signed {
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

async function signed(
  content: number | string,
  secret = FORGE_SECRET,
  body = contentOf(content),
): Promise<Signed> {
  const headers = new Headers({ "X-Hub-Signature-256": await sign(contentOf(content), secret) });
  return { headers, body };
}

function contentOf(content: number | string): Uint8Array<ArrayBuffer> {
  return typeof content === "string" ? encoder.encode(content) : new Uint8Array(content).fill(97);
}

/** Signs a document as Gitea and Forgejo do, and sends it in a form. */
async function form(
  document: string,
  body = new URLSearchParams({ payload: document }).toString(),
): Promise<Signed> {
  const { headers } = await signed(document);
  headers.set("Content-Type", "application/x-www-form-urlencoded");
  return { headers, body: encoder.encode(body) };
}

/** Verifies as an intake does. */
function verify(
  verifier: Verifier,
  { headers, body }: Signed,
  budget?: BodyBudget,
  share?: BodyShare,
) {
  return verifier.verifyHead(headers)(new HeldBody(body, share, budget));
}

async function assertRefused(verifying: () => unknown): Promise<void> {
  const error = await assertRejects(async () => await verifying(), HttpError, "Invalid signature");
  assertEquals([error.status, error.code], [401, "INVALID_SIG"]);
}

const SECRETS = ["s", "clé secrète", "s\0s", "x".repeat(64), "x".repeat(65)];

for (const bytes of [0, 1_000, 262_144, 262_145, 2 * 524_288]) {
  for (const [where, room] of [["with", 100_000_000], ["without", 1]] as const) {
    Deno.test(`Verifier finds each of its secrets, by ${bytes} bytes ${where} room for a copy`, async () => {
      const [verifier, budget] = [verifierOf(...SECRETS), new BodyBudget(room)];
      for (const [index, secret] of SECRETS.entries()) {
        const request = await signed(bytes, secret);
        assertEquals(await verify(verifier, request, budget), `secret ${index + 1}`);
        // Twice, since the key is kept.
        assertEquals(await verify(verifier, request, budget), `secret ${index + 1}`);
      }
      const forged = await signed(bytes, "another");
      await assertRefused(() => verify(verifier, forged, budget));
      assertEquals(budget.bytes, 0);
    });
  }
}

/** Of the empty text, with the empty secret. */
const EMPTY = "sha256=b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";

Deno.test("Verifier refuses what an empty secret has signed", async () => {
  const request = {
    headers: new Headers({ "X-Hub-Signature-256": EMPTY }),
    body: new Uint8Array(),
  };
  await assertRefused(() => verify(verifierOf(""), request));
  await assertRefused(() => verify(verifierOf("", "another"), request));
});

Deno.test("Verifier takes no key from a secret that is no text", async () => {
  const request = await signed("", "null");
  for (const value of [null, undefined, 7, {}]) {
    await assertRefused(() => verify(verifierOf(value as never), request));
  }
});

Deno.test("Verifier refuses a malformed signature before the body is read", () => {
  const headers = new Headers({ "X-Hub-Signature-256": "sha256=00" });
  const error = assertThrows(() => verifierOf(FORGE_SECRET).verifyHead(headers), HttpError);
  assertEquals([error.status, error.code], [401, "INVALID_SIG"]);
});

Deno.test("Verifier verifies a body of up to 262,144 bytes at once", async () => {
  const verifier = verifierOf(FORGE_SECRET);
  assertEquals(verify(verifier, await signed(262_144)), "secret 1");
  const verifying = verify(verifier, await signed(262_145));
  assert(verifying instanceof Promise);
  assertEquals(await verifying, "secret 1");
});

Deno.test("Verifier.verify() answers at once whatever the size", async () => {
  const { headers, body } = await signed(LARGE);
  assertEquals(verifierOf(FORGE_SECRET).verify(headers, body), "secret 1");
});

Deno.test("a large body is verified on another thread, and its copy counted meanwhile", async () => {
  const budget = new BodyBudget(2 * LARGE);
  const verifying = verify(verifierOf(FORGE_SECRET), await signed(LARGE), budget);
  assert(verifying instanceof Promise);
  assertEquals(budget.bytes, LARGE);
  assertEquals(await verifying, "secret 1");
  assertEquals(budget.bytes, 0);
});

Deno.test("the verification of a large body evicts none that arrives", async () => {
  const budget = new BodyBudget(4 * LARGE);
  const others = [1, 2, 3].map(() => budget.open(() => assert(false, "evicted")));
  for (const other of others) other.add(LARGE);
  const [verifier, request] = [verifierOf(FORGE_SECRET), await signed(LARGE)];
  const verifying = [verify(verifier, request, budget), verify(verifier, request, budget)];
  assertEquals(budget.bytes, 4 * LARGE);
  assertEquals(await Promise.all(verifying), ["secret 1", "secret 1"]);
  assertEquals(others.map(({ isEvicted }) => isEvicted), [false, false, false]);
});

/** A document of several slices, with all that a form escapes. */
const DOCUMENT = `{"a":"${'{"\u00e9": +&=%}\u{1f600} '.repeat(40_000)}"}`;

Deno.test("a small form is verified by the form or by the document in it", async () => {
  const body = new URLSearchParams({ payload: '{"a":"é b"}' }).toString();
  const verifier = verifierOf("another", FORGE_SECRET);
  const asForm = await signed(body);
  asForm.headers.set("Content-Type", "application/x-www-form-urlencoded");
  assertEquals(verify(verifier, asForm), "secret 2");
  assertEquals(verify(verifier, await form('{"a":"é b"}')), "secret 2");
  const { headers } = await signed('{"a":"é b"}');
  await assertRefused(() => verify(verifier, { headers, body: encoder.encode(body) }));
  await assertRefused(() => verify(verifierOf("another"), asForm));
});

for (const [what, room] of [["is", 100_000_000], ["is no", 1]] as const) {
  Deno.test(`a large form is verified by the document in it where there ${what} room for a copy`, async () => {
    const budget = new BodyBudget(room);
    const request = await form(DOCUMENT);
    assertEquals(await verify(verifierOf("another", FORGE_SECRET), request, budget), "secret 2");
    await assertRefused(() => verify(verifierOf("another"), request, budget));
    assertEquals(budget.bytes, 0);
  });
}

Deno.test("a form without a leading document is not verified by the signature of an empty one", async () => {
  for (const value of ["1", "1".repeat(LARGE)]) {
    const request = await form("", `a=${value}&payload=%7B%7D`);
    await assertRefused(() => verify(verifierOf(FORGE_SECRET), request));
  }
});

const UNLIKE: Readonly<Record<string, (form: string) => string>> = {
  "begins with another field": (form) => `a=1&${form}`,
  "is cut off in an escape": (form) => form.slice(0, -1),
  "has an escape that is none": (form) => `${form}%zz`,
  "has a character that none has": (form) => `${form}"`,
  "consists of separators": (form) => "&".repeat(form.length),
};

for (const [what, change] of Object.entries(UNLIKE)) {
  Deno.test(`a large form that ${what} is not verified by its document`, async () => {
    const { body } = await form(DOCUMENT);
    const changed = await form(DOCUMENT, change(new TextDecoder().decode(body)));
    await assertRefused(() => verify(verifierOf(FORGE_SECRET), changed));
  });
}

for (const [what, room] of [["is", 100_000_000], ["is no", 1]] as const) {
  Deno.test(`a large body under a standard signature is verified later, where there ${what} room`, async () => {
    const budget = new BodyBudget(room);
    const { headers, body: sent } = await SENDERS.gitlab(DOCUMENT, { secret: STANDARD_SECRET });
    const body = encoder.encode(String(sent));
    const verifier = verifierOf(FORGE_SECRET, STANDARD_SECRET);
    const verifying = verify(verifier, { headers, body }, budget);
    assert(verifying instanceof Promise);
    assertEquals(budget.bytes, room === 1 ? 0 : 2 * body.byteLength);
    assertEquals(await verifying, "secret 2");
    body[100]! ^= 1;
    await assertRefused(() => verify(verifier, { headers, body }, budget));
    assertEquals(budget.bytes, 0);
  });
}

Deno.test("a large body without room for a copy is hashed in slices, and others get their turns", async () => {
  const budget = new BodyBudget(1);
  const request = await signed(10 * 524_288);
  let turns = 0;
  const timer = setInterval(() => turns++);
  assertEquals(await verify(verifierOf(FORGE_SECRET), request, budget), "secret 1");
  clearInterval(timer);
  assert(turns >= 5, `${turns} turns`);
});

Deno.test("bodies that are evicted are let go of before their turn", async () => {
  const [budget, verifier] = [new BodyBudget(3 * LARGE), verifierOf(FORGE_SECRET)];
  const shares = [1, 2, 3].map(() => budget.open(() => {}));
  for (const share of shares) share.add(LARGE);
  const request = await signed(LARGE);
  const verifying = shares.map((share) => verify(verifier, request, undefined, share));
  budget.open(() => {}).add(LARGE);
  const outcomes = await Promise.allSettled(verifying);
  assertEquals(outcomes.map(({ status }) => status), ["rejected", "fulfilled", "fulfilled"]);
  const { reason } = outcomes[0] as PromiseRejectedResult;
  assertEquals([reason.status, reason.code], [503, "OVERLOADED"]);
});
