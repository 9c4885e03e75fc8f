import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { BodyBudget } from "../../webhook/body_budget.ts";
import { verifySigned } from "../../webhook/verify_forge_delivery.ts";
import { FORGE_SECRET, sign } from "../_deliveries.ts";

const LARGE = 300_000;

async function signed(bytes: number, budget: BodyBudget, secret = FORGE_SECRET) {
  const body = new Uint8Array(bytes).fill(97);
  return { signature: await sign(body, secret), headers: new Headers(), body, budget };
}

Deno.test("a large body is proved on another thread, and counted meanwhile with its copy", async () => {
  const budget = new BodyBudget(4 * LARGE);
  const proof = verifySigned(await signed(LARGE, budget), [FORGE_SECRET]);
  assert(proof instanceof Promise);
  assertEquals(budget.bytes, 2 * LARGE);
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
  const budget = new BodyBudget(6 * LARGE);
  const others = [1, 2, 3].map(() => budget.open(() => assert(false, "evicted")));
  for (const other of others) other.add(LARGE);
  const delivery = await signed(LARGE, budget);
  const proof = verifySigned(delivery, [FORGE_SECRET]);
  assertEquals(budget.bytes, 5 * LARGE);
  assertEquals(verifySigned(delivery, [FORGE_SECRET]), "secret 1");
  assertEquals(await proof, "secret 1");
  assertEquals(others.map(({ isEvicted }) => isEvicted), [false, false, false]);
});

Deno.test("a large form is counted with the document in it", async () => {
  const budget = new BodyBudget(6 * LARGE);
  const type = { "Content-Type": "application/x-www-form-urlencoded" };
  const form = { ...await signed(LARGE, budget), headers: new Headers(type) };
  const proof = verifySigned(form, ["another", FORGE_SECRET]);
  assertEquals(budget.bytes, 3 * LARGE);
  assertEquals(await proof, "secret 2");
});

Deno.test("a large body is proved at once where there is no room for its copy", async () => {
  const budget = new BodyBudget(4 * LARGE - 1);
  assertEquals(verifySigned(await signed(LARGE, budget), [FORGE_SECRET]), "secret 1");
  const forged = await signed(LARGE, budget, "another");
  assertThrows(() => verifySigned(forged, [FORGE_SECRET]), HttpError, "Invalid signature");
  assertEquals(budget.bytes, 0);
});
