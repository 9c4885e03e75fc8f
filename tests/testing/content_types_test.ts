import { assertRejects } from "@std/assert";
import {
  checkContentTypes,
  forgeDelivery,
  messengerUpdate,
  slackDelivery,
  standardDelivery,
  stripeDelivery,
  type TestDelivery,
} from "../../testing/mod.ts";
import {
  definePlatform,
  forge,
  gitea,
  github,
  gitlab,
  HttpError,
  messenger,
  type Platform,
  slack,
  standard,
  stripe,
  telegram,
} from "../../mod.ts";

const JSON_TYPE = "application/json";
const issues = (title: string) => ({ action: "opened", issue: { title } });
const message = (text: string) => ({
  message: { message_id: 1, date: 0, chat: { id: 7, type: "private", first_name: "Ada" }, text },
});

/** Each platform of the package, and the senders that it takes. */
const BUILT_IN: Readonly<Record<string, [Platform, (text: string) => TestDelivery]>> = {
  github: [github(), (text) => forgeDelivery("issues", issues(text))],
  "github, in a form": [
    github(),
    (text) => forgeDelivery("issues", issues(text), { form: true }),
  ],
  gitea: [gitea(), (text) => forgeDelivery("issues", issues(text), { from: "gitea" })],
  "forgejo, in a form": [
    gitea(),
    (text) => forgeDelivery("issues", issues(text), { from: "forgejo", form: true }),
  ],
  gitlab: [gitlab(), (text) => forgeDelivery("issue", issues(text), { from: "gitlab" })],
  forge: [forge(), (text) => forgeDelivery("issues", issues(text), { from: "forge" })],
  telegram: [telegram(), (text) => messengerUpdate(message(text))],
  messenger: [messenger(), (text) => messengerUpdate(message(text), { from: "messenger" })],
  "slack, an event": [
    slack(),
    (text) => slackDelivery({ event: { type: "message", text } }),
  ],
  "slack, a command": [slack(), (text) => slackDelivery({ command: "/deploy", text })],
  "slack, a click": [
    slack(),
    (text) => slackDelivery({ type: "block_actions", actions: [], message: { text } }),
  ],
  stripe: [stripe(), (text) => stripeDelivery({ type: "invoice.paid", text })],
  standard: [
    standard({ name: "shop" }),
    (text) => standardDelivery({ type: "a", text }, { platform: "shop" }),
  ],
};

for (const [name, [platform, deliveryWith]] of Object.entries(BUILT_IN)) {
  Deno.test(`checkContentTypes() finds one reading of what ${name} signs`, async () => {
    await checkContentTypes(platform, deliveryWith);
  });
}

/** Makes a platform that takes everything, with a way of its own to read it. */
function platformThat(parse: (headers: Headers, text: string) => object | Response): Platform {
  return definePlatform({
    name: "own",
    createVerifier: () => () => () => {},
    parse: (headers, body) => {
      const payload = parse(headers, new TextDecoder().decode(body));
      if (payload instanceof Response) return payload;
      const document = new TextEncoder().encode(JSON.stringify(payload));
      const { type, id } = payload as { type: string; id: string };
      return { type, deliveryId: id, payload: payload as Record<string, unknown>, body: document };
    },
  });
}

const typeOf = (headers: Headers) => headers.get("Content-Type") ?? "";
const fieldsOf = (text: string) => new URLSearchParams(text);

/** Ways to let the header choose. */
const FLAWED: Readonly<Record<string, Parameters<typeof platformThat>[0]>> = {
  "the fields of a form": (headers, text) =>
    typeOf(headers) === JSON_TYPE
      ? JSON.parse(text)
      : { ...Object.fromEntries(fieldsOf(text)), type: "command" },
  "a document in a form": (headers, text) =>
    JSON.parse(/form/i.test(typeOf(headers)) ? fieldsOf(text).get("payload")! : text),
  "a document in another field": (headers, text) =>
    JSON.parse(typeOf(headers).includes("json") ? text : fieldsOf(text).get("data")!),
  "a type for texts": (headers, text) =>
    typeOf(headers).startsWith("text/") ? { type: "text", id: "1" } : JSON.parse(text),
  "another type without the header": (headers, text) =>
    headers.has("Content-Type") ? JSON.parse(text) : { type: "raw", id: "1", text },
  "another action only": (headers, text) => ({
    ...JSON.parse(text),
    ...typeOf(headers) !== JSON_TYPE && { text: "another" },
  }),
};

const delivery = (text: string): TestDelivery => ({
  ...{ platform: "own", method: "POST", headers: new Headers({ "Content-Type": JSON_TYPE }) },
  body: JSON.stringify({ type: "said", id: "1", text }),
});

for (const [what, parse] of Object.entries(FLAWED)) {
  Deno.test(`checkContentTypes() finds a header that leads to ${what}`, async () => {
    await assertRejects(
      () => checkContentTypes(platformThat(parse), delivery),
      Error,
      "The platform 'own' makes two events of one signed body: said (1), and with",
    );
  });
}

Deno.test("checkContentTypes() lets a platform refuse other content types, or answer them", async () => {
  const strict = platformThat((headers, text) => {
    if (typeOf(headers) === JSON_TYPE) return JSON.parse(text);
    throw new HttpError(415, "JSON only", { code: "UNSUPPORTED_MEDIA_TYPE" });
  });
  await checkContentTypes(strict, delivery);
  await checkContentTypes(
    platformThat((headers, text) =>
      typeOf(headers) === JSON_TYPE ? JSON.parse(text) : new Response()
    ),
    delivery,
  );
});

Deno.test("checkContentTypes() refuses a delivery that could show nothing", async () => {
  const of = (deliveryWith: (text: string) => TestDelivery) => () =>
    checkContentTypes(platformThat((_, text) => JSON.parse(text)), deliveryWith);
  await assertRejects(of(() => delivery("always this")), TypeError, "must have the text");
  await assertRejects(
    of((text) => ({ ...delivery(text), body: text })),
    TypeError,
    "the delivery is refused as it is",
  );
  await assertRejects(
    () => checkContentTypes(platformThat(() => new Response()), delivery),
    TypeError,
    "the delivery must make an event, got an answer",
  );
});
