import type { Context } from "@hono/hono";

/** Types of responses that are sent whole, as `c.text()` and the like make them. */
const WHOLE = /^(?:text\/(?:plain|html)|application\/json)\b/;

/** Headers of a response that comes from `fetch`, or is written piece by piece. */
const FROM_ELSEWHERE = ["Transfer-Encoding", "Content-Length", "Date"];

/** Real timers, also in a test that fakes them: a slow response would wait for a fake turn forever. */
const { setTimeout, clearTimeout } = globalThis;

/**
 * Response that broke off after its headers were sent. `createLogger` has logged it already when Deno 2.9
 * calls the `onError` of `Deno.serve` with it.
 */
export class BrokenBodyError extends Error {
  /** Name of the class. */
  override readonly name = "BrokenBodyError";
}

/**
 * Tells whether the body of a response may be a stream. Reading `body` would not tell, and would turn
 * every text into a stream, which takes Deno 3 µs longer to send.
 */
export function mayStream({ headers }: Response): boolean {
  return !WHOLE.test(headers.get("Content-Type") ?? "") ||
    FROM_ELSEWHERE.some((name) => headers.has(name));
}

/**
 * Watches a response on its way to the client. Deno does not report failures: its `completed` resolves for
 * streams that broke (2.9) and for texts that nobody read, and `request.signal` costs 13 µs per request.
 *
 * @param c The context of the request, whose response is ready.
 * @param onEnd A function that is called once if the response is not sent to its end: with the error of
 * the stream, or with nothing if the client has gone.
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
        // Deno 2.9 reports only in the next turn that the client has gone.
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
