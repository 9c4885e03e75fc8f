/**
 * Basics that most folders use: the log, and the error that a request fails with. Checks of options, time limits
 * and the other files of this folder are imported one by one. It imports nothing else of the package.
 *
 * @module
 */
export { HttpError } from "./http_error.ts";
export {
  consoleLog,
  consoleSink,
  formatLogLine,
  type LogLevel,
  type LogRecord,
  type LogSink,
  logSinkOf,
  writeLog,
} from "./log.ts";
export { createLogSummary } from "./log_summary.ts";
export { createStdoutLog } from "./stdout_log.ts";
export { reasonOf } from "./text_of.ts";
