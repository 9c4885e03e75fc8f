import { assertEquals } from "@std/assert";
import { formatTraceparent, parseTraceparent } from "../../telemetry/traceparent.ts";

/** The example of W3C Trace Context. */
const EXAMPLE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const PLACE = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  traceFlags: 1,
};

/** None of these is the place of a span. */
const BAD: readonly unknown[] = [
  ...[undefined, null, 1, {}, [EXAMPLE], "", " ", "x".repeat(100_000)],
  ...[`${EXAMPLE} `, `${EXAMPLE}\n`, ` ${EXAMPLE}`, `${EXAMPLE}-00`, EXAMPLE.slice(0, -1)],
  ...[EXAMPLE.toUpperCase(), EXAMPLE.replace("00-", "01-"), EXAMPLE.replace("00-", "ff-")],
  `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${"0".repeat(16)}-01`,
];

Deno.test("parseTraceparent() reads the place of a span", () => {
  assertEquals(parseTraceparent(EXAMPLE), PLACE);
});

Deno.test("parseTraceparent() keeps of the flags whether it is sampled", () => {
  assertEquals(parseTraceparent(EXAMPLE.replace(/01$/, "fe"))?.traceFlags, 0);
  assertEquals(parseTraceparent(EXAMPLE.replace(/01$/, "ff"))?.traceFlags, 1);
});

for (const text of BAD) {
  const shown = JSON.stringify(text)?.slice(0, 70);
  Deno.test(`parseTraceparent() takes no ${shown}`, () => {
    assertEquals(parseTraceparent(text), undefined);
  });
}

Deno.test("formatTraceparent() writes what is read again", () => {
  assertEquals(formatTraceparent(PLACE), EXAMPLE);
});

Deno.test("formatTraceparent() writes nothing of a span that is not recorded", () => {
  const nowhere = { traceId: "0".repeat(32), spanId: "0".repeat(16), traceFlags: 0 };
  assertEquals(formatTraceparent(nowhere), undefined);
});
