import { consoleSink, type EventStore, type StoreDefinition } from "../../../mod.ts";
import { variablesIn } from "../../../core/env.ts";
import { prepareStore } from "../../../events/store/store_definition.ts";

/**
 * Opens the store of the app without the app: for an intake alone, or to fill it.
 *
 * @param definition The store.
 * @param variables The variables with its place.
 * @returns The store, and what closes it.
 */
export async function openStore(
  definition: StoreDefinition,
  variables: Readonly<Record<string, string>> = Deno.env.toObject(),
): Promise<{ readonly store: EventStore } & AsyncDisposable> {
  const name = "forge";
  const ready = prepareStore(definition, variablesIn(variables, console.error), name);
  const database = await ready.open(consoleSink);
  return {
    store: await database.openStore({ namespace: name }) as EventStore,
    [Symbol.asyncDispose]: async () => await database.close(),
  };
}
