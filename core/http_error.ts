import { HTTPException } from "@hono/hono/http-exception";
import type { ContentfulStatusCode } from "@hono/hono/utils/http-status";

/**
 * Machine-readable codes of this package's errors, sent in the `X-Error-Code` header.
 *
 * The errors of an app may use any other code in upper snake case.
 *
 * @category Errors
 */
export type ErrorCode =
  | "AUTH_001"
  | "BAD_GATEWAY"
  | "BAD_REQUEST"
  | "BODY_TIMEOUT"
  | "BODY_TOO_LARGE"
  | "CONFLICT"
  | "FORBIDDEN"
  | "GATEWAY_TIMEOUT"
  | "INTERNAL"
  | "INVALID_BODY"
  | "INVALID_DELIVERY"
  | "INVALID_EVENT"
  | "INVALID_HOST"
  | "INVALID_SIG"
  | "INVALID_TOKEN"
  | "METHOD_NOT_ALLOWED"
  | "MISSING_EVENT"
  | "MISSING_SIG"
  | "MISSING_TOKEN"
  | "NOT_FOUND"
  | "NOT_IMPLEMENTED"
  | "NOT_READY"
  | "OVERLOADED"
  | "QUEUE_UNAVAILABLE"
  | "RATE_LIMITED"
  | "REQUEST_TIMEOUT"
  | "STALE_SIG"
  | "UNAUTHORIZED"
  | "UNAVAILABLE"
  | "UNPROCESSABLE"
  | "UNSUPPORTED_MEDIA_TYPE"
  | (string & Record<never, never>);

/**
 * Failed request, with the status and the message of its answer.
 *
 * Throw it anywhere below an app that uses {@linkcode errorHandler}. It is a Hono `HTTPException`,
 * so an app without that handler sends the same answer.
 *
 * @example
 * ```ts
 * import { HttpError } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const error = new HttpError(409, "Already deployed", { code: "ALREADY_DEPLOYED" });
 * const response = error.getResponse();
 *
 * assertEquals(response.status, 409);
 * assertEquals(response.headers.get("X-Error-Code"), "ALREADY_DEPLOYED");
 * assertEquals(await response.json(), { error: "Already deployed" });
 * ```
 *
 * @category Errors
 */
export class HttpError extends HTTPException {
  /** Machine-readable code. */
  readonly code: ErrorCode;
  /** Further response headers. */
  readonly headers: Readonly<Record<string, string>>;

  /**
   * Creates the error.
   *
   * @param status The HTTP status, 400 to 599.
   * @param message The message for a person, sent as the body's `error`.
   * @param options The code, further headers and the cause.
   */
  constructor(status: ContentfulStatusCode, message: string, options: {
    /** Machine-readable code, sent as `X-Error-Code` and logged. */
    readonly code: ErrorCode;
    /** Further response headers, such as `Retry-After`. */
    readonly headers?: Readonly<Record<string, string>> | undefined;
    /** Cause of the failure. It is logged for a 5xx status, and never sent. */
    readonly cause?: unknown;
  }) {
    super(status, { message, cause: options.cause });
    this.name = "HttpError";
    this.code = options.code;
    this.headers = options.headers ?? {};
  }

  /**
   * Creates the response in the error shape.
   *
   * @returns A JSON response with the one field `error`.
   */
  override getResponse(): Response {
    const headers = { ...this.headers, "X-Error-Code": this.code };
    return Response.json({ error: this.message }, { status: this.status, headers });
  }
}

/**
 * Creates the error of a service that cannot take the request now.
 *
 * @param code The code.
 * @param retryAfterSeconds The seconds until another try makes sense.
 * @param cause The cause.
 * @returns The error, 503 with `Retry-After`.
 */
export function unavailable(
  code: ErrorCode,
  retryAfterSeconds: number,
  cause?: unknown,
): HttpError {
  const headers = { "Retry-After": String(retryAfterSeconds) };
  return new HttpError(503, "Service Unavailable", { code, headers, cause });
}

/** Cause of the 503 of an app that is stopping. It is not logged as a failure. */
export class StoppingError extends Error {
  /** Creates the error. */
  constructor() {
    super("The app is stopping");
    this.name = "StoppingError";
  }
}
