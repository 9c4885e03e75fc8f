/**
 * Basics that all other folders use: errors, the log, time limits, checks of options, JSON. It imports
 * nothing else of the package.
 *
 * @module
 */
export {
  checkFunctions,
  checkInteger,
  checkKeys,
  checkObject,
  checkPart,
  type IntegerRange,
  isPromise,
  MAX_TIMER_MS,
  met,
} from "./check_options.ts";
export { withDeadline } from "./timeouts.ts";
export { type ErrorCode, HttpError } from "./http_error.ts";
export {
  consoleLog,
  consoleSink,
  formatLogLine,
  type LogFormat,
  type LogLevel,
  type LogRecord,
  type LogSink,
  logSinkOf,
  writeLog,
  writeRecord,
} from "./log.ts";
export { createLogSummary } from "./log_summary.ts";
export { createStdoutLog } from "./stdout_log.ts";
export { lookable, reasonOf, textOf } from "./text_of.ts";
