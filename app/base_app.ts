import { Hono, type MiddlewareHandler } from "@hono/hono";
import { methodNotAllowed } from "@hono/hono/method-not-allowed";
import { healthRoutes } from "../health/mod.ts";
import {
  catchNonErrors,
  type ConnectionBindings,
  createHostCheck,
  createLogger,
  createRateLimiter,
  createResponseHeaders,
  errorHandler,
  type LoggerOptions,
  type LoggerVariables,
  methodNotAllowedHandler,
  notFoundHandler,
  type RateLimitOptions,
} from "../middleware/mod.ts";
import {
  checkFunction,
  checkObject,
  checkObjectOption,
  checkOptions,
  checkPart,
  checkTelemetry,
  checkText,
  met,
  type OptionCheck,
} from "../core/check_options.ts";
import { endUnread } from "../core/unread_body.ts";
import { checkAllowedUsers } from "../webhook/messenger.ts";
import { createRequestSpans, type Telemetry } from "../telemetry/mod.ts";

const CHECKS: Readonly<Record<keyof AppOptions, OptionCheck | undefined>> = {
  name: checkText,
  version: undefined,
  logger: (doing, name, value) =>
    typeof value === "boolean" || checkObject(doing, value, `'${name}', if it is not a boolean,`),
  rateLimit: checkObjectOption,
  before: (doing, name, value) => {
    if (!Array.isArray(value)) {
      const got = met(value);
      throw new TypeError(`Cannot ${doing}: '${name}' must be an array of middleware, got ${got}`);
    }
    value.forEach((each, i) => checkFunction(doing, `${name}[${i}]`, each));
  },
  health: undefined,
  ready: checkFunction,
  telemetry: checkTelemetry,
};

/**
 * Options of {@linkcode createBaseApp}.
 *
 * @category Composing by hand
 */
export interface AppOptions {
  /** Name of the app, reported by `GET /health`. */
  readonly name: string;
  /**
   * Version of the app, reported by `GET /health`.
   *
   * @default {"1.0.0"}
   */
  readonly version?: string | undefined;
  /**
   * Request log: true, false, or its options.
   *
   * @default {true} One line of JSON per request, on the console.
   */
  readonly logger?: boolean | LoggerOptions | undefined;
  /**
   * Rate limit: the number of requests that a client may make in a window.
   *
   * @default {undefined} No rate limiting.
   */
  readonly rateLimit?: RateLimitOptions | undefined;
  /**
   * Middleware before the rate limiter, such as `cors()`, which has to handle a 429 as well.
   *
   * @default {[]} Middleware that is added to the app later comes after the rate limiter.
   */
  readonly before?: readonly MiddlewareHandler[] | undefined;
  /**
   * Health routes: true, or false to leave them out.
   *
   * @default {true}
   */
  readonly health?: boolean | undefined;
  /**
   * Checks that the instance can take requests, at each readiness probe: 503 if it throws.
   *
   * @default {undefined} Always ready.
   */
  readonly ready?: (() => void | Promise<void>) | undefined;
  /**
   * Telemetry, which names the spans of requests by their routes. {@linkcode openTelemetry} opens it.
   *
   * @default {undefined} No telemetry.
   */
  readonly telemetry?: Telemetry | undefined;
}

/**
 * Hono environment of a base app.
 *
 * @category Composing by hand
 */
export interface BaseEnv<TEnv extends object, TVariables extends object = object> {
  /** Type of `c.env`: the values of the app, and the connection's address. */
  Bindings: TEnv & ConnectionBindings;
  /** Type of `c.var`: what the logger and other middleware set. */
  Variables: LoggerVariables & TVariables;
}

/**
 * Creates a Hono app with the standard middleware and the health routes.
 *
 * The order is: request id and log, response headers, 404 and 405 in the error shape, the `Host` check, the
 * health routes, the middleware of `before`, the rate limiter, and then your routes. The health routes
 * come before the limiter, so that a healthy instance always answers 200.
 *
 * @typeParam TEnv The type of the environment bindings, `c.env`.
 * @typeParam TVariables What further middleware sets, such as {@linkcode AuthVariables}.
 * @param options The app's name, and its parts.
 * @returns The app. Add routes to it, and serve it with {@linkcode bindEnv}.
 * @throws {TypeError} If `name` is not a text, or blank, or an option has the wrong type.
 * @throws {RangeError} If a number of the rate limit is out of its range.
 *
 * @example
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const app = createBaseApp<{ GREETING: string }>({
 *   name: "my-bot",
 *   rateLimit: { limit: 100, window: 60_000 },
 * });
 * app.get("/hello", (c) => c.text(c.env.GREETING));
 *
 * const response = await app.request("/hello", {}, { GREETING: "hi" });
 * assertEquals(await response.text(), "hi");
 * assertEquals((await app.request("/health")).status, 200);
 * ```
 *
 * @category Composing by hand
 */
export function createBaseApp<
  TEnv extends object = Record<string, unknown>,
  TVariables extends object = object,
>(options: AppOptions): Hono<BaseEnv<TEnv, TVariables>> {
  checkOptions("create the app", options, CHECKS, ["name"]);
  const { name, version, logger = true, rateLimit, health = true, ready } = options;
  const { telemetry, before = [] } = options;
  const app = new Hono<BaseEnv<TEnv, TVariables>>();
  app.onError(errorHandler);
  app.notFound(notFoundHandler);
  if (telemetry) app.use(createRequestSpans(telemetry));
  app.use(createLogger(typeof logger === "object" ? logger : { skip: () => !logger }));
  app.use(createResponseHeaders());
  app.use(methodNotAllowed({ app, onMethodNotAllowed: methodNotAllowedHandler }));
  app.use(catchNonErrors());
  app.use(createHostCheck());
  if (health) app.route("/", healthRoutes(name, version, ready ? { ready } : {}));
  for (const middleware of before) app.use(middleware);
  if (rateLimit) {
    app.use(createRateLimiter(rateLimit));
    // A second time, so that the limiter sees the responses to errors that are thrown below it.
    app.use(catchNonErrors());
  }
  return app;
}

/**
 * Adds the connection's address to an app's environment values, so that both reach `c.env`: `Deno.serve`
 * alone passes on only the connection.
 *
 * @typeParam TEnv The type of the environment bindings.
 * @param app The app, with a `fetch` that takes the bindings of each request, as every Hono app has.
 * @param env The values of the app.
 * @returns The handler to serve.
 * @throws {TypeError} If the app has no `fetch`, or `MESSENGER_ALLOWED_USERS` is not a text.
 *
 * @example
 * ```ts
 * import { bindEnv, createBaseApp } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const app = createBaseApp<{ GREETING: string }>({ name: "my-bot", logger: false });
 * app.get("/", (c) => c.text(c.env.GREETING));
 * const handler = bindEnv(app, { GREETING: "hi" }); // Deno.serve(handler)
 *
 * const remoteAddr = { transport: "tcp", hostname: "192.0.2.1", port: 50_000 } as const;
 * const response = await handler(new Request("http://localhost/"), { remoteAddr });
 * assertEquals(await response.text(), "hi");
 * ```
 *
 * @category Composing by hand
 */
export function bindEnv<TEnv extends object>(
  app: { fetch(request: Request, env: TEnv & ConnectionBindings): Response | Promise<Response> },
  env: TEnv,
): (request: Request, info: ConnectionBindings) => Response | Promise<Response> {
  checkPart("bind the environment", app, "fetch", "the app must have a method 'fetch'");
  const { MESSENGER_ALLOWED_USERS } = (env ?? {}) as Record<string, unknown>;
  checkAllowedUsers("bind the environment", MESSENGER_ALLOWED_USERS);
  return (request, info) => {
    const bindings = { ...env, remoteAddr: info.remoteAddr };
    const answered = app.fetch(request, bindings);
    if (answered instanceof Response) return endUnread(answered, bindings);
    return answered.then((response) => endUnread(response, bindings));
  };
}
