import { assertEquals, assertThrows } from "@std/assert";
import { HttpError } from "../../../middleware/mod.ts";
import { parseJsonObject } from "../../../webhook/platforms/readers.ts";

const BAD: readonly (readonly [body: string | Uint8Array, message: string])[] = [
  ["{", "Body is not JSON"],
  ["[]", "Body must be a JSON object"],
  [`{"a":${"[".repeat(64)}${"]".repeat(64)}}`, "Body is nested too deeply"],
  [Uint8Array.of(0xff), "Body is not UTF-8"],
];

for (const [body, message] of BAD) {
  Deno.test(`parseJsonObject() of a request answers 400: ${message}`, () => {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const error = assertThrows(() => parseJsonObject(bytes), HttpError);
    assertEquals([error.status, error.code, error.message], [400, "INVALID_BODY", message]);
  });
}
