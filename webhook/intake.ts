import { unavailable } from "../core/http_error.ts";
import { type Context, Hono } from "@hono/hono";
import {
  checkFunction,
  checkInteger,
  checkObjectOption,
  checkOptions,
  checkTelemetry,
  met,
  metSync,
  partWith,
} from "../core/check_options.ts";
import { variablesIn } from "../core/env.ts";
import { HttpError, type LogSink, logSinkOf, writeLog } from "../core/mod.ts";
import { SharedTimer, Timeouts, withDeadline } from "../core/timeouts.ts";
import { markUnread } from "../core/unread_body.ts";
import { checkReplayWindow } from "../events/store/arrival.ts";
import type { AcceptResult, Delivery, EventStore } from "../events/store/mod.ts";
import type { CountedDelivery, Telemetry } from "../telemetry/telemetry.ts";
import { BodyBudget, overloaded } from "./body_budget.ts";
import { type Describe, described } from "./describe.ts";
import { type GroupBy, grouped } from "./grouping.ts";
import { checkPlatform, type Platform, preparePlatform, type ReadyPlatform } from "./platform.ts";
import { checkDeclaredBody, type HeldBody, readBodyWithin } from "./read_body.ts";
import { textOf } from "./readers.ts";
import type { VerifyBody } from "./verifier.ts";

/**
 * Options of {@linkcode createIntake}.
 *
 * @category Steps of an intake
 */
export interface IntakeOptions {
  /** Store for accepted deliveries. */
  readonly store: Pick<EventStore, "accept" | "maxPayloadBytes" | "retentionMs">;
  /**
   * Counts and traces deliveries.
   *
   * @default {undefined} No metrics and traces.
   */
  readonly telemetry?: Telemetry | undefined;
  /**
   * Values of the platform's variables, such as `Deno.env.toObject()`.
   *
   * @default {{}} None: then the platform must have its secrets in code.
   */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /**
   * Says what a delivery is about, see {@linkcode AppDefinition.describe}.
   *
   * @default {undefined} By the shape of its payload.
   */
  readonly describe?: ((delivery: Delivery) => string | undefined) | undefined;
}

/** Part of an event store that an intake needs. */
export type IntakeStore = IntakeOptions["store"];

/** Parts of an app that an intake works with. */
export interface IntakeParts extends Pick<IntakeOptions, "store" | "telemetry" | "describe"> {
  /** Finds the address of a client, for notes of refused deliveries. */
  readonly addressOf?: ((c: Context) => string | undefined) | undefined;
}

/** Longest wait for the store: a sender gives up after 10 s (GitHub) and needs an answer before. */
const STORE_TIMEOUT_MS = 5_000;

/** Seconds until a retry makes sense. */
const RETRY_AFTER_SECONDS = 5;

/** The codes of refusals of a body that is not read on. */
const GIVEN_UP: ReadonlySet<string> = new Set(["BODY_TIMEOUT", "OVERLOADED"]);

/** The codes of refusals that are logged as warnings. */
const WARNED: ReadonlySet<string> = new Set([
  "INVALID_SIG",
  "STALE_SIG",
  "INVALID_TOKEN",
  "AUTH_001",
]);

/** Number of deliveries for which a failed check is remembered. */
const MAX_REMEMBERED = 1_000;

/** Failed checks after which a delivery is ignored: of a check that fails half of the time, 3 in 100 get there. */
const MAX_FAILURES = 5;

/** Shortest time between the first and the last of them, in milliseconds. */
const FAILING_MS = 10 * 60_000;

/** Failed checks of a delivery. */
interface FailedChecks {
  /** Time of the first one, milliseconds since the epoch. */
  readonly since: number;
  /** Number of them, without those before which the check has worked for no other delivery. */
  readonly count: number;
  /** Number of deliveries that had been decided on at the last one that counts. */
  readonly decided: number;
}

type IsAllowed = NonNullable<ReadyPlatform["isAllowed"]>;

/**
 * Makes the app that takes a platform's deliveries in, for an app that is composed by hand. In an app of
 * {@linkcode defineApp} that is done for you.
 *
 * A request is answered 200 `OK` once its event is stored; 401 if it is not verified; 403 `AUTH_001` if it
 * is not allowed; 400, 413, 415 or 408 if it is verified but is not a delivery; 503 `QUEUE_UNAVAILABLE` if
 * the store cannot accept it.
 *
 * The order is fixed: the body's declared size, the form of the signature or all of the token, the body
 * within its limits, the signature over its bytes, and only then the content of the delivery. A sender
 * that does not know the secret learns nothing but that.
 *
 * @param platform The platform.
 * @param options The store, and the platform's variables.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {VariableError} If variables of the platform are missing or wrong.
 * @throws {TypeError} If an option has the wrong type.
 * @throws {RangeError} If a limit is more than the store can hold or remembers.
 *
 * @example
 * ```ts
 * import { createBaseApp, createIntake, github, openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * const env = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" };
 * app.route("/", createIntake(github(), { store, env }));
 *
 * const response = await app.request("/webhook", { method: "POST", body: "{}" });
 * assertEquals(response.status, 401);
 * assertEquals(await response.json(), { error: "Missing signature" });
 * ```
 *
 * @category Composing by hand
 */
export function createIntake(platform: Platform, options: IntakeOptions): Hono {
  checkPlatform("create the intake", platform);
  const doing = `create the ${platform.name} intake`;
  checkOptions(doing, options, {
    store: partWith("accept", "what openEventStore() resolves with, or a store of your own"),
    telemetry: checkTelemetry,
    env: checkObjectOption,
    describe: checkFunction,
  }, ["store"]);
  const { env = {}, ...parts } = options;
  return mountIntake(preparePlatform(platform, variablesIn(env, () => {})), parts);
}

/**
 * Makes the app that takes deliveries in, as {@linkcode createIntake} does.
 *
 * @param platform The platform, with its variables read.
 * @param parts The store and the telemetry.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {RangeError} If a limit is more than the store can hold or remembers.
 */
export function mountIntake(platform: ReadyPlatform, parts: IntakeParts): Hono {
  const intake = new Intake(platform, parts);
  return new Hono().post(platform.path, (c: Context) => intake.receive(c));
}

/** The steps of a delivery, from the request to the store. */
class Intake {
  readonly #platform: ReadyPlatform;
  readonly #store: IntakeStore;
  readonly #telemetry: Telemetry | undefined;
  readonly #addressOf: IntakeParts["addressOf"];
  readonly #describe: Describe | undefined;
  /** Set once a delivery could not be described: the next ones fail in the same way. */
  #isUndescribed = false;
  readonly #budget: BodyBudget;
  readonly #bodyTimeouts: Timeouts;
  readonly #storeTimeouts: Timeouts;
  /** Failed checks by the ids of the deliveries. */
  readonly #failed = new Map<string, FailedChecks>();
  /** Number of deliveries that a check has decided on. */
  #decided = 0;

  constructor(platform: ReadyPlatform, { store, telemetry, describe, addressOf }: IntakeParts) {
    const { maxBodyBytes, bodyTimeoutMs, maxTotalBodyBytes } = platform.limits;
    const doing = `create the ${platform.name} intake`;
    checkInteger(doing, "maxBodyBytes", maxBodyBytes, { max: store.maxPayloadBytes });
    if (platform.replayWindowMs !== undefined) {
      checkReplayWindow(doing, platform.replayWindowMs, store.retentionMs);
    }
    const timer = new SharedTimer();
    this.#platform = platform;
    this.#store = store;
    this.#telemetry = telemetry;
    this.#addressOf = addressOf;
    this.#describe = describe;
    this.#budget = new BodyBudget(maxTotalBodyBytes);
    this.#bodyTimeouts = new Timeouts(bodyTimeoutMs, timer);
    this.#storeTimeouts = new Timeouts(STORE_TIMEOUT_MS, timer);
  }

  /** Answers a request. Each step hands its result on, or throws the error that the sender is answered. */
  async receive(c: Context): Promise<Response> {
    const { raw: request } = c.req;
    const { limits: { maxBodyBytes }, path, verifyHead, isAllowed, groupBy, respond } =
      this.#platform;
    let body: HeldBody | undefined;
    let delivery: Delivery | undefined;
    let [isStored, verified] = [false, false];
    try {
      checkSpelling(request.url, path);
      checkDeclaredBody(request.headers, maxBodyBytes);
      const verifyBody = functionOf(verifyHead(request.headers));
      body = await readBodyWithin(this.#bodyTimeouts, request, maxBodyBytes, this.#budget);
      // A small body is verified at once, and does not wait for a turn.
      const verifying = verifyBody(body);
      const verifiedBy = nameOf(
        isObject(verifying) ? await this.#verified(verifying, body) : verifying,
      );
      const room = body.share?.keep();
      verified = true;
      // The sender gives up: it cannot wait for room longer than for the store.
      if (room) await this.#storeTimeouts.limit(room, overloaded);
      if (verifiedBy !== undefined) c.set("logFields", { verifiedBy });
      const parsed = this.#platform.read(request.headers, body.bytes, c.get("requestId"));
      if (parsed instanceof Response) {
        this.#count({ outcome: "ignored" });
        return parsed;
      }
      delivery = parsed;
      if (!isAllowed || await this.#allows(c, isAllowed, delivery)) {
        const about = { ...delivery, description: this.#described(c, delivery) };
        const ready = groupBy ? inGroup(about, groupBy, logSinkOf(c)) : about;
        const { id: eventId, duplicate } = await this.#enqueue(ready, body);
        const { deliveryId, type } = delivery;
        c.set("logFields", { ...c.get("logFields"), eventId, deliveryId, duplicate });
        this.#count({ outcome: duplicate ? "duplicate" : "accepted", type });
        isStored = true;
      } else this.#count({ outcome: "ignored" });
    } catch (error) {
      if (!body && isGivenUp(error)) markUnread(c.env);
      this.#noteRefusal(c, error, verified, delivery);
      throw error;
    } finally {
      body?.close();
    }
    if (respond && isStored) return responseOf(respond(delivery));
    // With a status: without one, Hono leaves the content type to the runtime, which spells it differently.
    return c.text("OK", 200);
  }

  /** Waits for a verifier, no longer than for the store. Until it ends it holds the body. */
  #verified(verifying: object, body: HeldBody): Promise<unknown> {
    return this.#storeTimeouts.limit(
      body.holdUntil(Promise.resolve(verifying)),
      () => queueUnavailable(new Error("The delivery was not verified in time")),
    );
  }

  #count(delivery: Omit<CountedDelivery, "platform" | "intake">): void {
    const { kind: platform, name: intake } = this.#platform;
    this.#telemetry?.countDelivery({ platform, intake, ...delivery });
  }

  /** Decides whether a delivery may reach the bot, and refuses or logs it if it may not. */
  async #allows(c: Context, isAllowed: IsAllowed, delivery: Delivery): Promise<boolean> {
    if (await this.#decide(c, isAllowed, delivery)) return true;
    if (this.#platform.unauthorized === "reject") {
      throw new HttpError(403, "User not authorized", { code: "AUTH_001" });
    }
    const fields = this.#fieldsOf(c, "AUTH_001", delivery);
    writeLog(logSinkOf(c), "warn", "update ignored: User not authorized", fields);
    return false;
  }

  async #decide(c: Context, isAllowed: IsAllowed, delivery: Delivery): Promise<boolean> {
    let decision: unknown;
    try {
      decision = isAllowed(delivery, c.env ?? {});
    } catch (error) {
      return this.#undecided(c, error, delivery);
    }
    if (typeof decision === "boolean") return this.#noteDecided(decision);
    const deciding = Promise.resolve(decision).then(booleanOf)
      .then((isAllowed) => this.#noteDecided(isAllowed))
      .catch((error) => this.#undecided(c, error, delivery));
    return await this.#storeTimeouts.limit(
      deciding,
      () => queueUnavailable(new Error("Whether the delivery is allowed was not decided in time")),
    );
  }

  #noteDecided(isAllowed: boolean): boolean {
    this.#decided++;
    return isAllowed;
  }

  /**
   * Lets a check fail once for each delivery, which is then sent again. A second failure counts as a refusal:
   * an update that is answered 5xx each time holds up the later updates of its chat for a day. Where refused updates are
   * ignored, and so never sent again, it takes five failures within at least ten minutes, before each of which the check
   * has worked for another one: while it is down, nothing may be lost, and little while it often fails.
   */
  #undecided(c: Context, error: unknown, { deliveryId }: Delivery): false {
    if (error instanceof HttpError && error.status < 500) throw error;
    if (deliveryId === undefined) throw error;
    const before = this.#failed.get(deliveryId);
    const decided = this.#decided;
    if (before === undefined) {
      this.#failed.set(deliveryId, { since: Date.now(), count: 1, decided });
      const [oldest] = this.#failed.keys();
      if (this.#failed.size > MAX_REMEMBERED) this.#failed.delete(oldest!);
      throw error;
    }
    if (this.#platform.unauthorized !== "reject") {
      const { since, count } = before;
      if (before.decided === decided) throw error;
      this.#failed.set(deliveryId, { since, count: count + 1, decided });
      if (count + 1 < MAX_FAILURES || Date.now() - since < FAILING_MS) throw error;
    }
    const fields = { deliveryId, error };
    writeLog(logSinkOf(c), "error", "update refused: its user could not be checked", fields);
    return false;
  }

  /** Names a refused delivery's user and chat for the log, so that you can read there whom to allow. */
  #fieldsOf(c: Context, code: string, delivery: Delivery | undefined) {
    const ids = delivery && { userId: delivery.sender?.id, chatId: delivery.chat?.id };
    return { requestId: c.get("requestId"), platform: this.#platform.kind, code, ...ids };
  }

  /** Says what a delivery is about; undefined if that fails, which is logged once. */
  #described(c: Context, delivery: Delivery): string | undefined {
    try {
      return described(delivery, this.#describe);
    } catch (error) {
      if (this.#isUndescribed) return undefined;
      this.#isUndescribed = true;
      const { platform, type, deliveryId } = delivery;
      const fields = { platform, type, deliveryId, error };
      writeLog(logSinkOf(c), "error", "event not described", fields);
      return undefined;
    }
  }

  /** Puts a delivery into the store, in a span if there are spans. */
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

  #noteRefusal(c: Context, error: unknown, verified: boolean, delivery?: Delivery): void {
    const code = error instanceof HttpError ? error.code : "INTERNAL";
    const request = () => ({ headers: c.req.raw.headers, address: this.#addressOf?.(c) });
    this.#count({ outcome: "rejected", code, request, verified });
    if (!(error instanceof HttpError) || !WARNED.has(code)) return;
    const fields = this.#fieldsOf(c, code, delivery);
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
 * @category Steps of an intake
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
    throw queueUnavailable(cause);
  }
}

const queueUnavailable = (cause: unknown) =>
  unavailable("QUEUE_UNAVAILABLE", RETRY_AFTER_SECONDS, cause);

function withinTimeout<T>(promise: Promise<T>): Promise<T> {
  return withDeadline(promise, STORE_TIMEOUT_MS);
}

/**
 * Answers 404 to other spellings of the path. Hono decodes a path before it routes, so `/%77ebhook` would
 * be one. And Deno accepts a target with a fragment, `/webhook#a`, which no request may have (RFC 9112,
 * section 3.2). It does not use `new URL()`, which throws for some hosts.
 */
function checkSpelling(url: string, path: string): void {
  if (url.includes("#") || (url.includes("%") && !url.split("?", 1)[0]!.endsWith(path))) {
    throw new HttpError(404, "Not Found", { code: "NOT_FOUND" });
  }
}

/** Checks what a platform's `verifyHead` has returned: JavaScript lets it be async. */
function functionOf(verifyBody: VerifyBody): VerifyBody {
  if (typeof verifyBody === "function") return verifyBody;
  const got = metSync(verifyBody);
  throw new TypeError(`A platform's verifier must return a function for the body, got ${got}`);
}

/** Tells whether a body that was being read is given up: what is left of it may come later, or never. */
function isGivenUp(error: unknown): boolean {
  return error instanceof HttpError && GIVEN_UP.has(error.code);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Checks what has verified a body. A verifier that returns `false` would let everything pass. */
function nameOf(verifiedBy: unknown): string | undefined {
  if (verifiedBy === undefined || typeof verifiedBy === "string") return textOf(verifiedBy);
  throw new TypeError(
    "A platform's verifier must throw an error if a body is not genuine, and return nothing or a name if it " +
      `is, got ${met(verifiedBy)}`,
  );
}

/** Checks a decision: any text, also "no", would count as true. */
function booleanOf(decision: unknown): boolean {
  if (typeof decision === "boolean") return decision;
  throw new TypeError(`Whether a delivery is allowed must be true or false, got ${met(decision)}`);
}

function responseOf(response: unknown): Response {
  if (response instanceof Response) return response;
  throw new TypeError(`A platform's respond() must return a Response, got ${metSync(response)}`);
}

/** Sets the group. If `groupBy` fails, an event out of order is better than a 5xx each time. */
function inGroup(delivery: Delivery, groupBy: GroupBy, log: LogSink): Delivery {
  try {
    return grouped(delivery, groupBy);
  } catch (error) {
    const { platform, type, deliveryId, requestId } = delivery;
    const fields = { platform, type, deliveryId, requestId, error };
    writeLog(log, "error", "event not grouped", fields);
    return delivery;
  }
}
