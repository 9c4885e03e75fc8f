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
export { type ErrorBody, type ErrorCode, HttpError, type HttpErrorOptions } from "./http_error.ts";
export {
  consoleSink,
  formatLogLine,
  type LogLevel,
  type LogRecord,
  type LogSink,
  logSinkOf,
  writeLog,
  writeRecord,
} from "./log.ts";
export { consoleTextSink } from "./log_text.ts";
export { createLogSummary, type LogSummary, type LogSummaryOptions } from "./log_summary.ts";
export {
  createStdoutLog,
  type LogOutput,
  type StdoutLog,
  type StdoutLogOptions,
} from "./stdout_log.ts";
export { lookable, reasonOf, textOf } from "./text_of.ts";
