import { assert, assertEquals, assertThrows } from "@std/assert";
import { bindEnv } from "../../app/base_app.ts";

import { openEventStore } from "../../events/mod.ts";
import { startWorker } from "../../events/worker/worker.ts";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, sign } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import { assertMedianWithin } from "../_within.ts";
import {
  acceptedBy,
  assertRefusedBy,
  forgeIntake,
  type ForgeIntakeOptions,
  type OpenIntake,
  openIntake,
  type Refusal,
  type Sent,
} from "./_intakes.ts";

const encoder = new TextEncoder();

const FORM = { "Content-Type": "application/x-www-form-urlencoded" };

/** A signature of the right form that is wrong. */
const FORGED = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` };

const UNSIGNED: Refusal = [401, "MISSING_SIG", "Missing signature"];
const UNVERIFIED: Refusal = [401, "INVALID_SIG", "Invalid signature"];

type Options = Partial<ForgeIntakeOptions>;

const createForge = (options: Options = {}) =>
  openIntake((store) => forgeIntake({ secrets: [FORGE_SECRET], store, ...options }));

const assertRefused = (sent: Sent, refusal: Refusal, options?: Options) =>
  assertRefusedBy(createForge(options), sent, refusal);

const accepted = (sent: Sent, options?: Options) => acceptedBy(createForge(options), sent);

const form = (payload: string) => new URLSearchParams({ payload }).toString();

Deno.test("forge() answers 200 OK, in plain text, to a signed delivery", async () => {
  using forge = await createForge();
  const response = await forge.post(forgeDelivery("{}"));
  assertEquals(response.status, 200);
  assertEquals(response.headers.get("Content-Type"), "text/plain; charset=UTF-8");
  assertEquals(response.headers.get("X-Error-Code"), null);
  assertEquals(await response.text(), "OK");
  assertEquals(await forge.count("events", "event"), 1);
});

Deno.test("forge() accepts the published vector's signature", async () => {
  // The vector's payload is no JSON: that it is answered 400 and not 401 shows that it was verified.
  const digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
  const vector = forgeDelivery("Hello, World!", { "X-Hub-Signature-256": `sha256=${digest}` });
  await assertRefused(vector, [400, "INVALID_BODY", "Body is not JSON"]);
});

Deno.test("forge() answers 200 within 6 ms in the median", async () => {
  using forge = await createForge();
  await assertMedianWithin(6, async () => {
    await (await forge.post(forgeDelivery("{}"))).text();
  });
});

Deno.test("forge() does not wait for the event to be handled", async () => {
  using forge = await createForge();
  const [started, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const worker = startWorker(forge.store, () => (started.resolve(), released.promise));
  const response = await forge.post(forgeDelivery("{}"));
  assertEquals([response.status, await response.text()], [200, "OK"]);
  await started.promise;
  released.resolve();
  await worker.stop();
});

Deno.test("forge() answers 401 to a missing signature", async () => {
  await assertRefused(forgeDelivery("{}", { "X-Hub-Signature-256": null }), UNSIGNED);
});

Deno.test("forge() answers 401 to an empty signature", async () => {
  await assertRefused(forgeDelivery("{}", { "X-Hub-Signature-256": "" }), UNSIGNED);
});

Deno.test("forge() answers 401 to signatures under other names only", async () => {
  const signature = await sign("{}");
  const others = { "X-Hub-Signature": signature, "X-Gitea-Signature": signature.slice(7) };
  const headers = { ...others, "X-Hub-Signature-256": null, "X-Forge-Signature": signature };
  await assertRefused(forgeDelivery("{}", headers), UNSIGNED);
});

Deno.test("forge() does not read the body of an unsigned request", async () => {
  using forge = await createForge();
  let pulled = 0;
  const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
  assertEquals((await forge.post({ method: "POST", body })).status, 401);
  assertEquals(pulled, 0);
});

Deno.test("forge() answers 401 to a signature that is not right", async () => {
  await assertRefused(forgeDelivery("{}", FORGED), UNVERIFIED);
});

Deno.test("forge() answers 401 to the signature of another body", async () => {
  const signature = { "X-Hub-Signature-256": await sign('{"a":1}') };
  for (const body of ['{"a":2}', '{"a":1} ', '{"a":1}\n', ""]) {
    await assertRefused(forgeDelivery(body, signature), UNVERIFIED);
  }
});

Deno.test("forge() answers 401 to a signature with another app's secret", async () => {
  const signature = { "X-Hub-Signature-256": await sign("{}", MESSENGER_SECRET) };
  await assertRefused(forgeDelivery("{}", signature), UNVERIFIED);
});

const MALFORMED: Record<string, (signature: string) => string> = {
  "without its prefix": (signature) => signature.slice(7),
  "with the prefix of SHA-1": (signature) => signature.replace("sha256", "sha1"),
  "with its prefix in capitals": (signature) => signature.replace("sha256", "SHA256"),
  "with its digits in capitals": (signature) => `sha256=${signature.slice(7).toUpperCase()}`,
  "cut by a digit": (signature) => signature.slice(0, -1),
  "cut by a byte": (signature) => signature.slice(0, -2),
  "with a byte more": (signature) => `${signature}00`,
  "with a digit that is not hex": (signature) => `${signature.slice(0, -1)}g`,
  "with a letter that is not ASCII": (signature) => `${signature.slice(0, -1)}\u00e9`,
  "joined with itself": (signature) => `${signature}, ${signature}`,
  "of 16 KiB": (signature) => signature.repeat(230),
};

for (const [what, change] of Object.entries(MALFORMED)) {
  Deno.test(`forge() answers 401 to a signature ${what}`, async () => {
    const signature = { "X-Hub-Signature-256": change(await sign("{}")) };
    await assertRefused(forgeDelivery("{}", signature), UNVERIFIED);
  });
}

for (const bytes of [200_000, 300_000, 3_000_000]) {
  Deno.test(`forge() verifies ${bytes} bytes, and refuses them with another`, async () => {
    const body = JSON.stringify({ a: "a".repeat(bytes) });
    const { payload } = await accepted(forgeDelivery(body), { secrets: ["another", FORGE_SECRET] });
    assertEquals(payload?.size, bytes + 8);
    const signature = { "X-Hub-Signature-256": await sign(body) };
    await assertRefused(forgeDelivery(`${body} `, signature), UNVERIFIED);
  });
}

Deno.test("forge() answers 401 to two signature headers, even if one is right", async () => {
  for (const wrong of [FORGED["X-Hub-Signature-256"], "sha1=0"]) {
    const [first, last] = [await forgeDelivery("{}"), await forgeDelivery("{}")];
    first.headers.append("X-Hub-Signature-256", wrong);
    last.headers.set("X-Hub-Signature-256", wrong);
    last.headers.append("X-Hub-Signature-256", await sign("{}"));
    await assertRefused(first, UNVERIFIED);
    await assertRefused(last, UNVERIFIED);
  }
});

Deno.test("forge() logs a warning for a signature that is not right", async () => {
  using forge = await createForge();
  const response = await forge.post(forgeDelivery("{}", FORGED));
  const warnings = forge.records.filter(({ message }) => message !== "request");
  assertEquals(warnings.length, 1);
  const { level, message, requestId, platform, code } = warnings[0]!;
  assertEquals([level, message], ["warn", "delivery refused: Invalid signature"]);
  assertEquals([platform, code], ["forge", "INVALID_SIG"]);
  assertEquals(requestId, response.headers.get("X-Request-Id"));
});

Deno.test("forge() logs no secret, signature or payload", async () => {
  using forge = await createForge();
  const [body, signature] = ['{"password":"hunter2"}', `sha256=${"ab".repeat(32)}`];
  await forge.post(forgeDelivery(body, { "X-Hub-Signature-256": signature }));
  await forge.post(forgeDelivery(body));
  await forge.post(forgeDelivery(`${body}hunter2`));
  const log = JSON.stringify(forge.records);
  const genuine = (await sign(body)).slice(7);
  for (const secret of [FORGE_SECRET, "hunter2", "abab", genuine]) assert(!log.includes(secret));
});

Deno.test("forge() accepts the old and the new secret during a rotation", async () => {
  for (const secret of ["new secret", "old secret"]) {
    const signature = { "X-Hub-Signature-256": await sign("{}", secret) };
    await accepted(forgeDelivery("{}", signature), { secrets: ["new secret", "old secret"] });
  }
});

Deno.test("forge() answers 401 to the old secret after a rotation", async () => {
  const signature = { "X-Hub-Signature-256": await sign("{}", "old secret") };
  await assertRefused(forgeDelivery("{}", signature), UNVERIFIED, { secrets: ["new secret"] });
});

Deno.test("forge() does not take several secrets for one", async () => {
  for (const secret of ["a,b", "a, b", "ab"]) {
    const signature = { "X-Hub-Signature-256": await sign("{}", secret) };
    await assertRefused(forgeDelivery("{}", signature), UNVERIFIED, { secrets: ["a", "b"] });
  }
});

const BAD_SECRETS = [[], [""], [" "], ["\t\r\n"], ["good secret", ""], [undefined], [null], [42]];

for (const secrets of [...BAD_SECRETS, null, "a text"]) {
  Deno.test(`forge() refuses ${JSON.stringify(secrets)} for its secrets`, async () => {
    using forge = await createForge();
    const build = () => forgeIntake({ secrets: secrets as string[], store: forge.store });
    const { message } = assertThrows(build, TypeError, "Cannot define the platform 'forge': ");
    assert(!message.includes("good secret"));
  });
}

for (const maxBodyBytes of [NaN, -1, 1.5]) {
  Deno.test(`forge() refuses a limit of ${maxBodyBytes} bytes`, async () => {
    using forge = await createForge();
    const options = { secrets: [FORGE_SECRET], store: forge.store, maxBodyBytes };
    assertThrows(() => forgeIntake(options), RangeError);
  });
}

for (const bodyTimeoutMs of [NaN, -1, 0, Infinity, 2 ** 31]) {
  Deno.test(`forge() refuses a deadline of ${bodyTimeoutMs} ms`, async () => {
    using forge = await createForge();
    const options = { secrets: [FORGE_SECRET], store: forge.store, bodyTimeoutMs };
    assertThrows(() => forgeIntake(options), RangeError);
  });
}

Deno.test("forge() verifies bytes: a signed byte order mark is taken, and kept", async () => {
  const body = encoder.encode("\ufeff{}");
  assertEquals((await accepted(forgeDelivery(body))).body, body);
});

Deno.test("forge() answers 401 to a byte order mark that was not signed", async () => {
  const signature = { "X-Hub-Signature-256": await sign("{}") };
  await assertRefused(forgeDelivery("\ufeff{}", signature), UNVERIFIED);
});

Deno.test("forge() answers 401 to bytes whose text form was signed", async () => {
  const bytes = Uint8Array.from([...encoder.encode('{"a":"'), 0xff, ...encoder.encode('"}')]);
  const signature = { "X-Hub-Signature-256": await sign(new TextDecoder().decode(bytes)) };
  await assertRefused(forgeDelivery(bytes, signature), UNVERIFIED);
});

Deno.test("forge() answers 400 to invalid UTF-8 that is signed", async () => {
  const bytes = Uint8Array.from([...encoder.encode('{"a":"'), 0xff, ...encoder.encode('"}')]);
  await assertRefused(forgeDelivery(bytes), [400, "INVALID_BODY", "Body is not UTF-8"]);
});

Deno.test("forge() tells a composed character from a decomposed one", async () => {
  const signature = { "X-Hub-Signature-256": await sign('{"a":"\u00e9"}') };
  await assertRefused(forgeDelivery('{"a":"e\u0301"}', signature), UNVERIFIED);
});

/** Faults of a request beside its signature. */
const FAULTY: Record<string, readonly [body: string, headers: Record<string, string | null>]> = {
  "another media type": ["{}", { "Content-Type": "text/html" }],
  "no event type": ["{}", { "X-Forge-Event": null }],
  "a malformed event type": ["{}", { "X-Forge-Event": "a b" }],
  "a malformed delivery id": ["{}", { "X-Forge-Delivery": "a b" }],
  "no body": ["", {}],
  "a body that is not JSON": ["{", {}],
  "a body that is no object": ["null", {}],
  "a body nested too deeply": [`{"a":${"[".repeat(9_999)}${"]".repeat(9_999)}}`, {}],
};

for (const [what, [body, headers]] of Object.entries(FAULTY)) {
  Deno.test(`forge() answers 401 to an unverified request with ${what}`, async () => {
    await assertRefused(forgeDelivery(body, { ...headers, ...FORGED }), UNVERIFIED);
    const unsigned = { ...headers, "X-Hub-Signature-256": null };
    await assertRefused(forgeDelivery(body, unsigned), UNSIGNED);
  });
}

for (const body of ["", "a=1", "payload=%", "payload=%FF", "payload=a&payload=b", "payload={}"]) {
  Deno.test(`forge() answers 401 to an unverified request with the form "${body}"`, async () => {
    await assertRefused(forgeDelivery(body, { ...FORM, ...FORGED }), UNVERIFIED);
  });
}

Deno.test("forge() answers 401 to an unverified request with a form that is not UTF-8", async () => {
  await assertRefused(forgeDelivery(Uint8Array.of(0xff), { ...FORM, ...FORGED }), UNVERIFIED);
});

Deno.test("forge() answers 413 or 415 to an unverified request only for what is declared", async () => {
  const [big, zipped] = [{ "Content-Length": "26214401" }, { "Content-Encoding": "gzip" }];
  const tooLarge: Refusal = [413, "BODY_TOO_LARGE", "Body larger than 26214400 bytes"];
  const encoded: Refusal = [415, "UNSUPPORTED_MEDIA_TYPE", "Unsupported content encoding"];
  for (const signature of [{}, FORGED, { "X-Hub-Signature-256": null }]) {
    await assertRefused(forgeDelivery("{}", { ...signature, ...big }), tooLarge);
    await assertRefused(forgeDelivery("{}", { ...signature, ...zipped }), encoded);
  }
});

const JSON_ONLY: Refusal = [415, "UNSUPPORTED_MEDIA_TYPE", "Content type must be application/json"];

Deno.test("forge() judges the media type, event type, id and body in this order", async () => {
  const bad = { "Content-Type": "text/html", "X-Forge-Event": "a b", "X-Forge-Delivery": "a b" };
  const json = { "Content-Type": "application/json" };
  const typed = { ...json, "X-Forge-Event": "push" };
  await assertRefused(forgeDelivery("{", bad), JSON_ONLY);
  const event: Refusal = [400, "INVALID_EVENT", "Invalid event type"];
  await assertRefused(forgeDelivery("{", { ...bad, ...json }), event);
  const id: Refusal = [400, "INVALID_DELIVERY", "Invalid delivery id"];
  await assertRefused(forgeDelivery("{", { ...bad, ...typed }), id);
});

for (
  const type of [null, "", "text/plain", "text/json", "application/jsonp", "multipart/form-data"]
) {
  Deno.test(`forge() answers 415 to the media type ${type}`, async () => {
    await assertRefused(forgeDelivery(encoder.encode("{}"), { "Content-Type": type }), JSON_ONLY);
  });
}

Deno.test("forge() takes the media type in any case, with a character set", async () => {
  for (const type of ["application/json; charset=utf-8", "Application/JSON"]) {
    await accepted(forgeDelivery("{}", { "Content-Type": type }));
  }
});

Deno.test("forge() answers 400 to a missing event type", async () => {
  const missing: Refusal = [400, "MISSING_EVENT", "Missing event type"];
  await assertRefused(forgeDelivery("{}", { "X-Forge-Event": null }), missing);
});

for (
  const type of ["push, push", "two words", "1", "<script>", "x".repeat(101), "x".repeat(10_240)]
) {
  Deno.test(`forge() answers 400 to the event type ${type.slice(0, 20)}`, async () => {
    const invalid: Refusal = [400, "INVALID_EVENT", "Invalid event type"];
    await assertRefused(forgeDelivery("{}", { "X-Forge-Event": type }), invalid);
  });
}

for (const id of ["", "a, b", "a b", "../a", "\u00e9", "x".repeat(129), "x".repeat(10_240)]) {
  Deno.test(`forge() answers 400 to the delivery id "${id.slice(0, 20)}"`, async () => {
    const invalid: Refusal = [400, "INVALID_DELIVERY", "Invalid delivery id"];
    await assertRefused(forgeDelivery("{}", { "X-Forge-Delivery": id }), invalid);
  });
}

const BAD_BODIES: Record<string, readonly [body: string, message: string]> = {
  "that is empty": ["", "Body is not JSON"],
  "that is not JSON": ["payload", "Body is not JSON"],
  "that is cut": ['{"a":', "Body is not JSON"],
  "that is null": ["null", "Body must be a JSON object"],
  "that is a number": ["42", "Body must be a JSON object"],
  "that is a text": ['"a"', "Body must be a JSON object"],
  "that is an array": ["[{}]", "Body must be a JSON object"],
  "of 65 levels": [`{"a":${"[".repeat(64)}${"]".repeat(64)}}`, "Body is nested too deeply"],
  "of 4,000 levels": [`{"a":${"[".repeat(4e3)}${"]".repeat(4e3)}}`, "Body is nested too deeply"],
};

for (const [what, [body, message]] of Object.entries(BAD_BODIES)) {
  Deno.test(`forge() answers 400 to a signed body ${what}`, async () => {
    await assertRefused(forgeDelivery(body), [400, "INVALID_BODY", message]);
  });
}

const ODD_BODIES: Record<string, string> = {
  "of 64 levels": `{"a":${"[".repeat(63)}${"]".repeat(63)}}`,
  "with __proto__ and constructor keys": '{"__proto__":{"a":1},"constructor":{"prototype":{}}}',
  "with duplicate keys": '{"a":1,"a":2}',
  "with ids beyond 2^53": '{"id":9007199254740993,"b":1e400}',
  "with odd white space": '\r\n\t {\t"a" :\r1 }\n\n',
  "with escapes": '{"\\u0061":"\\ud83d\\ude00\\u2028\\ud800"}',
  "with NUL": '{"a":"\\u0000"}',
  "of 65,535 letters": `{"a":"${"x".repeat(65_527)}"}`,
  "of 65,536 letters": `{"a":"${"x".repeat(65_528)}"}`,
  "of 65,537 letters": `{"a":"${"x".repeat(65_529)}"}`,
  "of 32,768 letters with an emoji": `{"a":"${"x".repeat(32_756)}\u{1f600}"}`,
  "of 70 KB": `{"a":"${"xy".repeat(35_000)}"}`,
  "of 1 MB": `{"a":"${"xyz ".repeat(262_144)}"}`,
};

for (const [what, text] of Object.entries(ODD_BODIES)) {
  Deno.test(`forge() stores a body ${what} byte for byte`, async () => {
    const { body } = await accepted(forgeDelivery(text));
    assert(new TextDecoder("utf-8", { ignoreBOM: true }).decode(body) === text);
  });
}

const sized = (size: number) => encoder.encode(`{"a":"${"x".repeat(size - 8)}"}`);

Deno.test("forge() takes 25 MiB by default", async () => {
  assertEquals((await accepted(forgeDelivery(sized(26_214_400)))).body.byteLength, 26_214_400);
});

Deno.test("forge() answers 413 to a byte over 25 MiB by default", async () => {
  const tooLarge: Refusal = [413, "BODY_TOO_LARGE", "Body larger than 26214400 bytes"];
  await assertRefused(forgeDelivery(sized(26_214_401)), tooLarge);
});

Deno.test("forge() has the limit that it is given", async () => {
  await accepted(forgeDelivery(sized(100)), { maxBodyBytes: 100 });
  const tooLarge: Refusal = [413, "BODY_TOO_LARGE", "Body larger than 100 bytes"];
  await assertRefused(forgeDelivery(sized(101)), tooLarge, { maxBodyBytes: 100 });
});

Deno.test("forge() answers 408 to a body that does not come in time", async () => {
  const { headers } = await forgeDelivery("{}");
  const stuck = { method: "POST", headers, body: new ReadableStream() };
  const late: Refusal = [408, "BODY_TIMEOUT", "Body not received in time"];
  await assertRefused(stuck, late, { bodyTimeoutMs: 1 });
});

/** The headers of one product, over those of the contract. */
const named = (names: readonly string[], event: string, id: string) => ({
  "X-Forge-Event": null,
  "X-Forge-Delivery": null,
  ...Object.fromEntries(
    names.flatMap((name) => [[`X-${name}-Event`, event], [`X-${name}-Delivery`, id]]),
  ),
});

const PRODUCTS: Record<string, readonly string[]> = {
  forge: ["Forge"],
  github: ["GitHub"],
  gitea: ["Gitea", "Gogs", "GitHub"],
  forgejo: ["Forgejo", "Gitea", "Gogs", "GitHub"],
};

for (const [product, names] of Object.entries(PRODUCTS)) {
  Deno.test(`forge() takes the headers of ${product}`, async () => {
    const event = await accepted(forgeDelivery("{}", named(names, "issues", "id-1")));
    assertEquals([event.platform, event.source], ["forge", product]);
    assertEquals([event.type, event.id, event.deliveryId], ["issues", "forge:id-1", "id-1"]);
  });
}

Deno.test("forge() goes by its own headers before another product's", async () => {
  const github = { "X-GitHub-Event": "issues", "X-GitHub-Delivery": "github-1" };
  const own = { "X-Forge-Event": "push", "X-Forge-Delivery": "forge-1" };
  const event = await accepted(forgeDelivery("{}", { ...github, ...own }));
  assertEquals([event.source, event.type, event.id], ["forge", "push", "forge:forge-1"]);
});

Deno.test("forge() does not take the headers of the other platform for its own", async () => {
  const token = { "X-Messenger-Bot-Api-Secret-Token": FORGE_SECRET };
  await assertRefused(forgeDelivery("{}", { ...token, "X-Hub-Signature-256": null }), UNSIGNED);
  await assertRefused(forgeDelivery("{}", { ...token, ...FORGED }), UNVERIFIED);
});

Deno.test("forge() ignores the other platform's headers on a signed delivery", async () => {
  const token = { "X-Messenger-Bot-Api-Secret-Token": "wrong" };
  assertEquals((await accepted(forgeDelivery("{}", token))).platform, "forge");
});

const DOCUMENT = '{"text":"a+b c&payload=d=e%\u00e9\u{1f600}\\n"}';

Deno.test("forge() takes a form that is signed as it is sent", async () => {
  const { body } = await accepted(forgeDelivery(form(DOCUMENT), FORM));
  assertEquals(new TextDecoder().decode(body), DOCUMENT);
});

Deno.test("forge() takes a form whose inner document is signed", async () => {
  const signature = { "X-Hub-Signature-256": await sign(DOCUMENT) };
  const { body } = await accepted(forgeDelivery(form(DOCUMENT), { ...FORM, ...signature }));
  assertEquals(new TextDecoder().decode(body), DOCUMENT);
});

Deno.test("forge() tries all secrets on a form's inner document", async () => {
  const signature = { "X-Hub-Signature-256": await sign(DOCUMENT, "old secret") };
  const delivery = forgeDelivery(form(DOCUMENT), { ...FORM, ...signature });
  await accepted(delivery, { secrets: ["new secret", "old secret"] });
});

Deno.test("forge() takes a form with its media type in capitals, and parameters", async () => {
  const type = { "Content-Type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8" };
  const signature = { "X-Hub-Signature-256": await sign(DOCUMENT) };
  await accepted(forgeDelivery(form(DOCUMENT), type));
  await accepted(forgeDelivery(form(DOCUMENT), { ...type, ...signature }));
});

Deno.test("forge() answers 401 to a form whose signature is of another document", async () => {
  const signature = { "X-Hub-Signature-256": await sign("{}") };
  await assertRefused(forgeDelivery(form(DOCUMENT), { ...FORM, ...signature }), UNVERIFIED);
});

Deno.test("forge() answers 401 to JSON where the document in it is signed", async () => {
  const signature = { "X-Hub-Signature-256": await sign(DOCUMENT) };
  await assertRefused(forgeDelivery(form(DOCUMENT), signature), UNVERIFIED);
});

const BAD_FORM: Refusal = [400, "INVALID_BODY", "Form must have one field 'payload' in UTF-8"];

const BAD_FORMS = ["", "a=1", "xpayload={}", "payload", "payload={}&payload={}"];
const BAD_ESCAPES = ["%", "%7", "%zz", "%FF", "%ED%A0%80"].map((text) => `payload=a${text}`);

for (const body of [...BAD_FORMS, ...BAD_ESCAPES]) {
  Deno.test(`forge() answers 400 to the signed form "${body}"`, async () => {
    await assertRefused(forgeDelivery(body, FORM), BAD_FORM);
  });
}

Deno.test("forge() judges the event type before what is in a form", async () => {
  const missing: Refusal = [400, "MISSING_EVENT", "Missing event type"];
  await assertRefused(forgeDelivery("a=1", { ...FORM, "X-Forge-Event": null }), missing);
});

Deno.test("forge() answers 400 to a signed form whose document is not JSON", async () => {
  await assertRefused(forgeDelivery("payload=", FORM), [400, "INVALID_BODY", "Body is not JSON"]);
  const message = "Body must be a JSON object";
  await assertRefused(forgeDelivery("payload=%5B%5D", FORM), [400, "INVALID_BODY", message]);
});

Deno.test("forge() does not find a form within a signed JSON document", async () => {
  // The media type is not signed: whoever can title an issue must not write another document so.
  const body = `{"title":"a&${form('{"forged":true}')}&b"}`;
  using forge = await createForge();
  assertEquals((await forge.post(forgeDelivery(body, FORM))).status, 400);
  assertEquals(await forge.count("events"), 0);
});

Deno.test("forge() makes one event of the same delivery 50 times in parallel", async () => {
  using forge = await createForge();
  const id = { "X-Forge-Delivery": "id-1" };
  const post = async () => await forge.post(forgeDelivery("{}", id));
  const responses = await Promise.all(Array.from({ length: 50 }, post));
  for (const response of responses) {
    assertEquals([response.status, await response.text()], [200, "OK"]);
  }
  assertEquals(await forge.count("events", "event"), 1);
  assertEquals(await forge.count("events", "payload"), 1);
});

Deno.test("forge() answers 200 to a delivery of an event that is done, and drops it", async () => {
  using forge = await createForge();
  const id = { "X-Forge-Delivery": "id-1" };
  await forge.post(forgeDelivery("{}", id));
  const [lease] = await forge.store.claim({ limit: 1, owner: "test", leaseMs: 60_000 });
  assert(await forge.store.complete(lease!));
  assertEquals((await forge.post(forgeDelivery("{}", id))).status, 200);
  assertEquals((await forge.store.get("forge:id-1"))?.state, "done");
  assertEquals(await forge.events(), []);
});

Deno.test("forge() queues a delivery of an event that died afresh", async () => {
  using forge = await createForge();
  const id = { "X-Forge-Delivery": "id-1" };
  await forge.post(forgeDelivery("{}", id));
  const [lease] = await forge.store.claim({ limit: 1, owner: "test", leaseMs: 60_000 });
  assert(await forge.store.bury(lease!, new Error("failed")));
  assertEquals((await forge.post(forgeDelivery("{}", id))).status, 200);
  assertEquals((await forge.store.get("forge:id-1"))?.state, "queued");
});

Deno.test("forge() makes an event of each delivery without an id", async () => {
  using forge = await createForge();
  for (let i = 0; i < 3; i++) await forge.post(forgeDelivery("{}", { "X-Forge-Delivery": null }));
  assertEquals(await forge.count("events", "event"), 3);
});

Deno.test("forge() keeps the request's id with the event", async () => {
  using forge = await createForge();
  const response = await forge.post(forgeDelivery("{}"));
  const [event] = await forge.events();
  assertEquals(event?.requestId, response.headers.get("X-Request-Id"));
});

for (const method of ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "INVENTED"]) {
  Deno.test(`forge() answers 405 to ${method}, whatever it says to be`, async () => {
    using forge = await createForge();
    const headers = { "X-HTTP-Method-Override": "POST", "X-Method-Override": "POST" };
    const response = await forge.app.request("/webhook?_method=POST", { method, headers });
    assertEquals([response.status, response.headers.get("Allow")], [405, "POST"]);
    const body = method === "HEAD" ? "" : '{"error":"Method Not Allowed"}';
    assertEquals(await response.text(), body);
  });
}

const OTHER_PATHS = ["/webhook/", "//webhook", "/Webhook", "/WEBHOOK", "/webhook;a", "/webhook%20"];
OTHER_PATHS.push(
  "/webhook%2f",
  "/%2fwebhook",
  "/webhook%00",
  "/%77ebhook",
  "/webhoo%6B",
  "/webhook#a",
  "/webhook?a#b",
  "/x/webhook",
);

for (const path of OTHER_PATHS) {
  Deno.test(`forge() answers 404 to ${path}`, async () => {
    using forge = await createForge();
    const response = await forge.app.request(path, await forgeDelivery("{}"));
    assertEquals([response.status, await response.json()], [404, { error: "Not Found" }]);
    assertEquals(await forge.count("events"), 0);
  });
}

Deno.test("forge() answers all with no-store and nosniff", async () => {
  using forge = await createForge();
  const [unsigned, cut] = [{ "X-Hub-Signature-256": null }, { "Content-Encoding": "gzip" }];
  for (const headers of [{}, FORGED, unsigned, cut, { "X-Forge-Event": "a b" }]) {
    const response = await forge.post(forgeDelivery("{}", headers));
    assertEquals(response.headers.get("Cache-Control"), "no-store");
    assertEquals(response.headers.get("X-Content-Type-Options"), "nosniff");
    assertEquals(response.headers.has("Content-Type"), true);
  }
});

/** Runs a function with the address of a served app. */
async function served(
  forge: OpenIntake,
  fn: (port: number) => Promise<void>,
): Promise<void> {
  const quiet = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  await using server = Deno.serve(quiet, bindEnv(forge.app, {}));
  await fn(server.addr.port);
}

/** Sends a signed delivery to any request target and host, as no client would, and returns the status. */
async function statusOf(port: number, target: string, host: string): Promise<string> {
  const { headers } = await forgeDelivery("{}");
  const fixed = [
    `POST ${target} HTTP/1.1`,
    `Host: ${host}`,
    "Connection: close",
    "Content-Length: 2",
  ];
  const lines = [...headers].map(([name, value]) => `${name}: ${value}`);
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(encoder.encode([...fixed, ...lines, "", "{}"].join("\r\n")));
  const buffer = new Uint8Array(4096);
  const count = await connection.read(buffer);
  return new TextDecoder().decode(buffer.subarray(0, count ?? 0)).slice(9, 12);
}

const TARGETS: readonly (readonly [target: string, host: string, status: string])[] = [
  ["/webhook", "localhost", "200"],
  ["/x/../webhook", "localhost", "404"],
  ["/./webhook", "localhost", "404"],
  ["/x/%2e%2e/webhook", "localhost", "404"],
  ["/%77ebhook", "localhost", "404"],
  ["//webhook", "localhost", "404"],
  ["/public", "x/webhook?", "400"],
  ["/public", "x/webhook#", "400"],
  ["/webhook", "user@localhost", "400"],
];

for (const [target, host, status] of TARGETS) {
  testWith(["net"], `forge() answers ${status} to ${target} at ${host}`, async () => {
    using forge = await createForge();
    await served(forge, async (port) => {
      assertEquals(await statusOf(port, target, host), status);
      assertEquals(await forge.count("events", "event"), status === "200" ? 1 : 0);
    });
  });
}

Deno.test("forge() reads no host: where none is checked, none is answered 500", async () => {
  using kv = await Deno.openKv(":memory:");
  const intake = forgeIntake({ secrets: [FORGE_SECRET], store: await openEventStore(kv) });
  for (const path of ["/webhook?token=%20", "/webhook?a=/%", "/webhook"]) {
    const request = new Request("http://localhost/", await forgeDelivery("{}"));
    Object.defineProperty(request, "url", { value: `http://256.256.256.256${path}` });
    assertEquals((await intake.fetch(request)).status, 200, path);
  }
});
