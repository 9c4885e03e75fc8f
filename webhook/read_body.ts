import { HttpError } from "../core/mod.ts";
import { Timeouts } from "../core/timeouts.ts";
import { type BodyBudget, type BodyShare, overloaded } from "./body_budget.ts";
import { invalidBody } from "./platforms/readers.ts";

/** Options of {@linkcode readBody}. */
export interface ReadBodyOptions {
  /** Largest body, in bytes. */
  readonly maxBytes: number;
  /**
   * Time in which the body must have arrived, in milliseconds.
   *
   * @default {10_000}
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Limits the bytes that this body and others hold together.
   *
   * @default {undefined} Each body is limited on its own.
   */
  readonly budget?: BodyBudget | undefined;
}

/**
 * Largest body that is read in one piece: the published examples of forges are all smaller. Reading it
 * from its stream took 20 µs instead of 11, and the stream's code another 2 ms at the start.
 */
const WHOLE_BYTES = 32_768;

/**
 * Number of pieces above which they must have {@linkcode PIECE_BYTES} on average. Reading a piece takes 20 µs
 * whatever its size: 16 senders of one byte at a time kept all others waiting for 20 s. Networks deliver
 * packets of 500 bytes and more.
 */
const MANY_PIECES = 1_024;

/** Smallest average piece, in bytes. A slow sender's body comes packet by packet, and packets are larger. */
const PIECE_BYTES = 256;

/**
 * Reads a request's body, limited in size and time. It never holds more than the limit, whatever length
 * the request declares: {@linkcode checkDeclaredBody} checks that.
 *
 * @param request The request.
 * @param options The limits.
 * @returns The bytes as they were sent.
 * @throws {HttpError} 413 `BODY_TOO_LARGE` if it is larger; 408 `BODY_TIMEOUT` if it takes longer, or
 * comes in over 1,024 pieces of less than 256 bytes on average; 503 `OVERLOADED` if the budget evicts
 * it; 400 `INVALID_BODY` if it ends early.
 */
export function readBody(
  request: Request,
  options: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { maxBytes, timeoutMs = 10_000, budget } = options;
  return readStream(new Timeouts(timeoutMs), request, maxBytes, budget);
}

/**
 * Reads a request's body, as {@linkcode readBody} does, from a server that ensures that a body has the
 * declared length.
 *
 * @param timeouts The time in which it must have arrived.
 * @param request The request.
 * @param maxBytes The largest body, in bytes.
 * @param budget Limits the bytes that this body and others hold together.
 * @param hold Takes the share of a body that was read, to close it once nothing holds the body any more.
 * By default the share is closed at once.
 * @returns The body.
 * @throws {HttpError} As {@linkcode readBody}.
 */
export function readBodyWithin(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  budget: BodyBudget,
  hold: HoldBody = closeShare,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = smallLengthOf(request.headers);
  const release = bytes === undefined ? null : budget.reserve(bytes);
  if (release) return readWhole(timeouts, request, maxBytes, release, hold);
  return readStream(timeouts, request, maxBytes, budget, hold);
}

/** Takes the budget share of a body that was read. */
export type HoldBody = (share: BodyShare) => void;

const closeShare: HoldBody = (share) => share.close();

/** The declared length of a body; undefined unless it is small. */
function smallLengthOf(headers: Headers): number | undefined {
  const declared = headers.get("Content-Length");
  if (declared === null || headers.has("Transfer-Encoding")) return undefined;
  const length = declaredLength(declared);
  return length >= 0 && length <= WHOLE_BYTES ? length : undefined;
}

/** Reads a body in one piece. That cannot be aborted: its memory is held until the peer has gone. */
function readWhole(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  release: () => void,
  hold: HoldBody,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const timeout = timeouts.start(() => {
      isLate = true;
      reject(timedOut());
    });
    const fail = (error: HttpError) => {
      release();
      reject(error);
    };
    request.arrayBuffer().then((buffer) => {
      timeout.cancel();
      if (isLate) return release();
      if (buffer.byteLength > maxBytes) return fail(tooLarge(maxBytes));
      // A body with reserved room is not evicted, and a small one need not wait.
      hold({ isEvicted: false, add: () => {}, keep: () => undefined, close: release });
      resolve(new Uint8Array(buffer));
    }, () => {
      timeout.cancel();
      fail(endedEarly());
    });
  });
}

async function readStream(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  budget: BodyBudget | undefined,
  hold: HoldBody = closeShare,
): Promise<Uint8Array<ArrayBuffer>> {
  if (!request.body) return new Uint8Array();
  const reader = request.body.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  // Not `Promise.withResolvers`: this also runs on Node 20.
  let reject!: (reason: HttpError) => void;
  const tooSlow = new Promise<never>((_resolve, fail) => reject = fail);
  const timeout = timeouts.start(() => reject(timedOut()));
  let holdIfRead = hold;
  try {
    const collected = collect(reader, chunks, maxBytes, budget, (share) => holdIfRead(share));
    return await Promise.race([collected, tooSlow]);
  } catch (error) {
    // Cancelling the reader ends the reading as if the body were complete.
    holdIfRead = closeShare;
    chunks.length = 0;
    // Deno reads on after a cancel, and 30 MB of such pieces took it seconds: they are left unread.
    if (!(error instanceof SmallPiecesError)) reader.cancel().catch(() => {});
    if (error instanceof HttpError) throw error;
    throw endedEarly();
  } finally {
    timeout.cancel();
  }
}

/**
 * Checks what a request declares about its body, before any of it is read.
 *
 * @param headers The request's headers.
 * @param maxBytes The largest body, in bytes.
 * @throws {HttpError} 413 `BODY_TOO_LARGE` if it is declared larger; 415 `UNSUPPORTED_MEDIA_TYPE` if it
 * is compressed; 400 `INVALID_BODY` if its length is not a number, or is several.
 */
export function checkDeclaredBody(headers: Headers, maxBytes: number): void {
  const encoding = headers.get("Content-Encoding");
  if (encoding !== null && encoding.trim().toLowerCase() !== "identity") {
    throw new HttpError(415, "Unsupported content encoding", {
      code: "UNSUPPORTED_MEDIA_TYPE",
      headers: { "Accept-Encoding": "identity" },
    });
  }
  const length = declaredLength(headers.get("Content-Length") ?? "0");
  if (length > maxBytes) throw tooLarge(maxBytes);
  if (!(length >= 0)) throw invalidBody("Content-Length must be one number of bytes");
}

/** Reads a length. Equal lengths, which Deno's parser lets pass, count as one (RFC 9110, section 8.6). */
function declaredLength(value: string): number {
  const length = Number(value);
  if (!Number.isNaN(length)) return length;
  const [first, ...others] = value.split(",").map((each) => each.trim());
  return others.every((each) => each === first) ? Number(first) : NaN;
}

async function collect(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
  chunks: Uint8Array<ArrayBuffer>[],
  maxBytes: number,
  budget: BodyBudget | undefined,
  hold: HoldBody,
): Promise<Uint8Array<ArrayBuffer>> {
  let size = 0;
  const share = budget?.open(() => reader.cancel().catch(() => {}));
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (share?.isEvicted) throw overloaded();
      if (done) break;
      size += value.byteLength;
      if (!(size <= maxBytes)) throw tooLarge(maxBytes);
      chunks.push(compact(value));
      if (chunks.length > MANY_PIECES && size < chunks.length * PIECE_BYTES) {
        throw new SmallPiecesError();
      }
      share?.add(value.byteLength);
    }
  } catch (error) {
    share?.close();
    throw error;
  }
  if (share) hold(share);
  return join(chunks);
}

/**
 * Copies a chunk that is a small part of its buffer. Deno's chunks are parts of 64 KiB, however little
 * arrived in each: 100 KB that came a few hundred bytes at a time held 26 MB.
 */
function compact(chunk: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return chunk.byteLength < chunk.buffer.byteLength * 0.75 ? chunk.slice() : chunk;
}

function join(chunks: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  if (chunks.length === 1) return chunks[0]!;
  const body = new Uint8Array(chunks.reduce((size, { byteLength }) => size + byteLength, 0));
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

function endedEarly(): HttpError {
  return invalidBody("Body ended early");
}

class SmallPiecesError extends HttpError {
  constructor() {
    super(408, "Body comes in too small pieces", { code: "BODY_TIMEOUT" });
  }
}

function timedOut(): HttpError {
  return new HttpError(408, "Body not received in time", { code: "BODY_TIMEOUT" });
}
