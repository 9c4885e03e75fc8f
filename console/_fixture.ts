import type { EventRecord } from "../events/mod.ts";
import { type Fixture, FIXTURE_KINDS } from "../testing/fixture.ts";
import { found } from "./_found.ts";
import { recordOf } from "./_format.ts";
import { downloadResponse, PLAIN, PRIVATE, Refusal } from "./_http.ts";
import type { Visit } from "./_layout.ts";
import { text } from "./_query.ts";

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
    ...bodyOf(payload),
  };
}

/** Writes a payload byte for byte: as text if it is UTF-8, and otherwise in base64. */
function bodyOf(payload: Uint8Array): Pick<Fixture, "body" | "base64"> {
  try {
    return { body: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload) };
  } catch {
    return { base64: payload.toBase64() };
  }
}
