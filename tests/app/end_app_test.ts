import { assertEquals } from "@std/assert";
import { InFlight } from "../../app/end_app.ts";
import { doesWithoutNodeCrypto } from "../../core/node_crypto.ts";

Deno.test("InFlight has Node's module loaded once the first answer that did without it is out", async () => {
  const inFlight = new InFlight();
  await inFlight.during(() => {
    assertEquals(doesWithoutNodeCrypto(), true);
    return new Response();
  });
  await new Promise((resolve) => setTimeout(resolve, 5));
  assertEquals(doesWithoutNodeCrypto(), false);
});
