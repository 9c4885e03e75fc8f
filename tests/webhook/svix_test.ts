/** Deliveries of `standard()` are signed by the package `svix`, which is the sender's. */
import { assertEquals, assertThrows } from "@std/assert";
import { Webhook, WebhookVerificationError } from "svix";
import { standardDelivery, TEST_SECRETS } from "../../testing/mod.ts";
import { openShop, svixNamed } from "./_standard.ts";

const BODY = JSON.stringify({ type: "invoice.paid", data: { total: 42 }, text: "é\u{1f600}" });

const SECRETS: Readonly<Record<string, string>> = {
  "a secret with whsec_": TEST_SECRETS.gitlab,
  "a secret without whsec_": TEST_SECRETS.gitlab.slice("whsec_".length),
};

/** Makes the headers of a delivery as Svix does. */
function headersOf(secret: string, { id = "msg_1", sentAt = Date.now(), body = BODY } = {}) {
  const time = new Date(sentAt);
  return new Headers({
    "Content-Type": "application/json",
    "svix-id": id,
    "svix-timestamp": String(Math.floor(time.getTime() / 1_000)),
    "svix-signature": new Webhook(secret).sign(id, time, body),
  });
}

/** Renames the signed headers as the specification names them. */
const specified = (headers: Headers) =>
  new Headers([...headers].map(([name, value]) => [name.replace(/^svix-/, "webhook-"), value]));

for (const [what, secret] of Object.entries(SECRETS)) {
  Deno.test(`standard() takes what Svix signs under ${what}, by both names of the headers`, async () => {
    using sut = await openShop({ secrets: [secret] });
    assertEquals(await sut.send(headersOf(secret), BODY), [200, null]);
    const other = headersOf(secret, { id: "msg_2" });
    assertEquals(await sut.send(specified(other), BODY), [200, null]);
    const events = await sut.events();
    assertEquals(events.map(([id]) => id).toSorted(), ["shop:msg_1", "shop:msg_2"]);
  });
}

Deno.test("standard() refuses what Svix has signed otherwise", async () => {
  using sut = await openShop();
  const secret = TEST_SECRETS.gitlab;
  const other = `whsec_${btoa("another key of the tests........")}`;
  assertEquals(await sut.send(headersOf(other), BODY), [401, "INVALID_SIG"]);
  assertEquals(await sut.send(headersOf(secret), `${BODY} `), [401, "INVALID_SIG"]);
  const stale = headersOf(secret, { sentAt: Date.now() - 302_000 });
  assertEquals(await sut.send(stale, BODY), [401, "STALE_SIG"]);
  assertEquals(await sut.events(), []);
});

Deno.test("standard() takes two signatures of Svix while a secret is being replaced", async () => {
  const other = `whsec_${btoa("another key of the tests........")}`;
  using sut = await openShop();
  const headers = headersOf(other);
  const both = [headers, headersOf(TEST_SECRETS.gitlab)].map((each) => each.get("svix-signature"));
  headers.set("svix-signature", both.join(" "));
  assertEquals(await sut.send(headers, BODY), [200, null]);
});

Deno.test("standardDelivery() signs so that Svix verifies it", () => {
  const { headers, body } = standardDelivery(BODY, { id: "msg_1" });
  const webhook = new Webhook(TEST_SECRETS.gitlab);
  const sent = Object.fromEntries(svixNamed(headers));
  webhook.verify(String(body), sent);
  assertThrows(() => webhook.verify(`${body} `, sent), WebhookVerificationError);
});
