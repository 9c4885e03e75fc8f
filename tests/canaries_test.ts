import { assertEquals } from "@std/assert";
import { foundIn } from "./_canaries.ts";

const SECRET = "a canary/with+all?of~it";
const bytes = new TextEncoder().encode(SECRET);

const WRITTEN: readonly (readonly [how: string, where: string])[] = [
  ["plain", `x${SECRET}y`],
  ["in JSON", JSON.stringify({ a: SECRET })],
  ["in base64", bytes.toBase64()],
  ["in base64 behind a character", btoa(`x${SECRET}y`)],
  ["in base64 behind two characters", btoa(`xx${SECRET}yyy`)],
  ["in base64 for URLs", bytes.toBase64({ alphabet: "base64url" })],
  ["in hex", bytes.toHex()],
  ["in capital hex", bytes.toHex().toUpperCase()],
  ["in URL encoding", encodeURIComponent(SECRET)],
  ["in form encoding", new URLSearchParams({ a: SECRET }).toString()],
  ["in UTF-16", [...SECRET].map((each) => `${each}\0`).join("")],
];

for (const [how, where] of WRITTEN) {
  Deno.test(`foundIn() finds a text that is written ${how}`, () => {
    assertEquals(foundIn(where, { secret: SECRET, other: "another one" }), ["secret"]);
  });
}

Deno.test("foundIn() finds nothing where nothing is", () => {
  assertEquals(foundIn("a canary", { secret: SECRET }), []);
});
