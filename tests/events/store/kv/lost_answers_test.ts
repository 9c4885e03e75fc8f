import { assert, assertEquals } from "@std/assert";
import { freePort } from "../../../../dev/harness/free_port.ts";
import { withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { until } from "../../../../dev/harness/until.ts";
import { openEventStore } from "../../../../events/mod.ts";
import { buryAll, delivery } from "../_events.ts";
import { testDenokv } from "./_denokv.ts";

/** The longest wait for a commit to be made. */
const WAIT_MS = 20_000;

/** A proxy that can hold back what a server answers, and end its connections then. */
class HoldingProxy implements AsyncDisposable {
  readonly url: string;
  readonly #target: number;
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #running: Promise<void>;
  #isHolding = false;

  constructor(target: string) {
    this.#target = Number(new URL(target).port);
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: freePort() });
    this.url = `http://127.0.0.1:${this.#listener.addr.port}`;
    this.#running = this.#run();
  }

  /** Holds back all answers from now on. */
  hold(): void {
    this.#isHolding = true;
  }

  /** Loses the answers that were held back, with the connections, and takes others. */
  lose(): void {
    for (const each of this.#connections) each.close();
    this.#connections.clear();
    this.#isHolding = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.lose();
    await this.#running;
  }

  async #run(): Promise<void> {
    const pipes: Promise<void>[] = [];
    for await (const client of this.#listener) {
      const server = await Deno.connect({ hostname: "127.0.0.1", port: this.#target });
      for (const each of [client, server]) this.#connections.add(each);
      pipes.push(this.#pipe(client, server, false), this.#pipe(server, client, true));
    }
    await Promise.all(pipes);
  }

  async #pipe(from: Deno.TcpConn, to: Deno.TcpConn, isAnswer: boolean): Promise<void> {
    const buffer = new Uint8Array(65_536);
    try {
      for (let size = await from.read(buffer); size !== null; size = await from.read(buffer)) {
        if (isAnswer && this.#isHolding) continue;
        for (let at = 0; at < size;) at += await to.write(buffer.subarray(at, size));
      }
    } catch {
      // The connection was lost.
    }
  }
}

testDenokv(
  ["read", "write", "net", "run", "env"],
  "Deno repeats a commit that is not answered, and the store tells that it was made",
  async (url) => {
    await using proxy = new HoldingProxy(url);
    using direct = await Deno.openKv(url);
    using kv = await Deno.openKv(proxy.url);
    let isArmed = false;
    const held = withOperations(kv, (operation) => {
      const commit = operation.commit.bind(operation);
      operation.commit = () => {
        if (isArmed) proxy.hold();
        isArmed = false;
        return commit();
      };
    });
    const options = { notifier: "watch", log: () => {} } as const;
    const store = await openEventStore(held, options);
    const other = await openEventStore(direct, options);

    /** Does something, and loses the answer to its first commit once that was made. */
    async function losing<T>(act: () => Promise<T>, isMade: () => Promise<boolean>): Promise<T> {
      isArmed = true;
      const result = act();
      await until(isMade, WAIT_MS);
      proxy.lose();
      return await result;
    }

    const state = await store.state<number>("a");
    const valueOf = async () => (await other.state<number>("a")).value;
    assertEquals(await losing(() => state.set(1), async () => await valueOf() === 1), true);
    assertEquals(await losing(() => state.delete(), async () => !await valueOf()), true);
    const stateOf = async (id: string) => (await other.get(id))?.state;
    const accepted = await losing(
      () => store.accept(delivery("d1")),
      async () => await stateOf("d1") === "queued",
    );
    assertEquals(accepted, { id: "d1", duplicate: false });
    assert(await losing(() => store.cancel("d1"), async () => await stateOf("d1") === "dead"));
    assert(await losing(() => store.replay("d1"), async () => await stateOf("d1") === "queued"));
    assert(await store.cancel("d1"));
    await buryAll(other, ["d2", "d3"]);
    const purged = await losing(
      () => store.purge({ ids: ["d1", "d2", "d3"] }),
      async () => (await Array.fromAsync(other.list())).length < 3,
    );
    assertEquals([purged.changed, await Array.fromAsync(other.list())], [3, []]);
  },
);
