/** A connection in between, which can be cut. */
export interface Proxy extends AsyncDisposable {
  /** URL of the database through it. */
  readonly url: string;
  /** Number of connections that were opened through it. */
  readonly opened: number;
  /**
   * Cuts the next connection on which a text is sent: before the server gets it, at once after, or once the server has
   * answered. Nobody gets the answer.
   *
   * @param text The text.
   * @param when The moment.
   * @returns What resolves once the connection is cut.
   */
  cut(text: string, when: CutWhen): Promise<void>;
  /** Lets the connections that are open stay so, and pass nothing on any more, as if a machine was gone. */
  silence(): void;
}

/** See {@linkcode Proxy.cut}. */
export type CutWhen = "before" | "during" | "after";

interface Cut {
  readonly text: string;
  readonly when: CutWhen;
  readonly done: PromiseWithResolvers<void>;
}

/** Opens a proxy to a database on this machine. */
export function openProxy(database: string): Proxy {
  const { port } = new URL(database);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const ends = new Set<Promise<void>>();
  const open = new Set<Deno.Conn>();
  const silent = new Set<Deno.Conn>();
  let next: Cut | undefined;
  let opened = 0;
  const take = (chunk: Uint8Array) => {
    const cut = next;
    if (!cut || !new TextDecoder("latin1").decode(chunk).includes(cut.text)) return undefined;
    next = undefined;
    return cut;
  };
  const serving = (async () => {
    for await (const client of listener) {
      opened++;
      const server = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
      for (const each of [client, server]) open.add(each);
      const end = connect(client, server, take, () => silent.has(client)).finally(() =>
        ends.delete(end)
      );
      ends.add(end);
    }
  })();
  return {
    url: Object.assign(new URL(database), { port: String(listener.addr.port) }).href,
    get opened() {
      return opened;
    },
    cut(text, when) {
      next = { text, when, done: Promise.withResolvers() };
      return next.done.promise;
    },
    silence() {
      for (const each of open) silent.add(each);
    },
    async [Symbol.asyncDispose]() {
      listener.close();
      await serving;
      for (const each of open) close(each);
      await Promise.all(ends);
    },
  };
}

/** Sends on what comes from either side, until one closes or the connection is cut. */
async function connect(
  client: Deno.Conn,
  server: Deno.Conn,
  take: (chunk: Uint8Array) => Cut | undefined,
  isSilent: () => boolean,
): Promise<void> {
  let cutting: Cut | undefined;
  const end = () => {
    for (const each of [client, server]) close(each);
    cutting?.done.resolve();
  };
  const toServer = send(client, async (chunk) => {
    if (isSilent()) return;
    cutting ??= take(chunk);
    if (cutting?.when === "before") return end();
    await writeAll(server, chunk);
    if (cutting?.when === "during") end();
  }).finally(end);
  const toClient = send(server, async (chunk) => {
    if (isSilent()) return;
    if (cutting) return end();
    await writeAll(client, chunk);
  }).finally(end);
  await Promise.all([toServer, toClient]);
}

async function send(from: Deno.Conn, take: (chunk: Uint8Array) => Promise<void> | void) {
  const buffer = new Uint8Array(65_536);
  try {
    for (let n; (n = await from.read(buffer)) !== null;) await take(buffer.slice(0, n));
  } catch {
    // It was closed.
  }
}

async function writeAll(to: Deno.Conn, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length;) at += await to.write(chunk.subarray(at));
}

function close(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch {
    // It is closed.
  }
}
