/**
 * Deliveries as Stripe makes them, signed, and examples of them.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { checkOptions } from "../core/check_options.ts";
import { documentOf, type TestDelivery } from "./deliveries.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/**
 * Options of {@linkcode stripeDelivery}.
 *
 * @category Deliveries
 */
export interface StripeDeliveryOptions {
  /**
   * Signing secret of the endpoint, `whsec_...`.
   *
   * @default {TEST_SECRETS.gitlab}
   */
  readonly secret?: string | undefined;
  /**
   * Time of sending, in milliseconds since the epoch. It is signed.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
  /**
   * Path that the delivery is posted to.
   *
   * @default {undefined} The path of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
  /**
   * Name of the platform that the delivery is for, in an app that has several of `stripe()`.
   *
   * @default {"stripe"} Their kind.
   */
  readonly platform?: string | undefined;
}

/** Types of thin events begin with the version of the API. */
const THIN = /^v\d+\./;

const [CUSTOMER, SUBSCRIPTION] = ["cus_NffrFeUfNV2Hib", "sub_1MowQVLkdIwHu7ixeRlqHVzs"];

/** Examples by type: snapshot events and a thin one. */
export const STRIPE_EXAMPLES: Readonly<Record<string, object>> = {
  "invoice.paid": {
    data: {
      object: {
        ...{ id: "in_1MtHbELkdIwHu7ixl4OzzPMv", object: "invoice", customer: CUSTOMER },
        ...{ amount_due: 4_200, amount_paid: 4_200, currency: "eur", status: "paid" },
      },
    },
  },
  "checkout.session.completed": {
    data: {
      object: {
        ...{ id: "cs_test_a11YYufWQzNY63zpQ6QSNRQhkUpVph4W", object: "checkout.session" },
        ...{ amount_total: 4_200, currency: "eur", customer: CUSTOMER, mode: "payment" },
        ...{ payment_status: "paid", status: "complete" },
      },
    },
  },
  "customer.subscription.updated": {
    data: {
      object: {
        ...{ id: SUBSCRIPTION, object: "subscription", customer: CUSTOMER },
        ...{ status: "active", cancel_at_period_end: true },
      },
      previous_attributes: { cancel_at_period_end: false },
    },
  },
  "payment_intent.succeeded": {
    data: {
      object: {
        ...{ id: "pi_3MtwBwLkdIwHu7ix28a3tqPa", object: "payment_intent", amount: 4_200 },
        ...{ amount_received: 4_200, currency: "eur", status: "succeeded" },
      },
    },
  },
  "v1.billing.meter.error_report_triggered": {
    related_object: {
      id: "mtr_test_61RCjiqdTDC91zgip41IqPCzPnxqqSVc",
      type: "billing.meter",
      url: "/v1/billing/meters/mtr_test_61RCjiqdTDC91zgip41IqPCzPnxqqSVc",
    },
  },
};

/**
 * Builds a delivery as Stripe sends it.
 *
 * @param payload The event: an object, which gets what all events have (`id`, `object`, `created`, `livemode`) if it
 * lacks it, or a JSON document that is sent byte for byte. A type such as `v1.billing.meter.error_report_triggered`
 * makes a thin event, any other a snapshot event.
 * @param options The secret, the time, the path and the platform.
 * @returns The delivery.
 * @throws {TypeError} If the payload is missing, or there is another option.
 *
 * @example
 * ```ts
 * import { stripeDelivery } from "@org/edge-base/testing";
 * import { assert } from "@std/assert";
 *
 * const delivery = stripeDelivery({ type: "invoice.paid", data: { object: { id: "in_1" } } });
 * assert(delivery.headers.get("Stripe-Signature")?.startsWith("t="));
 * ```
 *
 * @category Deliveries
 */
export function stripeDelivery(
  payload: object | string,
  options: StripeDeliveryOptions = {},
): TestDelivery {
  const doing = "build the delivery";
  checkOptions(doing, options, {
    ...{ secret: undefined, sentAt: undefined, path: undefined, platform: undefined },
  });
  const { secret = TEST_SECRETS.gitlab, sentAt = Date.now(), path, platform = "stripe" } = options;
  const isObject = typeof payload === "object" && !(payload instanceof Uint8Array);
  const body = documentOf(doing, isObject && payload ? completed(payload) : payload);
  const time = String(Math.floor(sentAt / 1_000));
  const digest = createHmac("sha256", secret).update(`${time}.`).update(body).digest("hex");
  const headers = new Headers({ "Content-Type": "application/json; charset=utf-8" });
  headers.set("Stripe-Signature", `t=${time},v1=${digest}`);
  return { platform, path, method: "POST", headers, body };
}

function completed(payload: { readonly type?: unknown }): object {
  const id = `evt_${crypto.randomUUID().replaceAll("-", "")}`;
  const now = new Date();
  const common = THIN.test(String(payload.type))
    ? { id, object: "v2.core.event", created: now.toISOString() }
    : {
      ...{ id, object: "event", created: Math.floor(now.getTime() / 1_000) },
      ...{ api_version: "2026-01-28", request: null, pending_webhooks: 1 },
    };
  return { ...common, livemode: false, ...payload };
}
