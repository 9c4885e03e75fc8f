/** Place, in the bindings of a request, of the note that its body is given up. */
const UNREAD = Symbol("unread body");

/** Time that the answer gets to be sent, in milliseconds. */
const SEND_MS = 100;

/** Error that ends the stream of a request whose body was given up. The app has not failed. */
export class UnreadBodyError extends Error {
  /** Name of the class. */
  override readonly name = "UnreadBodyError";

  /** Creates the error. */
  constructor() {
    super("The request was answered before its body had come");
    // A server without `onError` prints it, and this says all.
    this.stack = `${this.name}: ${this.message}`;
  }
}

/**
 * Notes that a request is answered while its body is still being read: {@linkcode endUnread} then ends it.
 *
 * @param bindings The request's bindings, `c.env`.
 */
export function markUnread(bindings: object | undefined): void {
  if (bindings) Object.assign(bindings, { [UNREAD]: true });
}

/**
 * Ends a request whose body was given up, for any sender. Deno cannot stop reading a part of a body
 * that does not come: what it holds is held as long as the sender likes. Over HTTP/2 a response that breaks
 * off resets its stream, and that ends the reading. The response has its length and all of its bytes by then.
 * Over HTTP/1.1 nothing changes: a response ends with its length.
 *
 * @param response The response.
 * @param bindings The request's bindings.
 * @returns The response to send.
 */
export function endUnread(response: Response, bindings: object): Response | Promise<Response> {
  return UNREAD in bindings ? breakingOff(response) : response;
}

async function breakingOff(response: Response): Promise<Response> {
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  const content = new Uint8Array(await response.arrayBuffer());
  headers.set("Content-Length", String(content.byteLength));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(content);
      timer = setTimeout(() => controller.error(new UnreadBodyError()), SEND_MS);
    },
    cancel: () => clearTimeout(timer),
  });
  return new Response(body, { status, statusText, headers });
}
