import { type Context, Hono } from "@hono/hono";
import { checkFunctions, checkObject, checkPart, met } from "../core/check_options.ts";
import { HttpError, type LogSink, logSinkOf, writeLog } from "../core/mod.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import { BodyBudget, type BodyShare, overloaded } from "./body_budget.ts";
import { checkIntakeName } from "./platforms/headers.ts";
import type { Delivery, PlatformName } from "../events/store/delivery.ts";
import { enqueueWithin, STORE_TIMEOUT_MS } from "./enqueue.ts";
import type { OrderBy } from "./ordering.ts";
import type { ProvedBy } from "./proved_by.ts";
import { checkDeclaredBody, readBodyWithin } from "./read_body.ts";
import type { EventStore } from "../events/mod.ts";
import { SharedTimer, Timeouts } from "../core/timeouts.ts";

/** What an intake needs of an event store. */
export type IntakeStore = Pick<
  EventStore,
  "accept" | "firstOf" | "maxPayloadBytes" | "retentionMs"
>;

/** What the intakes of all platforms take. */
export interface IntakeOptions {
  /** Where accepted deliveries go. */
  readonly store: IntakeStore;
  /**
   * The intake's name, which begins the ids of its events: `forge:72d3162e`. Give each of several intakes
   * of one platform that share a store its own, for their senders may use the same ids.
   *
   * @default {"forge" | "messenger"} The platform's.
   */
  readonly name?: string | undefined;
  /** How many bytes a body may have. */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Within how many milliseconds a body must have arrived.
   *
   * @default {10_000}
   */
  readonly bodyTimeoutMs?: number | undefined;
  /**
   * How many bytes bodies may hold together, until they are stored; one that is too much is answered 503
   * `OVERLOADED`. See {@linkcode BodyBudget} for which one.
   *
   * @default {134_217_728} 128 MiB.
   */
  readonly maxTotalBodyBytes?: number | undefined;
  /**
   * Which deliveries are handled one at a time and in the order received.
   *
   * @default {undefined} None: events are handled as they come.
   */
  readonly orderBy?: OrderBy | undefined;
  /**
   * Where deliveries are counted and traced.
   *
   * @default {undefined} Nowhere.
   */
  readonly telemetry?: Telemetry | undefined;
}

/** What differs between platforms: how a request is proved, parsed and authorized. */
export interface Platform {
  /** Its name, for the log. */
  readonly name: PlatformName;
  /** How many bytes a body may have. */
  readonly maxBodyBytes: number;
  /** Whether there are several secrets, so that the log has to tell them apart. */
  readonly hasSeveralSecrets: boolean;
  /** Checks what can be checked before the body is read. */
  verifyHead(headers: Headers): VerifyBody;
  /** Makes the delivery of a proved request. */
  parse(headers: Headers, body: Uint8Array<ArrayBuffer>): Delivery;
  /** Decides whether the delivery is wanted: false drops it without an error. */
  authorize(c: Context, delivery: Delivery): boolean | Promise<boolean>;
}

/**
 * Checks the rest of the proof, once the body is there, on another thread if the budget has room for it.
 * Until then its share may be evicted.
 */
export type VerifyBody = (
  body: Uint8Array<ArrayBuffer>,
  budget: BodyBudget,
  share: BodyShare | undefined,
) => ProvedBy | Promise<ProvedBy>;

/** A quarter of what the smallest instances of hosting platforms have. */
const MAX_TOTAL_BYTES = 128 * 1024 * 1024;

/** Where deliveries are taken: this path, in this spelling only. */
const PATH = "/webhook";

/** The longest delay of a timer: 2^31 - 1 ms. Beyond, it fires at once. */
const MAX_TIMER_MS = 2_147_483_647;

/** The codes of refusals that somebody should look at. */
const WARNED: ReadonlySet<string> = new Set([
  "INVALID_SIG",
  "STALE_SIG",
  "INVALID_TOKEN",
  "AUTH_001",
]);

/**
 * Makes the app that serves `POST /webhook` for a platform.
 *
 * The order is fixed: the body's declared size, the proof in the head, the body within its limits, the
 * proof over its bytes, and only then what the delivery says. Whoever has not proved to know the
 * secret learns nothing but that.
 *
 * @param platform The platform.
 * @param options The store, and what applies to all platforms.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {RangeError} If a limit makes no sense, or is more than the store can hold.
 */
export function createIntake(platform: Platform, options: IntakeOptions): Hono {
  const { store, bodyTimeoutMs = 10_000, maxTotalBodyBytes = MAX_TOTAL_BYTES, orderBy } = options;
  const { name = platform.name, telemetry } = options;
  checkIntakeName(name, platform.name);
  const { maxBodyBytes: maxBytes } = platform;
  checkFunctions(`create the ${platform.name} intake`, { orderBy });
  checkInteger(platform.name, "maxBodyBytes", maxBytes, store.maxPayloadBytes);
  checkInteger(platform.name, "bodyTimeoutMs", bodyTimeoutMs, MAX_TIMER_MS);
  const budget = budgetOf(platform, maxTotalBodyBytes);
  const timer = new SharedTimer();
  const bodyTimeouts = new Timeouts(bodyTimeoutMs, timer);
  const storeTimeouts = new Timeouts(STORE_TIMEOUT_MS, timer);
  const enqueue = enqueuing(storeTimeouts, telemetry);
  const intake = new Hono();
  intake.post(PATH, async (c: Context) => {
    const { raw: request } = c.req;
    let share: BodyShare | undefined;
    let storing: Promise<unknown> | undefined;
    try {
      checkSpelling(request.url);
      checkDeclaredBody(request.headers, maxBytes);
      const verifyBody = platform.verifyHead(request.headers);
      const hold = (read: BodyShare) => share = read;
      const body = await readBodyWithin(bodyTimeouts, request, maxBytes, budget, hold);
      const proof = verifyBody(body, budget, share);
      const provedBy = proof instanceof Promise ? await proof : proof;
      const room = share?.keep();
      if (room) await untilRoom(room, storeTimeouts);
      if (platform.hasSeveralSecrets) c.set("logFields", { provedBy });
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
      // A store that has taken too long still holds the body, whatever its sender was told.
      const close = () => share?.close();
      if (storing) storing.then(close, close);
      else close();
    }
    // With a status, for else Hono leaves the content type to the runtime, which spells it otherwise.
    return c.text("OK", 200);
  });
  return intake;
}

/**
 * Checks what an intake cannot do without.
 *
 * @param name The platform, for the message.
 * @param options The options.
 * @throws {TypeError} If they are none, or have no store.
 */
export function checkIntakeOptions(name: string, options: IntakeOptions): void {
  const doing = `create the ${name} intake`;
  checkObject(doing, options);
  const wanted = "'store' must be what openEventStore() resolves with, or a store of your own";
  checkPart(doing, options.store, "accept", wanted);
}

/** Stores deliveries, each in a span of its own where there are spans. */
function enqueuing(timeouts: Timeouts, telemetry: Telemetry | undefined) {
  type Store = Pick<IntakeStore, "accept">;
  const enqueue = (store: Store, delivery: Delivery) => enqueueWithin(timeouts, store, delivery);
  if (!telemetry) return enqueue;
  return (store: Store, delivery: Delivery) =>
    telemetry.storing(
      { platform: delivery.platform, bytes: delivery.body.byteLength },
      (traceparent) => enqueue(store, { ...delivery, traceparent }),
    );
}

/** Waits for room to work on a large body, and no longer than for the store: its sender gives up. */
async function untilRoom(room: Promise<void>, timeouts: Timeouts): Promise<void> {
  try {
    await timeouts.limit(room);
  } catch {
    throw overloaded();
  }
}

/**
 * Hono decodes a path before it routes: `/%77ebhook` would be another spelling of the webhook. And Deno
 * takes a target with a fragment, `/webhook#a`, which no request may have (RFC 9112, section 3.2). Not by
 * `new URL()`: it throws at some hosts.
 */
function checkSpelling(url: string): void {
  if (url.includes("#") || (url.includes("%") && !url.split("?", 1)[0]!.endsWith(PATH))) {
    throw new HttpError(404, "Not Found", { code: "NOT_FOUND" });
  }
}

/** A delivery whose key cannot be told is better handled out of order than answered 5xx each time. */
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

/** A budget that is less than one body may have would refuse what the limit lets through. */
function budgetOf({ name, maxBodyBytes }: Platform, maxBytes: number): BodyBudget {
  if (Number.isSafeInteger(maxBytes) && maxBytes >= maxBodyBytes) return new BodyBudget(maxBytes);
  throw new RangeError(
    `Cannot create the ${name} intake: 'maxTotalBodyBytes' must be a whole number from ` +
      `${maxBodyBytes}, got ${met(maxBytes)}`,
  );
}

function checkInteger(platform: string, name: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= max) return;
  throw new RangeError(
    `Cannot create the ${platform} intake: '${name}' must be a whole number from 1 to ${max}, ` +
      `got ${met(value)}`,
  );
}
