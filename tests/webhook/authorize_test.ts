import { assertEquals } from "@std/assert";
import { isUserAuthorized } from "../../webhook/messenger.ts";

const allow = (list: string | undefined) => ({ MESSENGER_ALLOWED_USERS: list });

Deno.test("isUserAuthorized() allows the listed users", () => {
  for (const id of [42, 4711, 9_007_199_254_740_991]) {
    assertEquals(isUserAuthorized(allow("42,4711,9007199254740991"), id), true);
  }
});

Deno.test("isUserAuthorized() refuses a user who is not listed", () => {
  for (const id of [1, 4, 2, 421, 142, 47]) {
    assertEquals(isUserAuthorized(allow("42,4711"), id), false);
  }
});

Deno.test("isUserAuthorized() ignores spaces and empty entries", () => {
  assertEquals(isUserAuthorized(allow("\t42 ,, 4711\n,"), 42), true);
  assertEquals(isUserAuthorized(allow("\t42 ,, 4711\n,"), 4711), true);
});

Deno.test("isUserAuthorized() takes an id as text", () => {
  assertEquals(isUserAuthorized(allow("42"), "42"), true);
  assertEquals(isUserAuthorized(allow("42"), "43"), false);
});

Deno.test("isUserAuthorized() allows everybody by *, also an update without a user", () => {
  for (const id of [1, "1", undefined]) assertEquals(isUserAuthorized(allow(" * "), id), true);
  assertEquals(isUserAuthorized(allow("42,*"), 1), true);
});

Deno.test("isUserAuthorized() allows nobody by an empty list", () => {
  for (const env of [{}, allow(undefined), allow(""), allow("  "), allow(","), allow(" , ,\n")]) {
    for (const id of [0, 1, "", " ", undefined]) assertEquals(isUserAuthorized(env, id), false);
  }
});

const NO_IDS = ["alice", "@42", "", " ", "042", "+42", "-42", "42.0", "4e1", "0x2a", "42 ", "42\n"];

for (const id of [...NO_IDS, "\uff14\uff12", "42,4711", "undefined", "null", "NaN", "*"]) {
  Deno.test(`isUserAuthorized() refuses ${JSON.stringify(id)}, even where it is listed`, () => {
    assertEquals(isUserAuthorized(allow(`42,4711,${id === "*" ? "" : id}`), id), false);
  });
}

Deno.test("isUserAuthorized() refuses numbers that are no ids, even where they are listed", () => {
  for (const id of [0, -0, -42, 42.5, NaN, Infinity, 1e21]) {
    assertEquals(isUserAuthorized(allow(`42,${id}`), id), false);
  }
});

Deno.test("isUserAuthorized() does not take * within an entry for everybody", () => {
  for (const list of ["4*", "**", "@*", "* 42"]) {
    assertEquals(isUserAuthorized(allow(list), 1), false);
  }
});
