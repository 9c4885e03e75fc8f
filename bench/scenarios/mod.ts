/** What can be measured, in the order of the report. */
import type { Scenario } from "../scenario.ts";
import { connections } from "./connections.ts";
import { openLoop } from "./open_loop.ts";

/** All scenarios. */
export const SCENARIOS: readonly Scenario[] = [connections, openLoop];
