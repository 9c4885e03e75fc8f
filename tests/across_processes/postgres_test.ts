import { assert, assertEquals, assertGreaterOrEqual, assertMatch } from "@std/assert";
import { type RunningApp, runToEnd, startApp } from "../../dev/harness/start_app.ts";
import { pause, until } from "../../dev/harness/until.ts";
import { freePort } from "../../dev/harness/free_port.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { byLength, IS_LONG } from "../_length.ts";
import { type Answer, ANSWERED_WITHIN_MS, deliver } from "../apps/_deliver.ts";
import { testServer } from "../events/store/postgres/_faulty_app.ts";
import type { OwnPostgres } from "../events/store/postgres/_own_server.ts";
import { poolerPath } from "../events/store/postgres/_server.ts";

const [PROCESSES, CONNECTIONS] = [3, 8] as const;

/** Kills of processes of the app, crashes of the server, and kills of the pooler. */
const KILLS = {
  ...{ app: byLength(20, 2), server: byLength(5, 1) },
  pooler: poolerPath() === undefined ? 0 : byLength(3, 1),
};

/** Options of a process of the app. */
const optionsFor = (url: string) => ({
  script: new URL("./_postgres_app.ts", import.meta.url),
  env: { FORGE_WEBHOOK_SECRET: FORGE_SECRET, DATABASE_URL: url },
  flags: ["-A", "--unstable-kv"],
});

/** Processes of the app under load, what they have answered, and faults in turn. */
class Load implements AsyncDisposable {
  readonly acknowledged = new Set<string>();
  readonly sent = new Set<string>();
  /** Answers other than 200. */
  readonly refusals: Answer[] = [];
  readonly #server: OwnPostgres;
  readonly #apps: RunningApp[] = [];
  readonly #end = new AbortController();
  readonly #sending: Promise<void>[] = [];

  private constructor(server: OwnPostgres) {
    this.#server = server;
  }

  static async start(server: OwnPostgres): Promise<Load> {
    const load = new Load(server);
    for (let i = 0; i < PROCESSES; i++) await load.#startApp(i);
    for (let i = 0; i < PROCESSES * CONNECTIONS; i++) load.#sending.push(load.#send(i % PROCESSES));
    return load;
  }

  async #startApp(i: number): Promise<void> {
    // All but the first go through the pooler.
    this.#apps[i] = startApp(optionsFor(i === 0 ? this.#server.direct : this.#server.url));
    await this.#apps[i].url;
  }

  /** Sends deliveries to a process, until the end. */
  async #send(i: number): Promise<void> {
    while (!this.#end.signal.aborted) {
      const id = crypto.randomUUID();
      this.sent.add(id);
      // A process that was killed does not answer.
      const answer = await deliver(this.#apps[i]!, id).catch(() => undefined);
      if (answer?.status === 200) this.acknowledged.add(id);
      else if (answer) this.refusals.push(answer);
      if (answer?.status !== 200) await pause(20);
    }
  }

  /** Kills a process, and starts another one in its place. */
  async killApp(i: number): Promise<void> {
    this.#apps[i]!.process.kill("SIGKILL");
    await this.#apps[i]!.ended;
    await this.#startApp(i);
  }

  /** Waits until each process has acknowledged some more: none may need a restart. */
  async untilAcknowledged(): Promise<void> {
    for (const app of this.#apps) {
      await until(() => deliver(app, this.#newId()).then(({ status }) => status === 200), 30_000);
    }
  }

  #newId(): string {
    const id = crypto.randomUUID();
    this.sent.add(id);
    return id;
  }

  /** Ends the load, and waits until all events are handled. */
  async end(): Promise<void> {
    this.#end.abort();
    await Promise.all(this.#sending);
    await until(async () => {
      const sql = "select count(*)::int as n from edge_base.event where state <> 'done'";
      return (await this.#server.sql<{ n: number }>(sql))[0]!.n === 0;
    }, 120_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    for (const app of this.#apps) await app[Symbol.asyncDispose]();
    await Promise.all(this.#sending);
  }
}

/** Checks that all that was acknowledged was handled, once each, and nothing else. */
async function assertHandled(server: OwnPostgres, { sent, acknowledged }: Load): Promise<void> {
  const rows = await server.sql<{ id: string }>("select id from handled");
  const handled = new Set(rows.map(({ id }) => id));
  assertEquals(rows.length, handled.size);
  assertEquals([...acknowledged].filter((id) => !handled.has(id)), []);
  assertEquals([...handled].filter((id) => !sent.has(id)), []);
  const [done] = await server.sql("select count(*)::int as n from edge_base.event");
  assertEquals(done!.n, handled.size);
}

/** Runs faults under load. Each process must go on by itself after each one. */
async function runFaults(
  server: OwnPostgres,
  faults: readonly ((load: Load, i: number) => Promise<void>)[],
): Promise<void> {
  await using load = await Load.start(server);
  for (const [i, fault] of faults.entries()) {
    await pause(byLength(500, 200) * Math.random());
    await fault(load, i);
    await load.untilAcknowledged();
  }
  await load.end();
  for (const { status, headers, ms } of load.refusals) {
    assertEquals(status, 503);
    assert(headers.has("Retry-After"));
    assert(ms < ANSWERED_WITHIN_MS, `answered after ${ms} ms`);
  }
  await assertHandled(server, load);
  assertGreaterOrEqual(load.acknowledged.size, 100 * faults.length);
}

const killApp = (load: Load, i: number) => load.killApp(i % PROCESSES);

testServer(
  `acknowledged is handled, over ${KILLS.app} kills of processes, ${KILLS.server} of the server and ${KILLS.pooler} of the pooler`,
  async (server) => {
    const crash = () => server.restart("immediate");
    const killPooler = async () => {
      await server.killPooler();
      await server.startPooler();
    };
    const ofOthers = [
      ...Array.from({ length: KILLS.server }, () => crash),
      ...Array.from({ length: KILLS.pooler }, () => killPooler),
    ];
    const every = Math.ceil(KILLS.app / ofOthers.length);
    const faults = Array.from({ length: KILLS.app }, (_, i) => {
      const other = i % every === 0 ? ofOthers[i / every] : undefined;
      return other ? [killApp, other] : [killApp];
    });
    await runFaults(server, faults.flat());
  },
  { isPooled: poolerPath() !== undefined },
);

testServer("a process that finds no server says so, and ends after a while", async (server) => {
  const nowhere = Object.assign(new URL(server.url), { port: String(freePort()) }).href;
  if (IS_LONG) {
    const start = performance.now();
    const { code, stderr } = await runToEnd(optionsFor(nowhere));
    assertEquals(code, 1);
    assertMatch(stderr, /cannot be used: nothing listens there/);
    assertGreaterOrEqual(performance.now() - start, 30_000);
    return;
  }
  await using app = startApp(optionsFor(nowhere));
  await app.line(({ message }) => message === "database not there yet: trying again");
  assertEquals(await app.stop(), 0);
});
