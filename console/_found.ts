import type { ConsoleData } from "./_console_data.ts";
import { Refusal } from "./_http.ts";
import type { DeliveryDetails } from "./_search.ts";

/**
 * Reads the delivery that a page is about.
 *
 * @throws {Refusal} 404 if there is none of this id.
 */
export async function found(data: ConsoleData, id: string | undefined): Promise<DeliveryDetails> {
  const details = id === undefined ? null : await data.details(id);
  if (details) return details;
  throw noSuchEvent();
}

/** Makes the refusal for an id that no event has. */
export const noSuchEvent = (): Refusal =>
  new Refusal(
    404,
    "No such event",
    "No event with this id is stored. Ids begin with the platform's name, as in github:72d3162e-…. " +
      "Done ones are forgotten after the retention.",
  );
