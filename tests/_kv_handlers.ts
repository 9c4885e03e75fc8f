/** Handlers of events of a store in a KV. */
import {
  type CommitEffects,
  createEventRouter,
  type EventHandler,
  type EventRouter,
  type EventStore,
  type HandlerContext,
  type JsonObject,
  kv,
  type KvCommit,
} from "../events/mod.ts";

export type KvStore = EventStore<KvCommit, Deno.Kv>;

export type KvContext = HandlerContext<KvCommit, Deno.Kv>;

export type KvHandler<TPayload = JsonObject> = EventHandler<TPayload, KvContext>;

export type KvRouter = EventRouter<Record<string, JsonObject>, KvContext>;

/** Makes effects that types refuse: asynchronous ones. */
export const asyncEffects = (effects: (commit: KvCommit) => Promise<unknown>) =>
  effects as unknown as CommitEffects<KvCommit>;

/** Creates a router for them. */
export const createKvRouter = (options: { readonly strict?: boolean } = {}): KvRouter =>
  createEventRouter({ ...options, store: kv() });
