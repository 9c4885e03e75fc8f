/** The verification of a delivery, beside the two calls that it cannot do without. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { FORGE_SECRET as SECRET, hmac, sign } from "../../harness/sign.ts";
import { verifyForgeDelivery, verifySignatureBytes } from "../../../webhook/mod.ts";

const SIZES = { "1 KB": 1_000, "10 KB": 10_000, "1 MB": 1_000_000, "25 MB": 25_000_000 };

for (const [group, bytes] of Object.entries(SIZES)) {
  const body = new Uint8Array(bytes).fill(0x61);
  const digest = hmac(SECRET, body);
  const signature = sign(body, SECRET);
  const headers = new Headers({ "X-Hub-Signature-256": signature });

  Deno.bench(`createHmac and timingSafeEqual, ${group}`, { group, baseline: true }, () => {
    const own = createHmac("sha256", SECRET).update(body).digest();
    if (!timingSafeEqual(own, digest)) throw new Error("not equal");
  });

  Deno.bench(`verifySignatureBytes, ${group}`, { group }, () => {
    if (!verifySignatureBytes(body, signature, SECRET)) throw new Error("not signed");
  });

  Deno.bench(`verifyForgeDelivery, ${group}`, { group }, () => {
    verifyForgeDelivery(headers, body, [SECRET]);
  });
}
