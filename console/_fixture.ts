import type { EventRecord } from "../events/mod.ts";
import { type Fixture, FIXTURE_KINDS } from "../testing/fixture.ts";
import { found } from "./_found.ts";
import { recordOf } from "./_format.ts";
import { downloadResponse, PLAIN, PRIVATE, Refusal } from "./_http.ts";
import type { Visit } from "./_layout.ts";
import { text } from "./_query.ts";

/**
 * Members of payloads whose values are credentials, by the kind of platform: with Slack's, others post as the app; with
 * Stripe's, they see and pay an intent; old versions of Gitea sent the secret of the webhook.
 */
const CREDENTIALS: Readonly<Partial<Record<Fixture["kind"], readonly string[]>>> = {
  slack: ["token", "response_url", "bot_access_token"],
  stripe: ["client_secret"],
  forge: ["secret"],
};

/** Value that stands for a credential: one that can be called as an address, and leads nowhere. */
const LEFT_OUT = '"https://left-out.invalid/"';

/** Checks whether the test kit can deliver an event again: one that a known sender has sent. */
export const hasFixture = ({ platform }: EventRecord): boolean => FIXTURE_KINDS.includes(platform);

/** Answers with an event as a fixture for the test kit, if its payload is kept. */
export async function fixture({ data, parameters, context }: Visit): Promise<Response> {
  const record = recordOf((await found(data, text(parameters, "id"))).event);
  if (context.hidesPayloads) throw new Refusal(403, "Hidden", "Payloads are not shown here.");
  if (record && !hasFixture(record)) {
    throw new Refusal(404, "No fixture", "Only deliveries of built-in platforms have fixtures.");
  }
  const payload = record && await data.payload(record);
  if (!payload) throw new Refusal(404, "Not kept", "The payload of this event is not kept.");
  const body = JSON.stringify(fixtureOf(record, payload), null, 2);
  return downloadResponse(body, PLAIN, "fixture.json", { "Cache-Control": PRIVATE });
}

function fixtureOf(record: EventRecord, payload: Uint8Array): Fixture {
  const { platform, intake = platform, source, type, deliveryId: id } = record;
  return {
    format: "edge-base.fixture",
    ...{ kind: platform as Fixture["kind"], platform: intake, source, type },
    ...(id !== undefined && { id }),
    ...bodyOf(payload, CREDENTIALS[platform as Fixture["kind"]]),
  };
}

/** Writes a payload byte for byte but for its credentials: as text if it is UTF-8, and otherwise in base64. */
function bodyOf(
  payload: Uint8Array,
  credentials: readonly string[] = [],
): Pick<Fixture, "body" | "base64"> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload);
    return { body: withoutValuesOf(credentials, text) };
  } catch {
    return { base64: payload.toBase64() };
  }
}

/**
 * Replaces the texts that members with some names have, wherever they are in a JSON document. Only a name is a text that a
 * colon follows: in a text its quotes would be escaped.
 */
function withoutValuesOf(names: readonly string[], json: string): string {
  if (names.length === 0) return json;
  const members = new RegExp(`("(?:${names.join("|")})"\\s*:\\s*)"(?:[^"\\\\]|\\\\.)*"`, "g");
  return json.replace(members, (_, name) => `${name}${LEFT_OUT}`);
}
