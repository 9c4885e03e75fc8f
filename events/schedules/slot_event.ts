import { checkPart, met } from "../../core/check_options.ts";
import { inIntake } from "../store/arrival.ts";
import { SCHEDULE } from "../store/emission.ts";
import type { Delivery, EventStore } from "../store/mod.ts";
import { isEventType } from "../store/processes.ts";

/**
 * Payload of an event that a schedule makes.
 *
 * @category Flows
 */
export interface SlotPayload {
  /** Name of the schedule. */
  readonly name: string;
  /** Time of the slot, in UTC: `2026-11-23T07:00:00Z`. An attempt may come later. */
  readonly at: string;
  /** Set if the slot was missed, and its event was made over two minutes late. */
  readonly madeUp: boolean;
}

/**
 * Checks the name of a schedule.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param name The name.
 * @throws {TypeError} If events cannot have a type of that name.
 */
export function checkScheduleName(doing: string, name: unknown): void {
  if (isEventType(name)) return;
  throw new TypeError(
    `Cannot ${doing}: its name must be a letter and up to 99 letters, digits, '_', '.', ':' or '-', got ${
      met(name)
    }`,
  );
}

/**
 * Makes the id of the event that a slot becomes.
 *
 * @param name The schedule's name.
 * @param slot The slot.
 * @returns The id: `schedule:digest:2026-11-23T07:00:00Z`.
 */
export function slotIdOf(name: string, slot: number): string {
  return inIntake(SCHEDULE, deliveryIdOf(name, slot));
}

/**
 * Makes the delivery of a slot. The slots of a schedule are in one ordering group.
 *
 * @param name The schedule's name.
 * @param slot The slot.
 * @param madeUp Set if it is made up.
 * @returns The delivery.
 */
export function slotDelivery(name: string, slot: number, madeUp: boolean): Delivery {
  const payload = { name, at: timeText(slot), madeUp } satisfies SlotPayload;
  return { ...deliveryOf(name, payload), deliveryId: deliveryIdOf(name, slot) };
}

/**
 * Runs a schedule at once, beside its slots: by hand, from a route of your own. Each call makes one
 * more event, which waits for the schedule's events before it.
 *
 * @param store The event store.
 * @param name The schedule's name. If the app has no such schedule, the event is ignored.
 * @returns The event's id.
 * @throws {TypeError} If no schedule can have that name, or the store is none.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { runSchedule } from "@org/edge-base/app";
 *
 * const bot = defineApp({
 *   name: "my-bot",
 *   platform: github(),
 *   store: sqlite(),
 *   routes: (app, { store }) => {
 *     // Behind your own authentication.
 *     app.post("/digest", async (c) => c.json({ id: await runSchedule(store, "digest") }));
 *   },
 * });
 * bot.schedule("digest", "0 7 * * 1-5", ({ payload }) => console.log(payload.at));
 * ```
 *
 * @category Flows
 */
export async function runSchedule(
  store: Pick<EventStore, "accept">,
  name: string,
): Promise<string> {
  const wanted = "the store must be what openEventStore() resolves with, or that of a route";
  checkPart("run the schedule", store, "accept", wanted);
  checkScheduleName("run the schedule", name);
  const payload = { name, at: timeText(Date.now()), madeUp: false } satisfies SlotPayload;
  return (await store.accept({ ...deliveryOf(name, payload), deliveryId: undefined })).id;
}

function deliveryOf(name: string, payload: SlotPayload): Omit<Delivery, "deliveryId"> {
  return {
    ...{ platform: SCHEDULE, source: SCHEDULE, intake: SCHEDULE, type: name, orderingKey: name },
    body: new TextEncoder().encode(JSON.stringify(payload)),
    payload: { ...payload },
  };
}

function deliveryIdOf(name: string, slot: number): string {
  return `${name}:${timeText(slot)}`;
}

/** Writes a time in UTC, in seconds. */
function timeText(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
}
