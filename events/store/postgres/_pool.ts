import { ClosedError } from "../engine.ts";

/** Longest time until a connection is there, in milliseconds. */
const CONNECT_MS = 10_000;

/** Settings of the connections, as `npm:pg` takes them. */
export interface PgSettings {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly database?: string | undefined;
  readonly ssl?: unknown;
  /** Settings of the session, as a command line has them. */
  readonly options?: string | undefined;
}

/** The parts of a client of `npm:pg` that are used. */
export interface PgClient {
  connect(): Promise<unknown>;
  query(query: object): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null }>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  end(): Promise<void>;
}

/** A connection, lent to one user at a time. */
export interface Lent {
  readonly client: PgClient;
  /** Set once it cannot be used any more. */
  isLost: boolean;
}

/**
 * A bounded number of connections. They are opened when they are needed, and stay open. Not the pool of `npm:pg`: that
 * one sets a timer each time that a connection is given back.
 */
export class Pool {
  readonly #connect: () => PgClient;
  readonly #max: number;
  readonly #idle: Lent[] = [];
  readonly #waiting: PromiseWithResolvers<Lent | undefined>[] = [];
  readonly #ends = new Set<Promise<void>>();
  #open = 0;
  #isClosed = false;
  readonly #closed = Promise.withResolvers<void>();

  private constructor(connect: () => PgClient, max: number) {
    this.#connect = connect;
    this.#max = max;
  }

  /**
   * Makes a pool for each of some numbers of connections.
   *
   * @param settings The settings of the client.
   * @param numbers The largest numbers of connections.
   * @returns The pools, which have no connection yet.
   */
  static async ofEach(settings: PgSettings, numbers: readonly number[]): Promise<Pool[]> {
    const { default: { Client } } = await import("pg");
    const options = {
      ...{ application_name: "edge-base", sslnegotiation: "postgres", ...settings },
      // Without a password the client would look for one in a file.
      password: () => settings.password ?? "",
      ...{ connectionTimeoutMillis: CONNECT_MS, keepAlive: true },
    };
    const connect = () => new Client(options) as unknown as PgClient;
    return numbers.map((max) => new Pool(connect, max));
  }

  /** Lends a connection. */
  async take(): Promise<Lent> {
    while (true) {
      if (this.#isClosed) throw new ClosedError();
      const idle = this.#idle.pop();
      if (idle) return idle;
      if (this.#open < this.#max) return await this.#openOne();
      const waiting = Promise.withResolvers<Lent | undefined>();
      this.#waiting.push(waiting);
      const lent = await waiting.promise;
      if (lent) return lent;
    }
  }

  /** Takes a connection back. */
  giveBack(lent: Lent): void {
    if (lent.isLost || this.#isClosed) return this.#drop(lent);
    const next = this.#waiting.shift();
    if (next) return next.resolve(lent);
    this.#idle.push(lent);
  }

  /** Closes it once all connections are given back. */
  async close(): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true;
      for (const lent of this.#idle.splice(0)) this.#drop(lent);
      for (const { resolve } of this.#waiting.splice(0)) resolve(undefined);
      this.#look();
    }
    await this.#closed.promise;
    await Promise.all(this.#ends);
  }

  async #openOne(): Promise<Lent> {
    // It throws if it may not read a variable of the environment.
    const client = this.#connect();
    this.#open++;
    const lent: Lent = { client, isLost: false };
    const lose = () => {
      lent.isLost = true;
      const at = this.#idle.indexOf(lent);
      if (at >= 0) this.#drop(this.#idle.splice(at, 1)[0]!);
    };
    client.on("error", lose);
    client.on("end", lose);
    try {
      await client.connect();
      return lent;
    } catch (error) {
      this.#drop(lent);
      throw error;
    }
  }

  #drop({ client }: Lent): void {
    this.#open--;
    const end = client.end().catch(() => {});
    this.#ends.add(end);
    void end.then(() => this.#ends.delete(end));
    // Whoever waits opens another one.
    this.#waiting.shift()?.resolve(undefined);
    this.#look();
  }

  #look(): void {
    if (this.#isClosed && this.#open === 0) this.#closed.resolve();
  }
}
