import { type Context, Hono } from "@hono/hono";
import { checkFunctions } from "../core/check_options.ts";
import { HttpError, type LogSink, logSinkOf, writeLog } from "../core/mod.ts";
import { SharedTimer, Timeouts, withDeadline } from "../core/timeouts.ts";
import type { AcceptResult, Delivery, EventStore, PlatformName } from "../events/store/mod.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import { idsOf } from "./authorize.ts";
import { BodyBudget, overloaded } from "./body_budget.ts";
import { checkIntakeLimits, checkIntakeName } from "./check_intake.ts";
import type { OrderBy } from "./ordering.ts";
import { checkDeclaredBody, type HeldBody, readBodyWithin } from "./read_body.ts";
import type { Verifier } from "./verifier.ts";

/** Part of an event store that an intake needs. */
export type IntakeStore = Pick<
  EventStore,
  "accept" | "maxPayloadBytes" | "retentionMs"
>;

/** Options of the intakes of all platforms. */
export interface IntakeOptions {
  /** The store for accepted deliveries. */
  readonly store: IntakeStore;
  /**
   * The intake's name, which begins the ids of its events: `forge:72d3162e`. If several intakes of one
   * platform share a store, give each its own name, since their senders may use the same ids.
   *
   * @default {"forge" | "messenger"} The platform's.
   */
  readonly name?: string | undefined;
  /** Largest body, in bytes. */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Time in which a body must have arrived, in milliseconds.
   *
   * @default {10_000}
   */
  readonly bodyTimeoutMs?: number | undefined;
  /**
   * Bytes that all bodies together may hold until they are stored. A body beyond that is answered 503
   * `OVERLOADED`: {@linkcode BodyBudget} describes which one.
   *
   * @default {134_217_728} 128 MiB.
   */
  readonly maxTotalBodyBytes?: number | undefined;
  /**
   * Returns a delivery's ordering key: deliveries with the same key are handled one at a time and in the
   * order received.
   *
   * @default {undefined} Events are handled as they come.
   */
  readonly orderBy?: OrderBy | undefined;
  /**
   * Counts and traces deliveries.
   *
   * @default {undefined} No metrics and traces.
   */
  readonly telemetry?: Telemetry | undefined;
}

/** The parts of an intake that differ between platforms. */
export interface Platform {
  /** Its name, for the log. */
  readonly name: PlatformName;
  /** Largest body, in bytes. */
  readonly maxBodyBytes: number;
  /** Time during which the same document is a duplicate, in milliseconds; undefined for none. */
  readonly replayWindowMs?: number | undefined;
  /** True if there are several secrets, so that the log has to tell them apart. */
  readonly hasSeveralSecrets: boolean;
  /** Verifies requests. */
  readonly verifier: Verifier;
  /** Makes the delivery of a verified request. */
  parse(headers: Headers, body: Uint8Array<ArrayBuffer>): Delivery;
  /** Decides whether the delivery is wanted: false drops it without an error. Left out, all are. */
  authorize?(c: Context, delivery: Delivery): boolean | Promise<boolean>;
}

/** A quarter of the memory of the smallest instances of hosting platforms. */
const MAX_TOTAL_BYTES = 128 * 1024 * 1024;

/** Longest wait for the store: a sender gives up after 10 s (GitHub) and needs an answer before. */
const STORE_TIMEOUT_MS = 5_000;

/** Seconds until a retry makes sense. */
const RETRY_AFTER_SECONDS = "5";

/** The path of the webhook, in this spelling only. */
const PATH = "/webhook";

/** The codes of refusals that are logged as warnings. */
const WARNED: ReadonlySet<string> = new Set([
  "INVALID_SIG",
  "STALE_SIG",
  "INVALID_TOKEN",
  "AUTH_001",
]);

/**
 * Makes the app that serves `POST /webhook` for a platform.
 *
 * The order is fixed: the body's declared size, the form of the signature or all of the token, the body
 * within its limits, the signature over its bytes, and only then the content of the delivery. A sender
 * that does not know the secret learns nothing but that.
 *
 * @param platform The platform.
 * @param options The store, and the options that all platforms have.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {RangeError} If a limit is out of range, or is more than the store can hold.
 */
export function createIntake(platform: Platform, options: IntakeOptions): Hono {
  const intake = new Intake(platform, options);
  return new Hono().post(PATH, (c: Context) => intake.receive(c));
}

/** The steps of a delivery, from the request to the store. */
class Intake {
  readonly #platform: Platform;
  readonly #store: IntakeStore;
  readonly #name: string;
  readonly #orderBy: OrderBy | undefined;
  readonly #telemetry: Telemetry | undefined;
  readonly #budget: BodyBudget;
  readonly #bodyTimeouts: Timeouts;
  readonly #storeTimeouts: Timeouts;

  constructor(platform: Platform, options: IntakeOptions) {
    const { store, name = platform.name, orderBy, telemetry } = options;
    const { bodyTimeoutMs = 10_000, maxTotalBodyBytes = MAX_TOTAL_BYTES } = options;
    checkIntakeName(platform.name, name);
    checkFunctions(`create the ${platform.name} intake`, { orderBy });
    const limits = { maxBodyBytes: platform.maxBodyBytes, bodyTimeoutMs, maxTotalBodyBytes };
    checkIntakeLimits(platform.name, limits, store.maxPayloadBytes);
    const timer = new SharedTimer();
    this.#platform = platform;
    this.#store = store;
    this.#name = name;
    this.#orderBy = orderBy;
    this.#telemetry = telemetry;
    this.#budget = new BodyBudget(maxTotalBodyBytes);
    this.#bodyTimeouts = new Timeouts(bodyTimeoutMs, timer);
    this.#storeTimeouts = new Timeouts(STORE_TIMEOUT_MS, timer);
  }

  /** Answers a request. Each step hands its result on, or throws the error that the sender is answered. */
  async receive(c: Context): Promise<Response> {
    const { raw: request } = c.req;
    const platform = this.#platform;
    let body: HeldBody | undefined;
    let delivery: Delivery | undefined;
    try {
      checkSpelling(request.url);
      checkDeclaredBody(request.headers, platform.maxBodyBytes);
      const claim = platform.verifier.verifyHead(request.headers);
      body = await readBodyWithin(this.#bodyTimeouts, request, platform.maxBodyBytes, this.#budget);
      // A small body is verified at once, and does not wait for a turn.
      const verifying = platform.verifier.verifyBody(claim, request.headers, body, this.#budget);
      const verifiedBy = verifying instanceof Promise ? await verifying : verifying;
      const room = body.share?.keep();
      if (room) await untilRoom(room, this.#storeTimeouts);
      if (platform.hasSeveralSecrets) c.set("logFields", { verifiedBy });
      delivery = this.#parse(c, body);
      if (!platform.authorize || await platform.authorize(c, delivery)) {
        const ordered = this.#orderBy ? inOrder(delivery, this.#orderBy, logSinkOf(c)) : delivery;
        this.#noteStored(c, delivery, await this.#enqueue(ordered, body));
      } else this.#telemetry?.countDelivery({ platform: platform.name, outcome: "ignored" });
    } catch (error) {
      this.#noteRefusal(c, error, delivery);
      throw error;
    } finally {
      body?.close();
    }
    // With a status: without one, Hono leaves the content type to the runtime, which spells it differently.
    return c.text("OK", 200);
  }

  #parse(c: Context, { bytes }: HeldBody): Delivery {
    const parsed = this.#platform.parse(c.req.raw.headers, bytes);
    return { ...parsed, intake: this.#name, requestId: c.get("requestId") };
  }

  /** Puts a delivery into the store, in a span of its own if there are spans. */
  #enqueue(delivery: Delivery, body: HeldBody): Promise<AcceptResult> {
    const { platform, body: { byteLength: bytes } } = delivery;
    const options = {
      replayWindowMs: this.#platform.replayWindowMs,
      // After a timeout the store still holds the body, although the sender is answered 503.
      limit: <T>(accepting: Promise<T>) => this.#storeTimeouts.limit(body.holdUntil(accepting)),
    };
    if (!this.#telemetry) return enqueueDelivery(this.#store, delivery, options);
    return this.#telemetry.storing(
      { platform, bytes },
      (traceparent) => enqueueDelivery(this.#store, { ...delivery, traceparent }, options),
    );
  }

  #noteStored(c: Context, { type, deliveryId }: Delivery, { id, duplicate }: AcceptResult): void {
    c.set("logFields", { ...c.get("logFields"), eventId: id, deliveryId, duplicate });
    const outcome = duplicate ? "duplicate" : "accepted";
    this.#telemetry?.countDelivery({ platform: this.#platform.name, outcome, type });
  }

  #noteRefusal(c: Context, error: unknown, delivery: Delivery | undefined): void {
    const { name: platform } = this.#platform;
    const code = error instanceof HttpError ? error.code : "INTERNAL";
    this.#telemetry?.countDelivery({ platform, outcome: "rejected", code });
    if (!(error instanceof HttpError) || !WARNED.has(code)) return;
    const ids = delivery && idsOf(delivery);
    const fields = { requestId: c.get("requestId"), platform, code, ...ids };
    writeLog(logSinkOf(c), "warn", `delivery refused: ${error.message}`, fields);
  }
}

/**
 * Puts a delivery durably into the event store. When this returns, it is stored.
 *
 * @param store The event store.
 * @param delivery The delivery.
 * @param options The replay window, and the limit on the wait.
 * @param options.replayWindowMs Time during which the same document is a duplicate, in milliseconds,
 * whatever delivery id it has. By default only the delivery id counts.
 * @param options.limit Limits the wait for the store. By default it rejects after 5 s.
 * @returns The event's id, and whether it is a duplicate.
 * @throws {HttpError} 503 `QUEUE_UNAVAILABLE` with `Retry-After` if the store fails, or takes longer
 * than 5 s.
 */
export async function enqueueDelivery(
  store: Pick<EventStore, "accept">,
  delivery: Delivery,
  { replayWindowMs, limit = withinTimeout }: {
    readonly replayWindowMs?: number | undefined;
    readonly limit?: (<T>(promise: Promise<T>) => Promise<T>) | undefined;
  } = {},
): Promise<AcceptResult> {
  try {
    return await limit(store.accept(delivery, { replayWindowMs }));
  } catch (cause) {
    throw new HttpError(503, "Service Unavailable", {
      code: "QUEUE_UNAVAILABLE",
      headers: { "Retry-After": RETRY_AFTER_SECONDS },
      cause,
    });
  }
}

function withinTimeout<T>(promise: Promise<T>): Promise<T> {
  return withDeadline(promise, STORE_TIMEOUT_MS);
}

/**
 * Answers 404 to other spellings of the path. Hono decodes a path before it routes, so `/%77ebhook` would
 * be one. And Deno accepts a target with a fragment, `/webhook#a`, which no request may have (RFC 9112,
 * section 3.2). It does not use `new URL()`, which throws for some hosts.
 */
function checkSpelling(url: string): void {
  if (url.includes("#") || (url.includes("%") && !url.split("?", 1)[0]!.endsWith(PATH))) {
    throw new HttpError(404, "Not Found", { code: "NOT_FOUND" });
  }
}

/** Waits for room to work on a large body, no longer than for the store: its sender gives up. */
async function untilRoom(room: Promise<void>, timeouts: Timeouts): Promise<void> {
  try {
    await timeouts.limit(room);
  } catch {
    throw overloaded();
  }
}

/** Sets the ordering key. If `orderBy` fails, an event out of order is better than a 5xx each time. */
function inOrder(delivery: Delivery, orderBy: OrderBy, log: LogSink): Delivery {
  try {
    const orderingKey: unknown = orderBy(delivery);
    if (orderingKey === undefined || typeof orderingKey === "string") {
      return { ...delivery, orderingKey };
    }
    throw new TypeError("An ordering key must be a text, or undefined");
  } catch (error) {
    const { platform, type, deliveryId } = delivery;
    writeLog(log, "error", "event not ordered", { platform, type, deliveryId, error });
    return delivery;
  }
}
