/** A call that a platform's API was given. */
export interface ApiCall {
  readonly method: string;
  /** The path and the query. */
  readonly path: string;
  readonly authorization: string | null;
  // deno-lint-ignore no-explicit-any -- Each test looks into a document of another shape.
  readonly body: any;
}

/** A stand-in for a platform's API, on a port of this machine. */
export interface StandIn extends AsyncDisposable {
  readonly url: string;
  readonly calls: readonly ApiCall[];
  /** Waits until there have been so many calls. */
  until(count: number): Promise<void>;
}

/** Starts a stand-in that answers by a function, and 200 with an empty object where it has no answer. */
export function startStandIn(answer: (call: ApiCall) => Response | undefined): StandIn {
  const calls: ApiCall[] = [];
  const waiting = new Set<() => void>();
  const quiet = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  const server = Deno.serve(quiet, async (request) => {
    const { pathname, search } = new URL(request.url);
    const text = await request.text();
    const call: ApiCall = {
      method: request.method,
      path: pathname + search,
      authorization: request.headers.get("Authorization"),
      body: text === "" ? undefined : JSON.parse(text),
    };
    const response = answer(call) ?? Response.json({});
    calls.push(call);
    for (const check of waiting) check();
    return response;
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    calls,
    until: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (calls.length < count) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
