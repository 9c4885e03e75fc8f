import { type Context, Hono } from "@hono/hono";
import {
  checkFunctions,
  checkInteger,
  checkObject,
  checkPart,
  MAX_TIMER_MS,
  met,
} from "../core/check_options.ts";
import { HttpError, type LogSink, logSinkOf, writeLog } from "../core/mod.ts";
import { SharedTimer, Timeouts } from "../core/timeouts.ts";
import type { Delivery, EventStore, PlatformName } from "../events/store/mod.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import { BodyBudget, type BodyShare, overloaded } from "./body_budget.ts";
import { enqueueDelivery, type EnqueueOptions, STORE_TIMEOUT_MS } from "./enqueue.ts";
import type { OrderBy } from "./ordering.ts";
import { checkDeclaredBody, readBodyWithin } from "./read_body.ts";
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
  /** Decides whether the delivery is wanted: false drops it without an error. */
  authorize(c: Context, delivery: Delivery): boolean | Promise<boolean>;
}

/** A quarter of the memory of the smallest instances of hosting platforms. */
const MAX_TOTAL_BYTES = 128 * 1024 * 1024;

/** The path of the webhook, in this spelling only. */
const PATH = "/webhook";

/** Intakes have short names: they begin each event's id, up to the first colon. */
const INTAKE_NAME = /^[a-z][a-z0-9_-]{0,31}$/i;

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
  const { store, bodyTimeoutMs = 10_000, maxTotalBodyBytes = MAX_TOTAL_BYTES, orderBy } = options;
  const { name = platform.name, telemetry } = options;
  checkIntakeName(name, platform.name);
  const { maxBodyBytes: maxBytes } = platform;
  const doing = `create the ${platform.name} intake`;
  checkFunctions(doing, { orderBy });
  checkInteger(doing, "maxBodyBytes", maxBytes, { max: store.maxPayloadBytes });
  checkInteger(doing, "bodyTimeoutMs", bodyTimeoutMs, { max: MAX_TIMER_MS });
  // A smaller budget would refuse a body that 'maxBodyBytes' allows.
  const totalRange = { min: maxBytes, max: Number.MAX_SAFE_INTEGER };
  checkInteger(doing, "maxTotalBodyBytes", maxTotalBodyBytes, totalRange);
  const budget = new BodyBudget(maxTotalBodyBytes);
  const timer = new SharedTimer();
  const bodyTimeouts = new Timeouts(bodyTimeoutMs, timer);
  const storeTimeouts = new Timeouts(STORE_TIMEOUT_MS, timer);
  const limit: EnqueueOptions["limit"] = (accepting) => storeTimeouts.limit(accepting);
  const enqueue = enqueuing({ replayWindowMs: platform.replayWindowMs, limit }, telemetry);
  const intake = new Hono();
  intake.post(PATH, async (c: Context) => {
    const { raw: request } = c.req;
    let share: BodyShare | undefined;
    let storing: Promise<unknown> | undefined;
    try {
      checkSpelling(request.url);
      checkDeclaredBody(request.headers, maxBytes);
      const verifyBody = platform.verifier.verifyHead(request.headers);
      const hold = (read: BodyShare) => share = read;
      const body = await readBodyWithin(bodyTimeouts, request, maxBytes, budget, hold);
      const verifying = verifyBody(body, budget, share);
      const verifiedBy = verifying instanceof Promise ? await verifying : verifying;
      const room = share?.keep();
      if (room) await untilRoom(room, storeTimeouts);
      if (platform.hasSeveralSecrets) c.set("logFields", { verifiedBy });
      const parsed = platform.parse(request.headers, body);
      const delivery = { ...parsed, intake: name, requestId: c.get("requestId") };
      if (await platform.authorize(c, delivery)) {
        const ordered = orderBy ? inOrder(delivery, orderBy, logSinkOf(c)) : delivery;
        const accept: IntakeStore["accept"] = (...args) => {
          const accepting = store.accept(...args);
          storing = accepting;
          return accepting;
        };
        const { id, duplicate } = await enqueue({ accept }, ordered);
        const { deliveryId } = delivery;
        c.set("logFields", { ...c.get("logFields"), eventId: id, deliveryId, duplicate });
        const outcome = duplicate ? "duplicate" : "accepted";
        telemetry?.countDelivery({ platform: platform.name, outcome, type: delivery.type });
      } else telemetry?.countDelivery({ platform: platform.name, outcome: "ignored" });
    } catch (error) {
      const code = error instanceof HttpError ? error.code : "INTERNAL";
      telemetry?.countDelivery({ platform: platform.name, outcome: "rejected", code });
      if (error instanceof HttpError && WARNED.has(error.code)) {
        const { code, message } = error;
        const fields = { requestId: c.get("requestId"), platform: platform.name, code };
        writeLog(logSinkOf(c), "warn", `delivery refused: ${message}`, fields);
      }
      throw error;
    } finally {
      // After a timeout the store still holds the body, although the sender was answered 503.
      const close = () => share?.close();
      if (storing) storing.then(close, close);
      else close();
    }
    // With a status: without one, Hono leaves the content type to the runtime, which spells it differently.
    return c.text("OK", 200);
  });
  return intake;
}

/**
 * Checks the options that an intake requires.
 *
 * @param name The platform, for the message.
 * @param options The options.
 * @throws {TypeError} If they are not an object, or have no store.
 */
export function checkIntakeOptions(name: string, options: IntakeOptions): void {
  const doing = `create the ${name} intake`;
  checkObject(doing, options);
  const wanted = "'store' must be what openEventStore() resolves with, or a store of your own";
  checkPart(doing, options.store, "accept", wanted);
  if (options.telemetry === undefined) return;
  const wantedTelemetry = "'telemetry' must be what openTelemetry() resolves with";
  checkPart(doing, options.telemetry, "storing", wantedTelemetry);
}

/** Enqueues deliveries, each in a span of its own if there are spans. */
function enqueuing(options: EnqueueOptions, telemetry: Telemetry | undefined) {
  type Store = Pick<IntakeStore, "accept">;
  const enqueue = (store: Store, delivery: Delivery) => enqueueDelivery(store, delivery, options);
  if (!telemetry) return enqueue;
  return (store: Store, delivery: Delivery) =>
    telemetry.storing(
      { platform: delivery.platform, bytes: delivery.body.byteLength },
      (traceparent) => enqueue(store, { ...delivery, traceparent }),
    );
}

/** Waits for room to work on a large body, no longer than for the store: its sender gives up. */
async function untilRoom(room: Promise<void>, timeouts: Timeouts): Promise<void> {
  try {
    await timeouts.limit(room);
  } catch {
    throw overloaded();
  }
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

/** Checks an intake's name. The other platform's name would suggest that its events come from there. */
function checkIntakeName(name: string, platform: PlatformName): void {
  const other = platform === "forge" ? "messenger" : "forge";
  if (name === other) {
    throw new TypeError(
      `Cannot create the intake: 'name' must not be ${met(name)}, which is the other platform's`,
    );
  }
  if (typeof name === "string" && INTAKE_NAME.test(name)) return;
  throw new TypeError(
    "Cannot create the intake: 'name' must be a letter, then up to 31 letters, digits, _ and -, " +
      `got ${met(name)}`,
  );
}
