import { assertEquals } from "@std/assert";
import { positionOf } from "../../webhook/proved_by.ts";

Deno.test("positionOf() tries all secrets, so that the time taken does not tell which it was", () => {
  for (const right of ["a", "b", "c", "none"]) {
    const tried: string[] = [];
    const proves = (secret: string) => (tried.push(secret), secret === right);
    assertEquals(positionOf(["a", "b", "c"], proves), ["none", "a", "b", "c"].indexOf(right));
    assertEquals(tried, ["a", "b", "c"]);
  }
});
