/** Verification: a delivery without the right signature is refused. See `_rows.ts`. */
import { forgeDelivery, sign } from "../_deliveries.ts";
import { statuses, testRow } from "./_rows.ts";

const encoder = new TextEncoder();

/** A delivery of `{}` with a signature of its own. */
const signedBy = (signature: string | null, more: Record<string, string> = {}) => () =>
  forgeDelivery("{}", { "X-Hub-Signature-256": signature, ...more });

const SHA1 = `sha1=${"0".repeat(40)}`;

testRow({
  what: "a delivery without a signature is answered 401",
  probe: statuses([
    signedBy(null),
    signedBy(""),
    signedBy(null, { "X-Hub-Signature": SHA1 }),
    signedBy(SHA1),
  ]),
  wanted: [401, 401, 401, 401],
  baseline: [500, 500, 500, 401],
});

const right = sign("{}");
const digits = right.slice("sha256=".length);

// `@octokit/webhooks-methods` compares the texts, prefix and all.
testRow({
  what: "a signature that is not written as one is answered 401",
  probe: statuses([
    signedBy(right.slice(0, -1)),
    signedBy(right.slice(0, -2)),
    signedBy(`${right}00`),
    signedBy(digits),
    signedBy(`sha512=${digits}`),
    signedBy(`SHA256=${digits}`),
    signedBy(`sha256=${digits.toUpperCase()}`),
    signedBy(`sha256=${"z".repeat(64)}`),
    signedBy(`sha256=${"\xe9".repeat(64)}`),
    signedBy(`${right}, ${right}`),
  ]),
  wanted: Array(10).fill(401),
});

testRow({
  what: "a blank secret keeps the app from starting",
  probe: async (start) => {
    await using subject = await start({ env: { FORGE_WEBHOOK_SECRET: " " } });
    if (subject === undefined) return "it does not start";
    const forged = { "X-Hub-Signature-256": sign("{}", " ") };
    return (await subject.send(forgeDelivery("{}", forged)))?.status;
  },
  wanted: "it does not start",
  baseline: 200,
});

/** A delivery of bytes under the signature of others. */
const signedAs = (sent: Uint8Array, signed: string | Uint8Array) => () =>
  forgeDelivery(sent, { "X-Hub-Signature-256": sign(signed) });

const withMark = encoder.encode("\ufeff{}");
const notUtf8 = Uint8Array.from(`{"a":"\xff"}`, (each) => each.charCodeAt(0));

testRow({
  what: "the signature is of the bytes that were sent, not of their text",
  probe: statuses([
    signedAs(withMark, "{}"),
    signedAs(withMark, withMark),
    signedAs(notUtf8, `{"a":"\ufffd"}`),
    signedAs(notUtf8, notUtf8),
  ]),
  wanted: [401, 200, 401, 400],
  baseline: [200, 401, 200, 401],
});
