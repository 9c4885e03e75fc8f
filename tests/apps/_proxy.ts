/** A proxy in front of a remote KV, which can be made to fail. */
export interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** `pass` on, `swallow` what is sent and answer nothing, or answer everything with a `500`. */
  mode: "pass" | "swallow" | "500";
  /** Number of calls it has swallowed. */
  swallowed: number;
}

/** Starts a proxy on a free port of this machine. */
export function startProxy(target: string): Proxy {
  const ended = new AbortController();
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    signal: ended.signal,
    onListen: () => {},
    handler: async (request) => {
      const { pathname } = new URL(request.url);
      if (proxy.mode === "500") return new Response(null, { status: 500 });
      if (proxy.mode === "swallow") {
        proxy.swallowed++;
        return await never(ended.signal);
      }
      const { method, headers } = request;
      const body = await request.bytes();
      return await fetch(`${target}${pathname}`, { method, headers, body, signal: ended.signal });
    },
    onError: () => new Response(null, { status: 502 }),
  });
  const proxy: Proxy = {
    url: `http://127.0.0.1:${server.addr.port}`,
    mode: "pass",
    swallowed: 0,
    [Symbol.asyncDispose]: async () => {
      ended.abort();
      await server.finished;
    },
  };
  return proxy;
}

function never(signal: AbortSignal): Promise<Response> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}
