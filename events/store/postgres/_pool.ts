import { ClosedError } from "../engine.ts";

/** Longest time until a connection is there, in milliseconds. */
const CONNECT_MS = 10_000;

/** Time after which a connection that is idle shows that it is there: gateways forget it after some minutes. */
const KEEP_ALIVE_MS = 60_000;

/** Time in which a connection ends in order, in milliseconds: a server that does not answer does not end it. */
const END_MS = 1_000;

/** Time between two looks for statements that are not answered, in milliseconds. */
const LOOK_MS = 10_000;

/**
 * Time after which a statement of the store is asked to give up: it waits for a lock. And the time after which its
 * connection is lost: the machine at the other end is gone, or something in between.
 */
const [CANCEL_MS, SILENT_MS] = [20_000, 30_000] as const;

/** Codes of Postgres and of PgBouncer if no connection is left. */
const NONE_LEFT: readonly unknown[] = ["53300", "08P01"];

/** Advice for who waits for a connection in vain. */
const BUSY =
  "a function that has a transaction must not wait for 'db' or for another transaction, " +
  "and 'connections' of postgres() says how many there are";

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
  readonly connection: PgConnection;
  /** False while a statement is not answered. */
  readonly readyForQuery: boolean;
  /** The numbers by which another connection names this one, and proves that it may. */
  readonly processID: number;
  readonly secretKey: number;
}

interface PgConnection {
  readonly stream: {
    on(event: "data", listener: () => void): unknown;
    destroy(error?: Error): void;
  };
  connect(port: number, host: string): void;
  on(event: "connect" | "error", listener: () => void): unknown;
  cancel(processId: number, secretKey: number): void;
}

/** A connection, lent to one user at a time. */
export interface Lent {
  readonly client: PgClient;
  /** Set once it cannot be used any more. */
  isLost: boolean;
  /** The reason, if the server has told one. */
  lostBy?: unknown;
  /** Time at which it has answered, or was seen to be ready, by the monotonic clock. */
  heardAt: number;
  /** Asks the server to give up what it does, and is open until it is lost as well. */
  canceller?: PgConnection;
}

/**
 * A bounded number of connections. They are opened when they are needed, and stay open. Not the pool of `npm:pg`: that
 * one sets a timer each time that a connection is given back.
 */
export class Pool {
  readonly #connect: () => PgClient;
  readonly #max: number;
  readonly #settings: PgSettings;
  readonly #idle: Lent[] = [];
  readonly #waiting: PromiseWithResolvers<Lent | undefined>[] = [];
  readonly #ends = new Set<Promise<void>>();
  /** Number of connections, also of those that are being opened. */
  #open = 0;
  readonly #connected = new Set<Lent>();
  /** The pool of handlers, for that of the store: nobody else knows how long a statement may take. */
  #ofHandlers: Pool | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;
  readonly #closed = Promise.withResolvers<void>();

  private constructor(connect: () => PgClient, max: number, settings: PgSettings) {
    this.#connect = connect;
    this.#max = max;
    this.#settings = settings;
  }

  /**
   * Makes a pool for each of some numbers of connections.
   *
   * @param settings The settings of the client.
   * @param numbers The largest numbers of connections: the store's, and if there are two, those of handlers.
   * @returns The pools, which have no connection yet.
   */
  static async ofEach(settings: PgSettings, numbers: readonly number[]): Promise<Pool[]> {
    const { default: { Client } } = await import("pg");
    const options = {
      ...{ application_name: "edge-base", sslnegotiation: "postgres", ...settings },
      // Without a password the client would look for one in a file.
      password: () => settings.password ?? "",
      connectionTimeoutMillis: CONNECT_MS,
      ...{ keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_MS },
    };
    const connect = () => new Client(options) as unknown as PgClient;
    const pools = numbers.map((max) => new Pool(connect, max, settings));
    pools[0]!.#ofHandlers = pools[1];
    return pools;
  }

  /**
   * Lends a connection. If the server has none left for another one, it is the next one that somebody gives back.
   *
   * @param withinMs The longest wait for that, in milliseconds.
   * @throws {Error} If nobody has given one back by then.
   */
  async take(withinMs = Infinity): Promise<Lent> {
    for (let refused: { readonly error: unknown } | undefined;;) {
      if (this.#isClosed) throw new ClosedError();
      this.#timer ??= setTimeout(this.#lookForSilent, LOOK_MS);
      const idle = this.#idle.pop();
      if (idle) return idle;
      if (!refused && this.#open < this.#max) {
        try {
          return await this.#openOne();
        } catch (error) {
          if (!NONE_LEFT.includes((error as { code?: unknown }).code)) throw error;
          refused = { error };
          continue;
        }
      }
      if (refused && this.#connected.size === 0) throw refused.error;
      const lent = await this.#given(withinMs);
      if (lent) return lent;
    }
  }

  /** Waits for a connection that somebody gives back; undefined if another one may be opened. */
  async #given(withinMs: number): Promise<Lent | undefined> {
    const waiting = Promise.withResolvers<Lent | undefined>();
    this.#waiting.push(waiting);
    const giveUp = () => {
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.reject(new Error(`No connection was free within ${withinMs} ms: ${BUSY}`));
    };
    const timer = withinMs < Infinity ? setTimeout(giveUp, withinMs) : undefined;
    try {
      return await waiting.promise;
    } finally {
      clearTimeout(timer);
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
      clearTimeout(this.#timer);
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
    const lent: Lent = { client, isLost: false, heardAt: performance.now() };
    const lose = (error?: Error) => {
      lent.isLost = true;
      lent.lostBy ??= error;
      const at = this.#idle.indexOf(lent);
      if (at >= 0) this.#drop(this.#idle.splice(at, 1)[0]!);
    };
    client.on("error", lose);
    client.on("end", lose);
    try {
      await client.connect();
      this.#connected.add(lent);
      client.connection.stream.on("data", () => lent.heardAt = performance.now());
      return lent;
    } catch (error) {
      lent.isLost = true;
      this.#drop(lent);
      throw error;
    }
  }

  #drop(lent: Lent): void {
    const { client, isLost } = lent;
    this.#open--;
    this.#connected.delete(lent);
    lent.canceller?.stream.destroy();
    const destroy = () => client.connection.stream.destroy();
    const timer = setTimeout(destroy, END_MS);
    const end = client.end().catch(() => {});
    if (isLost) destroy();
    this.#ends.add(end);
    void end.then(() => {
      clearTimeout(timer);
      this.#ends.delete(end);
    });
    // One of those who wait may open another one.
    for (const { resolve } of this.#waiting.splice(0)) resolve(undefined);
    this.#look();
  }

  /** Looks for connections that have not answered, and goes on as long as any is used. */
  readonly #lookForSilent = (): void => {
    this.#timer = undefined;
    if (this.#isClosed) return;
    const now = performance.now();
    for (const lent of this.#connected) {
      if (lent.client.readyForQuery) lent.heardAt = now;
      if (!this.#ofHandlers || now - lent.heardAt < CANCEL_MS) continue;
      if (now - lent.heardAt < SILENT_MS) lent.canceller ??= this.#cancel(lent);
      else this.#loseSilent();
    }
    if (this.#connected.size > this.#idle.length) {
      this.#timer = setTimeout(this.#lookForSilent, LOOK_MS);
    }
  };

  /** Loses the connections that have not answered, also those of handlers. */
  #loseSilent(): void {
    const before = performance.now() - CANCEL_MS;
    const ofHandlers = this.#ofHandlers ? this.#ofHandlers.#connected : [];
    for (const { client, heardAt } of [...this.#connected, ...ofHandlers]) {
      if (heardAt < before) {
        client.connection.stream.destroy(new Error("The server does not answer"));
      }
    }
  }

  /** Asks the server to give up a statement: one that waits for a lock would go on without its connection. */
  #cancel({ client: { processID, secretKey } }: Lent): PgConnection {
    const { connection } = this.#connect();
    connection.on("error", () => {});
    connection.on("connect", () => connection.cancel(processID, secretKey));
    connection.connect(this.#settings.port!, this.#settings.host!);
    return connection;
  }

  #look(): void {
    if (this.#isClosed && this.#open === 0) this.#closed.resolve();
  }
}
