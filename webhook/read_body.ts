import { HttpError } from "../middleware/mod.ts";

/** Options of {@linkcode readBody}. */
export interface ReadBodyOptions {
  /** How many bytes are taken at most. */
  readonly maxBytes: number;
  /**
   * Within how many milliseconds the body must have arrived.
   *
   * @default {10_000}
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * Reads a request's body, bounded in size and time. No more than the limit is ever held, whatever
 * length is declared: {@linkcode checkDeclaredBody} looks at that.
 *
 * @param request The request.
 * @param options The bounds.
 * @returns The bytes as they were sent.
 * @throws {HttpError} 413 `BODY_TOO_LARGE` if it is larger; 408 `BODY_TIMEOUT` if it takes longer; 400
 * `INVALID_BODY` if it ends early.
 */
export async function readBody(
  request: Request,
  options: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { maxBytes, timeoutMs = 10_000 } = options;
  if (!request.body) return new Uint8Array();
  const reader = request.body.getReader();
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => deadline.reject(timedOut()), timeoutMs);
  try {
    return await Promise.race([collect(reader, maxBytes), deadline.promise]);
  } catch (error) {
    reader.cancel().catch(() => {});
    if (error instanceof HttpError) throw error;
    throw new HttpError(400, "Body ended early", { code: "INVALID_BODY" });
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Checks what a request declares of its body, before any of it is read.
 *
 * @param headers The request's headers.
 * @param maxBytes How many bytes are taken at most.
 * @throws {HttpError} 413 `BODY_TOO_LARGE` if it is declared larger; 415 `UNSUPPORTED_MEDIA_TYPE` if it
 * is compressed.
 */
export function checkDeclaredBody(headers: Headers, maxBytes: number): void {
  const encoding = headers.get("Content-Encoding");
  if (encoding !== null && encoding.trim().toLowerCase() !== "identity") {
    throw new HttpError(415, "Unsupported content encoding", {
      code: "UNSUPPORTED_MEDIA_TYPE",
      headers: { "Accept-Encoding": "identity" },
    });
  }
  if (!(Number(headers.get("Content-Length") ?? 0) <= maxBytes)) throw tooLarge(maxBytes);
}

async function collect(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return join(chunks, size);
    size += value.byteLength;
    if (!(size <= maxBytes)) throw tooLarge(maxBytes);
    chunks.push(value);
  }
}

function join(chunks: Uint8Array<ArrayBuffer>[], size: number): Uint8Array<ArrayBuffer> {
  if (chunks.length === 1) return chunks[0]!;
  const body = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    body.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return body;
}

function tooLarge(maxBytes: number): HttpError {
  return new HttpError(413, `Body larger than ${maxBytes} bytes`, { code: "BODY_TOO_LARGE" });
}

function timedOut(): HttpError {
  return new HttpError(408, "Body not received in time", { code: "BODY_TIMEOUT" });
}
