import { HttpError } from "../core/mod.ts";
import { Timeouts } from "../core/timeouts.ts";
import { type BodyBudget, type BodyShare, overloaded, type ReservedRoom } from "./body_budget.ts";
import { invalidBody } from "./platforms/readers.ts";

/**
 * Options of {@linkcode readBody}.
 *
 * @category Steps of an intake
 */
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

/** A body that was read. Its bytes count in the budget until it is closed. */
export class HeldBody {
  /** The bytes as they were sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its share of the budget; undefined if none counts it. */
  readonly share: BodyShare | undefined;
  /** Budget that its share is of. */
  readonly budget: BodyBudget | undefined;
  #holder: Promise<unknown> | undefined;

  /**
   * @param bytes The bytes as they were sent.
   * @param share Its share of the budget.
   * @param budget The budget.
   */
  constructor(bytes: Uint8Array<ArrayBuffer>, share?: BodyShare, budget?: BodyBudget) {
    this.bytes = bytes;
    this.share = share;
    this.budget = budget;
  }

  /**
   * Notes that somebody holds the body until a promise settles, even if it is closed before.
   *
   * @param settled The promise.
   * @returns The same promise.
   */
  holdUntil<T>(settled: Promise<T>): Promise<T> {
    this.#holder = settled;
    return settled;
  }

  /** Returns the bytes to the budget, at once or when the holder's promise settles. */
  close(): void {
    const { share } = this;
    if (!share) return;
    const close = () => share.close();
    if (this.#holder) this.#holder.then(close, close);
    else close();
  }
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
 * Smallest and largest buffer that a part of a body is read into. Left to itself, Deno waits for each part with
 * one of 64 KiB: 10,000 bodies of which a byte had come took 1 GB.
 */
const MIN_BUFFER_BYTES = 4_096;
const MAX_BUFFER_BYTES = 65_536;

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
 * @category Steps of an intake
 */
export function readBody(
  request: Request,
  options: ReadBodyOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const { maxBytes, timeoutMs = 10_000, budget } = options;
  return readStream(new Timeouts(timeoutMs), request, maxBytes, budget).then((body) => {
    body.close();
    return body.bytes;
  });
}

/**
 * Reads a request's body for an intake, as {@linkcode readBody} does. A small body of a declared length is
 * read in one piece: that relies on the server to take no more bytes than were declared.
 *
 * @param timeouts The time in which it must have arrived.
 * @param request The request.
 * @param maxBytes The largest body, in bytes.
 * @param budget Limits the bytes that this body and others hold together.
 * @returns The body, to be closed once it has been used.
 * @throws {HttpError} As {@linkcode readBody}.
 */
export function readBodyWithin(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  budget: BodyBudget,
): Promise<HeldBody> {
  const bytes = smallLengthOf(request.headers);
  const room = bytes === undefined ? null : budget.reserve(bytes);
  if (room) return readWhole(timeouts, request, maxBytes, room);
  return readStream(timeouts, request, maxBytes, budget);
}

/** The declared length of a body; undefined unless it is small. */
function smallLengthOf(headers: Headers): number | undefined {
  const declared = headers.get("Content-Length");
  if (declared === null || headers.has("Transfer-Encoding")) return undefined;
  const length = declaredLength(declared);
  return length >= 0 && length <= WHOLE_BYTES ? length : undefined;
}

/** Reads a body in one piece. That cannot be aborted: a late body holds its room until the peer has gone. */
function readWhole(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  { arrived, release }: ReservedRoom,
): Promise<HeldBody> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const timeout = timeouts.start(() => {
      isLate = true;
      reject(timedOut());
    });
    const fail = (error: HttpError) => {
      arrived();
      release();
      reject(error);
    };
    request.arrayBuffer().then((buffer) => {
      timeout.cancel();
      arrived();
      if (isLate) return release();
      if (buffer.byteLength > maxBytes) return fail(tooLarge(maxBytes));
      // A body with reserved room is not evicted, and a small one need not wait.
      const share = { isEvicted: false, add: doNothing, keep: doNothing, close: release };
      resolve(new HeldBody(new Uint8Array(buffer), share));
    }, () => {
      timeout.cancel();
      fail(endedEarly());
    });
  });
}

function doNothing(): undefined {}

async function readStream(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  budget: BodyBudget | undefined,
): Promise<HeldBody> {
  if (!request.body) return new HeldBody(new Uint8Array());
  const { read, cancel } = readerOf(request.body);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  // Not `Promise.withResolvers`: this also runs on Node 20.
  let reject!: (reason: HttpError) => void;
  const tooSlow = new Promise<never>((_resolve, fail) => reject = fail);
  const timeout = timeouts.start(() => reject(timedOut()));
  const share = budget?.open(cancel);
  const collecting = collect(read, chunks, maxBytes, share);
  try {
    return new HeldBody(await Promise.race([collecting, tooSlow]), share, budget);
  } catch (error) {
    // What is collected counts until the cancel below has ended the reading.
    const close = () => share?.close();
    collecting.then(close, close);
    chunks.length = 0;
    // Deno reads on after a cancel, and 30 MB of such pieces took it seconds: they are left unread.
    if (!(error instanceof SmallPiecesError)) cancel();
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
 * @category Steps of an intake
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

/** Reader of a body. */
interface BodyReader {
  /** Reads the next part. The buffer for it depends on the number of bytes that have come. */
  readonly read: (received: number) => Promise<ReadResult>;
  /** Stops reading. */
  readonly cancel: () => void;
}

type ReadResult = { readonly done: boolean; readonly value?: Uint8Array<ArrayBuffer> | undefined };

/** Reads a stream into buffers of its own. A body that has come already, or is JavaScript's, has its own chunks. */
function readerOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): BodyReader {
  const byob = byobReaderOf(stream);
  if (byob) {
    return {
      read: (received) => byob.read(new Uint8Array(bufferBytesAfter(received))),
      cancel: () => void byob.cancel().catch(() => {}),
    };
  }
  const reader = stream.getReader();
  return { read: () => reader.read(), cancel: () => void reader.cancel().catch(() => {}) };
}

function byobReaderOf(stream: ReadableStream): ReadableStreamBYOBReader | undefined {
  try {
    return stream.getReader({ mode: "byob" });
  } catch {
    return undefined;
  }
}

/** A buffer is at most twice as large as what has come: who sends little is given little. */
function bufferBytesAfter(received: number): number {
  return Math.min(Math.max(2 * received, MIN_BUFFER_BYTES), MAX_BUFFER_BYTES);
}

async function collect(
  read: BodyReader["read"],
  chunks: Uint8Array<ArrayBuffer>[],
  maxBytes: number,
  share: BodyShare | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  let size = 0;
  for (;;) {
    const { done, value } = await read(size);
    if (share?.isEvicted) throw overloaded();
    if (done || !value) return join(chunks);
    size += value.byteLength;
    if (!(size <= maxBytes)) throw tooLarge(maxBytes);
    chunks.push(compact(value));
    if (chunks.length > MANY_PIECES && size < chunks.length * PIECE_BYTES) {
      throw new SmallPiecesError();
    }
    share?.add(value.byteLength);
  }
}

/**
 * Copies a chunk that is a small part of its buffer: 100 KB that came a few hundred bytes at a time, each in a
 * buffer of 64 KiB, held 26 MB.
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
