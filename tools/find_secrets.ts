/**
 * Looks for the secrets that the tests use in what a run of them has written: `find_secrets.ts FILE`. It
 * names those it finds, plain, in base64, hex or URL encoding, and ends with exit code 1.
 *
 * @module
 */
import { CANARIES } from "../tests/apps/_canary_requests.ts";
import { foundIn } from "../tests/_canaries.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../tests/_deliveries.ts";

const [path] = Deno.args;
if (path === undefined) throw new TypeError("Usage: find_secrets.ts FILE");
const found = foundIn(await Deno.readTextFile(path), {
  ...CANARIES,
  FORGE_SECRET,
  MESSENGER_SECRET,
});
if (found.length > 0) {
  console.error(`The tests have written secrets: ${found.join(", ")}`);
  Deno.exit(1);
}
