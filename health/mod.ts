/**
 * The health routes, for orchestrators and monitors.
 *
 * @module
 */
export {
  type HealthOptions,
  type HealthReport,
  healthRoutes,
  type ProbeReport,
} from "./health_routes.ts";
