import { assert, assertEquals } from "@std/assert";
import { createHmac } from "node:crypto";
import { isRecent, STANDARD_SCHEME } from "../../webhook/_signature_schemes.ts";

/** A signature that was published with its secret. */
function isRight(headers: Record<string, string>, body: string, secret: string): boolean {
  const { signatures, head } = STANDARD_SCHEME.claimOf(new Headers(headers))!;
  const digest = createHmac("sha256", STANDARD_SCHEME.keyOf(secret)!).update(head!).update(body)
    .digest(STANDARD_SCHEME.encoding);
  return signatures.includes(STANDARD_SCHEME.prefix + digest);
}

Deno.test("STANDARD_SCHEME takes the published vector", () => {
  const headers = {
    "webhook-id": "msg_loFOjxBNrRLzqYUf",
    "webhook-timestamp": "1731705121",
    "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
  };
  const body = '{"event_type":"ping","data":{"success":true}}';
  assert(isRight(headers, body, "whsec_plJ3nmyCDGBKInavdOK15jsl"));
});

Deno.test("STANDARD_SCHEME takes the vector that the libraries sign", () => {
  const headers = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  assert(isRight(headers, '{"test": 2432232314}', "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
});

Deno.test("isRecent() takes 5 minutes to either side, to the millisecond", () => {
  const [timestamp, sent] = ["1731705121", 1_731_705_121_000];
  for (const ms of [-300_000, 0, 300_000]) assertEquals(isRecent(timestamp, sent + ms), true);
  for (const ms of [-300_001, 300_001]) assertEquals(isRecent(timestamp, sent + ms), false);
});
