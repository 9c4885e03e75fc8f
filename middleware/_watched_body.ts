import type { Context } from "@hono/hono";

/** Text, JSON and HTML come whole, as `c.text()` and the like make them, unless something says else. */
const WHOLE = /^(?:text\/(?:plain|html)|application\/json)\b/;

/** Headers of a response that is handed on from `fetch`, or written piece by piece. */
const FROM_ELSEWHERE = ["Transfer-Encoding", "Content-Length", "Date"];

/**
 * A response that broke off after its head was sent. `createLogger` has logged it: the `onError` of
 * `Deno.serve`, which Deno 2.9 calls with it, has nothing to say any more.
 */
export class BrokenBodyError extends Error {
  /** The class's name. */
  override readonly name = "BrokenBodyError";
}

/**
 * Whether a response's body may be a stream. To look at `body` would tell nothing, and make one of every
 * text: Deno then sends it in 3 µs more.
 */
export function mayStream({ headers }: Response): boolean {
  return !WHOLE.test(headers.get("Content-Type") ?? "") ||
    FROM_ELSEWHERE.some((name) => headers.has(name));
}

/**
 * Watches a response on its way to the client. Deno itself does not tell: its `completed` resolves for
 * streams that broke (2.9) and for texts that nobody took, and `request.signal` costs 13 µs a request.
 *
 * @param c The context of the request, whose response is ready.
 * @param onEnd Told once if the response is not sent to its end: the error of its stream, or nothing
 * when the client was gone.
 */
export function watchBody(c: Context, onEnd: (error?: unknown) => void): void {
  const { res } = c;
  if (res.body === null) return;
  const { status, statusText, headers } = res;
  const reader = res.body.getReader();
  let gone = false;
  let ending: ReturnType<typeof setTimeout> | undefined;
  const watched = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        // Until the next turn Deno 2.9 does not tell that there is nobody to send to.
        await new Promise((resolve) => ending = setTimeout(resolve, 0));
        controller.close();
      } catch (cause) {
        if (gone) return;
        onEnd(cause ?? new Error("The stream gave no reason"));
        controller.error(new BrokenBodyError("The response broke off", { cause }));
      }
    },
    cancel(reason) {
      gone = true;
      clearTimeout(ending);
      onEnd();
      return reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
  c.res = undefined; // Hono would merge the headers with themselves.
  c.res = new Response(watched, { status, statusText, headers });
}
