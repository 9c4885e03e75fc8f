import { assert, assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { Slices } from "../../webhook/_slices.ts";
import { BodyBudget } from "../../webhook/body_budget.ts";
import { verifyForgeHead, verifySigned } from "../../webhook/verify_forge_delivery.ts";
import { FORGE_SECRET, sign } from "../_deliveries.ts";
import { SENDERS } from "../_senders.ts";

const LARGE = 300_000;

const FORM = { "Content-Type": "application/x-www-form-urlencoded" };

const STANDARD_SECRET = `whsec_${btoa("32 bytes that nobody can guess..")}`;

async function signed(bytes: number, budget: BodyBudget, secret = FORGE_SECRET) {
  const body = new Uint8Array(bytes).fill(97);
  return { signature: await sign(body, secret), headers: new Headers(), body, budget };
}

Deno.test("a large body is proved on another thread, and its copy counted meanwhile", async () => {
  const budget = new BodyBudget(2 * LARGE);
  const proof = verifySigned(await signed(LARGE, budget), [FORGE_SECRET]);
  assert(proof instanceof Promise);
  assertEquals(budget.bytes, LARGE);
  assertEquals(await proof, "secret 1");
  assertEquals(budget.bytes, 0);
});

Deno.test("a large body that is forged is refused, and counted no longer", async () => {
  const budget = new BodyBudget(4 * LARGE);
  const forged = await signed(LARGE, budget, "another");
  const error = await assertRejects(
    async () => await verifySigned(forged, [FORGE_SECRET]),
    HttpError,
  );
  assertEquals([error.status, error.code, budget.bytes], [401, "INVALID_SIG", 0]);
});

Deno.test("the proof of a large body evicts none that arrives", async () => {
  const budget = new BodyBudget(4 * LARGE);
  const others = [1, 2, 3].map(() => budget.open(() => assert(false, "evicted")));
  for (const other of others) other.add(LARGE);
  const delivery = await signed(LARGE, budget);
  const proofs = [verifySigned(delivery, [FORGE_SECRET]), verifySigned(delivery, [FORGE_SECRET])];
  assertEquals(budget.bytes, 4 * LARGE);
  assertEquals(await Promise.all(proofs), ["secret 1", "secret 1"]);
  assertEquals(others.map(({ isEvicted }) => isEvicted), [false, false, false]);
});

/** A document of several slices, with all that a form escapes. */
const DOCUMENT = `{"a":"${'{"\u00e9": +&=%}\u{1f600} '.repeat(40_000)}"}`;

async function form(
  document: string,
  body = new URLSearchParams({ payload: document }).toString(),
) {
  const headers = new Headers(FORM);
  return { signature: await sign(document), headers, body: new TextEncoder().encode(body) };
}

for (const [what, room] of [["is", 100_000_000], ["is no", 1]] as const) {
  Deno.test(`a large form is proved by the document in it where there ${what} room for a copy`, async () => {
    const budget = new BodyBudget(room);
    const delivery = { ...await form(DOCUMENT), budget };
    assertEquals(await verifySigned(delivery, ["another", FORGE_SECRET]), "secret 2");
    const forged = Promise.resolve(verifySigned(delivery, ["another"]));
    await assertRejects(() => forged, HttpError, "Invalid signature");
    assertEquals(budget.bytes, 0);
  });
}

const UNLIKE: Readonly<Record<string, (form: string) => string>> = {
  "begins with another field": (form) => `a=1&${form}`,
  "is cut off in an escape": (form) => form.slice(0, -1),
  "has an escape that is none": (form) => `${form}%zz`,
  "has a character that none has": (form) => `${form}"`,
  "consists of separators": (form) => "&".repeat(form.length),
};

for (const [what, change] of Object.entries(UNLIKE)) {
  Deno.test(`a large form that ${what} is not proved by its document`, async () => {
    const { body } = await form(DOCUMENT);
    const changed = await form(DOCUMENT, change(new TextDecoder().decode(body)));
    const proof = Promise.resolve(verifySigned(changed, [FORGE_SECRET]));
    await assertRejects(() => proof, HttpError, "Invalid signature");
  });
}

for (const [what, room] of [["is", 100_000_000], ["is no", 1]] as const) {
  Deno.test(`a large body under a standard signature is proved later, where there ${what} room`, async () => {
    const budget = new BodyBudget(room);
    const { headers, body } = await SENDERS.gitlab(DOCUMENT, { secret: STANDARD_SECRET });
    const bytes = new TextEncoder().encode(String(body));
    const secrets = [FORGE_SECRET, STANDARD_SECRET];
    const proof = verifyForgeHead(headers, secrets, [], verifySigned)(bytes, budget);
    assert(proof instanceof Promise);
    assertEquals(budget.bytes, room === 1 ? 0 : 2 * bytes.byteLength);
    assertEquals(await proof, "secret 2");
    bytes[100]! ^= 1;
    const forged = Promise.resolve(
      verifyForgeHead(headers, secrets, [], verifySigned)(bytes, budget),
    );
    await assertRejects(() => forged, HttpError, "Invalid signature");
    assertEquals(budget.bytes, 0);
  });
}

Deno.test("a large body that no room is for is hashed in slices, and others get their turns", async () => {
  const budget = new BodyBudget(1);
  const delivery = await signed(10 * 524_288, budget);
  let turns = 0;
  const timer = setInterval(() => turns++);
  assertEquals(await verifySigned(delivery, [FORGE_SECRET]), "secret 1");
  clearInterval(timer);
  assert(turns >= 5, `${turns} turns`);
});

Deno.test("bodies that are evicted are let go of before their turn", async () => {
  const [budget, slices] = [new BodyBudget(3 * LARGE), new Slices()];
  const shares = [1, 2, 3].map(() => budget.open(() => {}));
  for (const share of shares) share.add(LARGE);
  const delivery = await signed(LARGE, budget);
  const proofs = shares.map((share) =>
    verifySigned({ ...delivery, share }, [FORGE_SECRET], slices)
  );
  budget.open(() => {}).add(LARGE);
  const outcomes = await Promise.allSettled(proofs);
  assertEquals(outcomes.map(({ status }) => status), ["rejected", "fulfilled", "fulfilled"]);
  const { reason } = outcomes[0] as PromiseRejectedResult;
  assertEquals([reason.status, reason.code], [503, "OVERLOADED"]);
});
