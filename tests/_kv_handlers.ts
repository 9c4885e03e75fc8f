/** Handlers of events of a store in a KV. */
import {
  createEventRouter,
  type EventHandler,
  type EventRouter,
  type EventStore,
  type HandlerContext,
  type JsonObject,
  kv,
} from "../events/mod.ts";

export type KvStore = EventStore<Deno.AtomicOperation, Deno.Kv>;

export type KvContext = HandlerContext<Deno.AtomicOperation, Deno.Kv>;

export type KvHandler<TPayload = JsonObject> = EventHandler<TPayload, KvContext>;

export type KvRouter = EventRouter<Record<string, JsonObject>, KvContext>;

/** Creates a router for them. */
export const createKvRouter = (options: { readonly strict?: boolean } = {}): KvRouter =>
  createEventRouter({ ...options, store: kv() });
