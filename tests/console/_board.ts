import { consoleApp, type ConsoleAppOptions } from "../../console/_console_app.ts";
import { ConsoleData } from "../../console/_console_data.ts";
import { newActId } from "../../console/_query.ts";
import { timeless, until } from "./_data.ts";
import { Hono } from "@hono/hono";
import type { LogRecord } from "../../core/mod.ts";
import { type Delivery, type EventStore, openEventStore } from "../../events/mod.ts";

/** Token of viewers. */
export const VIEWER = "a5c1e97b3d2f48600a5c1e97b3d2f486";

/** Token of operators. */
export const OPERATOR = "0f9e8d7c6b5a49382716f0e9d8c7b6a5";

/** Origin of the console. */
export const ORIGIN = "http://bot.example";

const FORM = "application/x-www-form-urlencoded";

/** Console of a store in memory. */
export interface BoardUnderTest extends AsyncDisposable {
  readonly store: EventStore;
  readonly kv: Deno.Kv;
  readonly logs: readonly LogRecord[];
  /** Asks for a page. */
  get(page: string, headers?: Record<string, string>): Promise<Response>;
  /** Sends a form. */
  post(
    page: string,
    fields: Record<string, string>,
    headers?: Record<string, string | undefined>,
  ): Promise<Response>;
  /** Sends a form as it is. */
  send(page: string, init: RequestInit, headers?: Record<string, string>): Promise<Response>;
  /** Logs in, and returns the cookie. */
  login(token?: string): Promise<string>;
  /** Confirms an act as an operator. */
  act(fields: Record<string, string>): Promise<Response>;
}

/** Options of a console, which may have other data in places, or another store. */
type BoardOptions = Partial<Omit<ConsoleAppOptions, "data">> & {
  readonly data?: object;
  /** The store, instead of one in the KV. */
  readonly store?: EventStore;
};

/** Opens a console with both tokens, at its path below a prefix. */
export async function openBoard(
  { path = "/console", data: fake, store: own, ...options }: BoardOptions = {},
  prefix = "",
): Promise<BoardUnderTest> {
  const kv = await Deno.openKv(":memory:");
  const logs: LogRecord[] = [];
  const log = (record: LogRecord) => void logs.push(record);
  const store = own ?? await openEventStore(kv, { namespace: "bot", log });
  const data = timeless(new ConsoleData(store, log));
  const routes = consoleApp({
    ...{ name: "bot", path, environment: undefined, hidesPayloads: false },
    ...{ trustedProxyHops: 0, data: fake as ConsoleData ?? data, sending: undefined, log },
    ...{ viewerToken: VIEWER, operatorToken: OPERATOR },
    front: options.trustedProxyHops ? "proxy" : "nothing",
    ...options,
  });
  const app = new Hono().route(prefix || "/", routes);
  const ask = async (page: string, init: RequestInit, remote = "192.0.2.1") =>
    await app.request(new Request(`${ORIGIN}${prefix}${path}${page}`, init), undefined, {
      remoteAddr: { transport: "tcp", hostname: remote, port: 50_000 },
    });
  const board: BoardUnderTest = {
    ...{ store, kv, logs },
    get: (page, headers = {}) => ask(page, { headers }),
    post: (page, fields, headers = {}) => {
      const { remote, ...others } = headers;
      const all = { Origin: ORIGIN, Host: "bot.example", ...others };
      const given = Object.entries(all).filter(([, value]) => value !== undefined);
      const init = { headers: given as [string, string][], body: new URLSearchParams(fields) };
      return ask(page, { ...init, method: "POST" }, remote);
    },
    send: (page, init, others = {}) => {
      const headers = { Origin: ORIGIN, Host: "bot.example", "Content-Type": FORM, ...others };
      return ask(page, { ...init, headers });
    },
    login: async (token = OPERATOR) => {
      const response = await board.post("/login", { token });
      return response.headers.get("Set-Cookie")!.split(";", 1)[0]!;
    },
    // The form has the id that its question made.
    act: async (fields) =>
      await board.post("/act", { act: newActId(), ...fields }, { Cookie: await board.login() }),
    async [Symbol.asyncDispose]() {
      await data.stop();
      kv.close();
    },
  };
  return board;
}

/** Makes a delivery. */
export function delivery(id: string, overrides: Partial<Delivery> = {}): Delivery {
  const payload = { action: "opened" };
  return {
    ...{ platform: "forge", source: "github", intake: "github", type: "issues", deliveryId: id },
    ...{ action: "opened", sender: undefined, repository: undefined, chat: undefined },
    ...{ requestId: "r1", orderingKey: undefined, payload },
    ...{ body: new TextEncoder().encode(JSON.stringify(payload)) },
    ...overrides,
  } as Delivery;
}

/** Leases the next event that is due. */
export async function claim(store: EventStore) {
  return await until(async () => (await store.claim({ limit: 1, owner: "w", leaseMs: 60_000 }))[0]);
}

/** Stores an event, and has it die. */
export async function storeDead(
  store: EventStore,
  id: string,
  overrides: Partial<Delivery> = {},
  error = new Error("no luck"),
): Promise<string> {
  const accepted = await store.accept(delivery(id, overrides));
  for (const lease of await store.claim({ limit: 10, owner: "w", leaseMs: 60_000 })) {
    await store.bury(lease, error);
  }
  return accepted.id;
}

/** Stores an event, and has it handled. */
export async function storeDone(store: EventStore, id: string): Promise<string> {
  const accepted = await store.accept(delivery(id));
  await store.complete(await claim(store));
  return accepted.id;
}
