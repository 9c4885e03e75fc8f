import { assertEquals } from "@std/assert";
import { verifySecretToken } from "../../webhook/verify_signature.ts";

const SECRET = "a-secret-token-for-tests";

Deno.test("verifySecretToken() accepts the token", () => {
  assertEquals(verifySecretToken(SECRET, SECRET), true);
});

const WRONG: Record<string, string> = {
  "empty": "",
  "one character": "a",
  "shorter by one": SECRET.slice(0, -1),
  "longer by one": `${SECRET}s`,
  "changed at the start": `b${SECRET.slice(1)}`,
  "changed at the end": `${SECRET.slice(0, -1)}t`,
  "in capitals": SECRET.toUpperCase(),
  "with a space": `${SECRET} `,
  "with a NUL": `${SECRET}\0`,
  "itself twice, as two headers are joined": `${SECRET}, ${SECRET}`,
  "not ASCII": `\u00e0${SECRET.slice(1)}`,
  "64 KiB long": SECRET.repeat(2731),
};

for (const [what, token] of Object.entries(WRONG)) {
  Deno.test(`verifySecretToken() refuses a token that is ${what}`, () => {
    assertEquals(verifySecretToken(token, SECRET), false);
  });
}

Deno.test("verifySecretToken() tells a composed character from a decomposed one", () => {
  assertEquals(verifySecretToken("e\u0301", "\u00e9"), false);
});

Deno.test("verifySecretToken() refuses an empty token for an empty secret", () => {
  assertEquals(verifySecretToken("", ""), false);
});

Deno.test("verifySecretToken() is false and throws nothing for what is no text", () => {
  for (const value of [undefined, null, 0, {}, [SECRET], Symbol("s"), 1n]) {
    assertEquals(verifySecretToken(value as string, SECRET), false);
    assertEquals(verifySecretToken(SECRET, value as string), false);
  }
});
