import { assert, assertEquals } from "@std/assert";
import {
  isRecent,
  isStandardSigned,
  standardKeyOf,
  standardSignatureOf,
} from "../../webhook/_standard_signature.ts";

const headers = new Headers({
  "webhook-id": "msg_loFOjxBNrRLzqYUf",
  "webhook-timestamp": "1731705121",
  "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
});
const signature = standardSignatureOf(headers)!;

Deno.test("isStandardSigned() takes the published vector", () => {
  const body = new TextEncoder().encode('{"event_type":"ping","data":{"success":true}}');
  assert(isStandardSigned(body, signature, standardKeyOf("whsec_plJ3nmyCDGBKInavdOK15jsl")!));
});

Deno.test("isStandardSigned() takes the vector that the libraries sign", () => {
  const published = standardSignatureOf(
    new Headers({
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }),
  )!;
  const body = new TextEncoder().encode('{"test": 2432232314}');
  const key = standardKeyOf("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")!;
  assert(isStandardSigned(body, published, key));
});

Deno.test("isRecent() takes 5 minutes to either side, to the millisecond", () => {
  const sent = 1_731_705_121_000;
  for (const ms of [-300_000, 0, 300_000]) assertEquals(isRecent(signature, sent + ms), true);
  for (const ms of [-300_001, 300_001]) assertEquals(isRecent(signature, sent + ms), false);
});
