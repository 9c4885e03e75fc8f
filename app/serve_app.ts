import { invalidHost } from "../middleware/essentials.ts";
import { HttpError, type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { UnreadBodyError } from "../core/unread_body.ts";
import { BrokenBodyError } from "../middleware/mod.ts";
import type { OpenedApp } from "./open_app.ts";

/** Address that an app listens on. */
export interface Place {
  readonly port: number;
  readonly hostname: string;
}

/** App that is being served. */
export interface Serving {
  /** Number of requests that are being answered: `shutdown()` would abort bodies that are still arriving. */
  readonly inFlight: number;
  /** Stops accepting connections, and resolves when the open ones have ended. */
  readonly shutdown: () => Promise<void>;
}

/** Pause before listening again, after a connection could not be accepted. */
const PAUSE_MS = 250;

/** Shortest time between two log records about connections that cannot be accepted. */
const LOG_MS = 60_000;

/** An address, or this machine: nothing that a secret could be. */
const ADDRESS = /^(?:[\d.]{7,15}|[\da-f:.]{2,39}|\[[\da-f:.]{2,39}\]|localhost)$/i;

/** Error that Deno throws before it calls the app, while it parses the request's URL. */
const INVALID_URL = /^Invalid URL/;

/**
 * Serves an app, and listens again when Deno's server stops. A single connection that cannot be accepted,
 * for lack of a file descriptor, ends Deno's listener for good. Its open connections live on, so listening
 * again is enough.
 *
 * @param options The app's name and address, the function that answers requests, a log for failures, which
 * must sum up floods since anybody can cause them, and a callback for when the app listens.
 * @returns The app that is being served.
 * @throws {Error} If the app cannot listen on the address.
 */
export function serveApp({ name, answer, log, onListen, ...place }: Place & {
  readonly name: string;
  readonly answer: OpenedApp["fetch"];
  readonly log: LogSink;
  readonly onListen: (place: Place) => void;
}): Serving {
  let inFlight = 0;
  const handler: OpenedApp["fetch"] = async (request, info) => {
    inFlight++;
    try {
      return sendable(await answer(request, info));
    } catch (error) {
      return failed(error, log);
    } finally {
      inFlight--;
    }
  };
  const onError = (error: unknown) => failedOutside(error, log);
  const listen = (at: Place, onListen: (address: Deno.NetAddr) => void) =>
    Deno.serve({ port: at.port, hostname: at.hostname, onListen, onError }, handler);

  let loggedAt = -Infinity;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  let server = listenFirst();

  function listenFirst(): Deno.HttpServer<Deno.NetAddr> {
    try {
      return watched(listen(place, ({ hostname, port }) => onListen({ hostname, port })));
    } catch (error) {
      // A secret that was put into the wrong variable must not get into the log.
      const host = ADDRESS.test(place.hostname) ? place.hostname : "HOST";
      const reason = reasonOf(error).replaceAll(place.hostname, host);
      const message = `${host}:${place.port} (HOST and PORT) cannot be listened on: ${reason}`;
      throw new Error(message, { cause: error });
    }
  }

  function watched(server: Deno.HttpServer<Deno.NetAddr>): Deno.HttpServer<Deno.NetAddr> {
    server.finished.catch(listenLater);
    return server;
  }

  function listenLater(error: unknown): void {
    if (stopped) return;
    if (performance.now() - loggedAt >= LOG_MS) {
      loggedAt = performance.now();
      writeLog(log, "error", "connection not accepted, listening again", { name, error });
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
    get inFlight() {
      return inFlight;
    },
    shutdown: () => {
      stopped = true;
      clearTimeout(timer);
      return server.shutdown();
    },
  };
}

/** Throws if Deno could not send a response. Later, it could not be told what failed. */
function sendable(response: Response): Response {
  if (response instanceof Response && response.status !== 0 && !response.bodyUsed) return response;
  throw new TypeError("The app returned no response, or one that cannot be sent");
}

/**
 * Answers an error outside the handler, for Deno's `onError`. It comes before the handler if Deno, with
 * tracing on, cannot parse the URL; or after it if a body fails that `createLogger` took for a whole text.
 * In that case the headers have been sent, and the headers of this response would be added to them.
 */
function failedOutside(error: unknown, log: LogSink): Response {
  // Nothing more is sent. The logger has logged the first already, and the second is expected.
  if (error instanceof BrokenBodyError || error instanceof UnreadBodyError) {
    return new Response(null, { status: 500 });
  }
  if (!(error instanceof TypeError) || !INVALID_URL.test(error.message)) {
    writeLog(log, "error", "response broke off", { status: 500, code: "INTERNAL", error });
    return new Response(null, { status: 500 });
  }
  const requestId = crypto.randomUUID();
  const refusal = invalidHost();
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
