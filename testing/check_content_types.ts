import { checkFunction, checkObjectOption, checkOptions, met } from "../core/check_options.ts";
import { variablesIn } from "../core/env.ts";
import {
  checkPlatform,
  type Platform,
  preparePlatform,
  type ReadyPlatform,
} from "../webhook/platform.ts";
import type { TestDelivery } from "./deliveries.ts";
import { testEnvOf } from "./test_secrets.ts";

const DOING = "check the content types";

/** Content types that a request is sent again with; undefined for none. */
const CONTENT_TYPES = [
  "application/json",
  "application/json; charset=utf-8",
  "application/x-www-form-urlencoded",
  "application/x-www-form-urlencoded; charset=utf-8",
  "APPLICATION/X-WWW-FORM-URLENCODED",
  "multipart/form-data; boundary=a",
  "text/plain",
  "application/xml",
  undefined,
] as const;

/** Word that the texts begin with, in the same spelling in JSON and in a form. */
const MARK = "strangertext";

/** Fields of forms that senders put a document into. */
const FIELDS = ["payload", "data", "body", "content", "document", "event", "json", "message"];

/** Document that says the same to whatever field of it is taken for the event's type. */
const FORGED = JSON.stringify({
  ...{ id: "forged", event_id: "forged", trigger_id: "forged", type: "forged", action: "forged" },
  ...{ actions: [{ action_id: "forged" }], event: { type: "forged" }, data: { id: "forged" } },
});

/** A harmless text, and one that would be fields of a form if the rest of the body were taken for one. */
const TEXTS = [
  MARK,
  `${MARK}&${FIELDS.map((name) => `${name}=${encodeURIComponent(FORGED)}`).join("&")}` +
  `&type=forged&action=forged&command=forged&text=forged&rest=`,
];

/**
 * Checks that a platform reads a signed body in one way only. The header `Content-Type` is not signed: if it
 * chose the parser, somebody who has captured a delivery could send it again as a form, and a text of a stranger
 * in it would become an event.
 *
 * @param platform The platform.
 * @param deliveryWith Makes a delivery, signed as the sender does, that has a given text where a stranger may
 * write one.
 * @param options Values of the platform's variables, `env`, such as the secret that the delivery is signed with.
 * By default the platform's `testEnv`.
 * @throws {Error} If another content type makes another event of the delivery.
 * @throws {TypeError} If the delivery is refused as it is, makes no event, or lacks the text.
 *
 * @example
 * ```ts
 * import { github } from "@org/edge-base";
 * import { checkContentTypes, forgeDelivery } from "@org/edge-base/testing";
 *
 * await checkContentTypes(github(), (title) => forgeDelivery("issues", { issue: { title } }));
 * ```
 *
 * @category Deliveries
 */
export async function checkContentTypes(
  platform: Platform,
  deliveryWith: (text: string) => TestDelivery | Promise<TestDelivery>,
  options: { readonly env?: Readonly<Record<string, string | undefined>> | undefined } = {},
): Promise<void> {
  checkPlatform(DOING, platform);
  checkFunction(DOING, "deliveryWith", deliveryWith);
  checkOptions(DOING, options, { env: checkObjectOption });
  const env = { ...testEnvOf(platform), ...options.env };
  const ready = preparePlatform(platform, variablesIn(env, () => {}));
  for (const text of TEXTS) {
    const { headers, body } = await deliveryWith(text);
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    if (!new TextDecoder().decode(bytes).includes(MARK)) {
      throw new TypeError(`Cannot ${DOING}: the delivery must have the text ${met(text)}`);
    }
    const right = await readingOf(ready, headers, bytes).catch((cause) => {
      throw new TypeError(`Cannot ${DOING}: the delivery is refused as it is`, { cause });
    });
    if (right === undefined) {
      throw new TypeError(`Cannot ${DOING}: the delivery must make an event, got an answer`);
    }
    await checkAll(ready, headers, bytes, right);
  }
}

async function checkAll(
  ready: ReadyPlatform,
  headers: Headers,
  bytes: Uint8Array<ArrayBuffer>,
  right: Reading,
): Promise<void> {
  for (const contentType of CONTENT_TYPES) {
    const changed = new Headers(headers);
    if (contentType === undefined) changed.delete("Content-Type");
    else changed.set("Content-Type", contentType);
    // One that is refused makes no event.
    const other = await readingOf(ready, changed, bytes).catch(() => undefined);
    if (other === undefined || other.all === right.all) continue;
    throw new Error(
      `The platform '${ready.name}' makes two events of one signed body: ${right.event}, and with ` +
        `${contentType === undefined ? "no Content-Type" : `the Content-Type ${contentType}`} ` +
        `${other.event}. The header is not signed: decide by the body how it is read`,
    );
  }
}

/** Event that a request becomes: by its name, and with all that is stored of it. */
interface Reading {
  readonly event: string;
  readonly all: string;
}

/** Verifies and reads a request; resolves with undefined if the platform answers it without an event. */
async function readingOf(
  { verifyHead, read }: ReadyPlatform,
  headers: Headers,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<Reading | undefined> {
  await verifyHead(headers)({ bytes });
  const delivery = read(headers, bytes);
  if (delivery instanceof Response) return undefined;
  const { payload: _payload, body, ...rest } = delivery;
  const { type, action, deliveryId = "no id" } = rest;
  const name = action === undefined ? type : `${type}.${action}`;
  return {
    event: `${name} (${deliveryId})`,
    all: JSON.stringify([rest, new TextDecoder().decode(body)]),
  };
}
