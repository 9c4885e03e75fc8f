import { bindEnv, createBaseApp } from "../../app/base_app.ts";
import type { CliWorld } from "../../cli/_world.ts";
import { until } from "../../dev/harness/until.ts";
import { type EventStore, openEventStore } from "../../events/mod.ts";
import { TEST_SECRETS } from "../../testing/mod.ts";
import { createIntake, slack, stripe } from "../../webhook/mod.ts";
import { forgeIntake, messengerIntake } from "../webhook/_intakes.ts";
import { type Result, runHere } from "./_cli.ts";
import { GITHUB_TOKEN } from "../catch_up/_fake_github.ts";
import { BOT_TOKEN } from "./_telegram_api.ts";

const { signing, gitlab, gitlabToken, messenger } = TEST_SECRETS;

/** Longest that a pause takes in tests. */
const MAX_PAUSE_MS = 20;

/** Longest wait for a line. */
const LINE_MS = 20_000;

/** Variables of both platforms. */
export const VARIABLES: Readonly<Record<string, string>> = {
  ...{ TELEGRAM_BOT_TOKEN: BOT_TOKEN, TELEGRAM_SECRET_TOKEN: messenger },
  ...{ GITHUB_TOKEN, GITHUB_WEBHOOK_SECRET: signing },
};

/** `connect` while it runs in this process. */
export interface Connecting {
  readonly out: readonly string[];
  readonly err: readonly string[];
  /** Pauses that it made, in milliseconds: each takes some milliseconds only. */
  readonly pauses: readonly number[];
  /** Waits until a line of either kind has a text. */
  line(text: string): Promise<void>;
  /** Presses Ctrl-C, and waits for the end. */
  interrupt(): Promise<Result>;
  /** Its end. */
  readonly ended: Promise<Result>;
}

/** Starts `connect` in this process. */
export function startConnect(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = VARIABLES,
  world: Partial<CliWorld> = {},
): Connecting {
  const [out, err, pauses]: [string[], string[], number[]] = [[], [], []];
  let interrupt = () => {};
  const ended = runHere(["connect", ...args], {
    env: (name) => variables[name],
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    onInterrupt: (listener) => {
      interrupt = listener;
      return () => {};
    },
    sleep: async (ms, signal) => {
      pauses.push(ms);
      await new Promise((resolve) => setTimeout(resolve, Math.min(MAX_PAUSE_MS, ms)));
      signal.throwIfAborted();
    },
    ...world,
  }).then(({ code }) => ({ code, out, err }));
  const has = (text: string) => [...out, ...err].some((line) => line.includes(text));
  const line = async (text: string) => {
    await until(() => has(text), LINE_MS).catch((error) => {
      throw new Error(`${error.message} for ${text}:\n${[...out, ...err].join("\n")}`);
    });
  };
  return {
    ...{ out, err, pauses, ended, line },
    interrupt: () => {
      interrupt();
      return ended;
    },
  };
}

/** Runs `connect` to its end. */
export function connect(
  args: readonly string[],
  variables?: Readonly<Record<string, string>>,
): Promise<Result> {
  return startConnect(args, variables).ended;
}

/** App of the package in this process, whose events are stored and not handled. */
export interface IntakeApp extends AsyncDisposable {
  readonly url: string;
  readonly store: EventStore;
  /** Requests that came, in their order: the headers, and the answer. */
  readonly seen: readonly { readonly headers: Headers; readonly status: number }[];
  /** The types, products and bodies of the events that are stored. */
  events(): Promise<{ type: string; source: string; body: string }[]>;
}

/** Starts an app. What `before` does with a request comes before the app gets it. */
export async function startIntakeApp(
  platform: "forge" | "messenger" | "slack" | "stripe",
  before: (count: number) => Promise<Response | undefined> | Response | undefined = () => undefined,
): Promise<IntakeApp> {
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const app = createBaseApp({ name: platform, logger: false });
  const intakes = {
    forge: () => forgeIntake({ secrets: [signing, gitlab], tokens: [gitlabToken], store }),
    messenger: () => messengerIntake({ secrets: [messenger], store }),
    slack: () => createIntake(slack({ secrets: [signing] }), { store }),
    stripe: () => createIntake(stripe({ secrets: [gitlab] }), { store }),
  };
  app.route("/", intakes[platform]());
  const handle = bindEnv(app, { MESSENGER_ALLOWED_USERS: "42" });
  const seen: { headers: Headers; status: number }[] = [];
  const quiet = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  const server = Deno.serve(quiet, async (request, info) => {
    const response = await before(seen.length) ?? await handle(request, info);
    seen.push({ headers: request.headers, status: response.status });
    return response;
  });
  return {
    ...{ store, seen, url: `http://127.0.0.1:${server.addr.port}` },
    events: async () => {
      const leases = await store.claim({ limit: 100, owner: "test", leaseMs: 60_000 });
      return await Promise.all(leases.map(async (lease) => ({
        ...{ type: lease.record.type, source: lease.record.source },
        body: new TextDecoder("utf-8", { ignoreBOM: true }).decode(await store.load(lease)),
      })));
    },
    [Symbol.asyncDispose]: async () => {
      await server.shutdown();
      kv.close();
    },
  };
}
