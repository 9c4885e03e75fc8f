import type { Hono } from "@hono/hono";
import {
  createIntake,
  forge,
  type ForgeOptions,
  messenger,
  type MessengerOptions,
} from "../../webhook/mod.ts";
import type { IntakeParts } from "../../webhook/intake.ts";

/** Options of the forge's platform and of its intake. */
export type ForgeIntakeOptions = ForgeOptions & IntakeParts;

/** Options of the messenger's platform and of its intake. */
export type MessengerIntakeOptions = MessengerOptions & IntakeParts;

/** Creates the intake of a forge whose secrets are given in code. */
export function forgeIntake({ store, telemetry, ...options }: ForgeIntakeOptions): Hono {
  return createIntake(forge(options), { store, telemetry });
}

/** Creates the intake of a messenger whose secrets are given in code. */
export function messengerIntake({ store, telemetry, ...options }: MessengerIntakeOptions): Hono {
  return createIntake(messenger(options), { store, telemetry });
}
