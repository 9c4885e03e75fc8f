import { assertEquals } from "@std/assert";
import { BoundedLabel } from "../../telemetry/_otel_telemetry.ts";

Deno.test("BoundedLabel keeps the first values, and has one for all others", () => {
  const label = new BoundedLabel(2);
  assertEquals(["a", "b", "c", "a", "d", "b"].map((value) => label.of(value)), [
    ...["a", "b", "_OTHER", "a", "_OTHER", "b"],
  ]);
});

Deno.test("BoundedLabel keeps a type with brackets", () => {
  const type = "v2.core.account[requirements].updated";
  assertEquals(new BoundedLabel(1).of(type), type);
});

for (const value of ["", " ", "a b", "a\nb", "ä", "a,b", "x".repeat(101)]) {
  Deno.test(`BoundedLabel does not keep ${JSON.stringify(value).slice(0, 20)}`, () => {
    assertEquals(new BoundedLabel(2).of(value), "_OTHER");
  });
}
