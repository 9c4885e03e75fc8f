import type { JsonObject } from "../../core/parse_json.ts";

/**
 * A snapshot event of Stripe: it holds the object as it was at the event.
 *
 * @category Types of payloads
 */
export interface StripeSnapshotEvent {
  /** Id of the event, the same when Stripe sends it again. */
  readonly id: string;
  /** Kind of the payload. */
  readonly object: "event";
  /** Type, such as `invoice.paid`. */
  readonly type: string;
  /** Version of Stripe's API that the object is written in. */
  readonly api_version: string | null;
  /** Time of the event, in seconds since the epoch. */
  readonly created: number;
  /** False for an event of a sandbox or of test mode. */
  readonly livemode: boolean;
  /** Id of the connected account; undefined for your own. */
  readonly account?: string;
  /** Object, and the fields that an update has changed, with the values they had. */
  readonly data: {
    readonly object: JsonObject;
    readonly previous_attributes?: JsonObject;
  };
  /** Request to Stripe's API that caused the event; null if none did. */
  readonly request: { readonly id: string | null; readonly idempotency_key: string | null } | null;
}

/**
 * A thin event of Stripe: it names the object, which is fetched from the API.
 *
 * @category Types of payloads
 */
export interface StripeThinEvent {
  /** Id of the event, the same when Stripe sends it again. */
  readonly id: string;
  /** Kind of the payload. */
  readonly object: "v2.core.event";
  /** Type, such as `v1.billing.meter.error_report_triggered`. */
  readonly type: string;
  /** Time of the event, in ISO 8601. */
  readonly created: string;
  /** False for an event of a sandbox or of test mode. */
  readonly livemode: boolean;
  /** Account to fetch the object from, as the header `Stripe-Context` takes it; null for your own. */
  readonly context?: string | null;
  /** Object, with its path in the API (`/v1/billing/meters/mtr_123`); null if the event is about none. */
  readonly related_object?:
    | { readonly id: string; readonly type: string; readonly url: string }
    | null;
  /** Never sent: the event has its data when it is fetched. */
  readonly data?: undefined;
}

/**
 * The payloads of Stripe's events by type. `StripeEvents<Stripe.Event>` has the snapshot events that the package
 * `stripe` describes, and thin events. Without a type, any type is either.
 *
 * @typeParam TEvent The snapshot events: a union, such as `Stripe.Event`.
 * @category Types of payloads
 */
export type StripeEvents<TEvent extends { readonly type: string } = never> = [TEvent] extends
  [never] ? Readonly<Record<string, StripeSnapshotEvent | StripeThinEvent>>
  :
    & { readonly [TType in TEvent["type"]]: Extract<TEvent, { readonly type: TType }> }
    & { readonly [name: `v1.${string}` | `v2.${string}`]: StripeThinEvent };
