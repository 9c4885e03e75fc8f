import type { Hono } from "@hono/hono";
import { createBaseApp } from "../app/base_app.ts";
import type { LogRecord } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { EventStore, EventWorker, PlatformName } from "../events/mod.ts";
import { createForgeIntake, createMessengerIntake } from "../webhook/mod.ts";
import { TestClock } from "./_test_clock.ts";
import type { TestDelivery } from "./forge_delivery.ts";
import type { Outcome, TestBot, TestBotOptions } from "./test_bot.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/** Test bot in this process: an app for each platform, and one store and worker for both. */
export class LocalBot implements TestBot {
  readonly #worker: EventWorker;
  readonly #apps: Readonly<Record<PlatformName, Hono>>;
  readonly #options: TestBotOptions;
  readonly #clock = new TestClock();

  constructor(
    readonly kv: Deno.Kv,
    readonly store: EventStore,
    readonly logs: LogRecord[],
    options: TestBotOptions,
    startWorker: () => EventWorker,
  ) {
    const { signing, gitlab, gitlabToken, messenger } = TEST_SECRETS;
    const secrets = { secrets: [signing, gitlab], tokens: [gitlabToken] };
    this.#options = options;
    this.#apps = {
      forge: this.#appOf("forge", createForgeIntake({ ...secrets, store, ...options.forge })),
      messenger: this.#appOf(
        "messenger",
        createMessengerIntake({ secrets: [messenger], store, ...options.messenger }),
      ),
    };
    this.#worker = startWorker();
  }

  async deliver(delivery: TestDelivery): Promise<Outcome> {
    const env = { MESSENGER_ALLOWED_USERS: this.#options.allowedUsers ?? "*" };
    const response = await this.#apps[delivery.platform].request("/webhook", delivery, env);
    const text = await response.text();
    await this.#handled();
    const requestId = response.headers.get("X-Request-Id");
    const record = this.logs.find((each) => each.requestId === requestId && each.eventId);
    return {
      status: response.status,
      text,
      code: response.headers.get("X-Error-Code"),
      event: (record && await this.store.get(String(record.eventId))) ?? undefined,
    };
  }

  async advance(ms: number): Promise<void> {
    this.#clock.advance(ms);
    await this.#handled();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.stop();
    this.#clock.restore();
    this.kv.close();
  }

  #appOf(name: PlatformName, intake: Hono): Hono {
    const log = (record: LogRecord) => void this.logs.push(record);
    const app = createBaseApp({ name, logger: { log } });
    app.route("/", intake);
    return app as unknown as Hono;
  }

  async #handled(): Promise<void> {
    const { timeoutMs = 10_000 } = this.#options;
    try {
      await withDeadline(this.#worker.poll(), timeoutMs);
    } catch (cause) {
      throw new Error(`The events were not handled within ${timeoutMs} ms`, { cause });
    }
  }
}
