import { assertEquals } from "@std/assert";
import { positionOf } from "../../core/secrets.ts";

Deno.test("positionOf() tries all secrets, so that the time taken does not tell which it was", () => {
  for (const right of ["a", "b", "c", "none"]) {
    const tried: string[] = [];
    const verifies = (secret: string) => (tried.push(secret), secret === right);
    assertEquals(positionOf(["a", "b", "c"], verifies), ["none", "a", "b", "c"].indexOf(right));
    assertEquals(tried, ["a", "b", "c"]);
  }
});
