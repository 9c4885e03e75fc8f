/** Scenarios that can be measured, in the order of the report. */
import type { Scenario } from "../scenario.ts";
import { backlog } from "./backlog.ts";
import { connections } from "./connections.ts";
import { engines } from "./engines.ts";
import { openLoop } from "./open_loop.ts";
import { orderingKeys } from "./ordering_keys.ts";
import { payloads } from "./payloads.ts";
import { processes } from "./processes.ts";
import { redeliveries } from "./redeliveries.ts";
import { slowDiskLoad } from "./slow_disk.ts";
import { start } from "./start.ts";
import { stored } from "./stored.ts";

/** All scenarios. */
export const SCENARIOS: readonly Scenario[] = [
  connections,
  engines,
  openLoop,
  slowDiskLoad,
  backlog,
  stored,
  redeliveries,
  payloads,
  start,
  processes,
  orderingKeys,
];
