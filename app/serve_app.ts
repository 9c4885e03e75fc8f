import type { AppHandler } from "./app_options.ts";
import { HttpError, type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { BrokenBodyError } from "../middleware/mod.ts";

/** Where an app listens. */
export interface Place {
  readonly port: number;
  readonly hostname: string;
}

/** How an app is served. */
export interface ServeAppOptions extends Place {
  /** The app's name, for the log. */
  readonly name: string;
  /** Answers requests. */
  readonly answer: AppHandler;
  /** Where failures are logged. Anybody can cause them: it has to sum up what comes often. */
  readonly log: LogSink;
  /** Called once it listens. */
  readonly onListen: (place: Place) => void;
}

/** An app that is served. */
export interface Serving {
  /** Takes no more connections, and resolves once those that are open have ended. */
  readonly shutdown: () => Promise<void>;
}

/** How long nothing listens after a connection could not be accepted. */
const PAUSE_MS = 250;

/** How often it is logged that connections cannot be accepted. */
const SAY_MS = 60_000;

/** What Deno throws before the app is asked, where it takes the request's URL apart. */
const INVALID_URL = /^Invalid URL/;

/**
 * Serves an app, and goes on where Deno's server does not: one connection that cannot be accepted, for
 * want of a file descriptor, ends Deno's listener for good. Connections that are open live on then, so
 * listening again is all it takes.
 *
 * @param options Where to listen, what answers, and where failures are logged.
 * @returns The app that is served.
 * @throws {Error} If the address cannot be listened on.
 */
export function serveApp({ name, answer, log, onListen, ...place }: ServeAppOptions): Serving {
  const handler: AppHandler = async (request, info) => {
    try {
      return sendable(await answer(request, info));
    } catch (error) {
      return failed(error, log);
    }
  };
  const onError = (error: unknown) => failedOutside(error, log);
  const listen = (at: Place, onListen: (address: Deno.NetAddr) => void) =>
    Deno.serve({ port: at.port, hostname: at.hostname, onListen, onError }, handler);

  let saidAt = -Infinity;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let server = listenFirst();

  function listenFirst(): Deno.HttpServer<Deno.NetAddr> {
    try {
      return watched(listen(place, ({ hostname, port }) => onListen({ hostname, port })));
    } catch (error) {
      const where = `${place.hostname}:${place.port}`;
      const message = `${where} (HOST and PORT) cannot be listened on: ${reasonOf(error)}`;
      throw new Error(message, { cause: error });
    }
  }

  function watched(server: Deno.HttpServer<Deno.NetAddr>): Deno.HttpServer<Deno.NetAddr> {
    server.finished.catch(listenLater);
    return server;
  }

  function listenLater(error: unknown): void {
    if (stopped) return;
    if (performance.now() - saidAt >= SAY_MS) {
      saidAt = performance.now();
      writeLog(log, "error", "no connection accepted, listening again", { name, error });
    }
    timer = setTimeout(listenAgain, PAUSE_MS);
  }

  function listenAgain(): void {
    // With PORT=0 the system has chosen the port: it stays the same.
    const { port } = server.addr;
    try {
      server = watched(listen({ ...place, port }, () => {}));
    } catch (error) {
      listenLater(error);
    }
  }

  return {
    shutdown: () => {
      stopped = true;
      clearTimeout(timer);
      return server.shutdown();
    },
  };
}

/** Throws at what Deno would throw at: past the handler, it can no longer be told what failed. */
function sendable(response: Response): Response {
  if (response instanceof Response && response.status !== 0 && !response.bodyUsed) return response;
  throw new TypeError("The app returned what is no response, or one that cannot be sent");
}

/**
 * What Deno calls with an error that is not the handler's: before, where with tracing on it reads the URL
 * first and cannot hand the request on; or afterwards, when a body fails that `createLogger` took for a
 * whole text. The response's head is set then, and what is returned here would be added to it.
 */
function failedOutside(error: unknown, log: LogSink): Response {
  // What broke off midway is in the log by now, and nothing is sent any more.
  if (error instanceof BrokenBodyError) return new Response(null, { status: 500 });
  if (!(error instanceof TypeError) || !INVALID_URL.test(error.message)) {
    writeLog(log, "error", "response broke off", { status: 500, code: "INTERNAL", error });
    return new Response(null, { status: 500 });
  }
  const requestId = crypto.randomUUID();
  const refusal = new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
  // The error holds the URL, and that may hold a query string.
  writeLog(log, "warn", "request refused", { requestId, status: 400, code: refusal.code });
  return responseOf(refusal, requestId);
}

function failed(error: unknown, log: LogSink): Response {
  const requestId = crypto.randomUUID();
  const failure = new HttpError(500, "Internal Server Error", { code: "INTERNAL" });
  writeLog(log, "error", "request failed", { requestId, status: 500, code: failure.code, error });
  return responseOf(failure, requestId);
}

function responseOf(error: HttpError, requestId: string): Response {
  const response = error.getResponse();
  response.headers.set("X-Request-Id", requestId);
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("Cache-Control", "no-store");
  return response;
}
