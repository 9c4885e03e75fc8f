import { HttpError } from "../core/mod.ts";
import { type BodyReader, bodyReader } from "../core/body_reader.ts";
import { Timeouts } from "../core/timeouts.ts";
import { type BodyBudget, type BodyShare, overloaded, type ReservedRoom } from "./body_budget.ts";
import { invalidBody } from "./readers.ts";

/** Body that was read. Its bytes count in the budget until it is closed. */
export class HeldBody {
  /** Bytes as they were sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its share of the budget; undefined if none counts it. */
  readonly share: BodyShare | ReservedRoom | undefined;
  /** Budget that its share is of, for work on a copy. */
  readonly budget: BodyBudget | undefined;
  #holder: Promise<unknown> | undefined;

  constructor(
    bytes: Uint8Array<ArrayBuffer>,
    share?: BodyShare | ReservedRoom,
    budget?: BodyBudget,
  ) {
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
    if (!this.#holder) return share.close();
    const close = () => share.close();
    this.#holder.then(close, close);
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
 * @param options The limits: the largest body, in bytes, and the time in which it must have arrived, in
 * milliseconds, 10,000 by default.
 * @returns The bytes as they were sent.
 * @throws {HttpError} 413 `BODY_TOO_LARGE` if it is larger; 408 `BODY_TIMEOUT` if it takes longer, or
 * comes in over 1,024 pieces of less than 256 bytes on average; 400 `INVALID_BODY` if it ends early.
 * @category Steps of an intake
 */
export async function readBody(
  request: Request,
  options: { readonly maxBytes: number; readonly timeoutMs?: number | undefined },
): Promise<Uint8Array<ArrayBuffer>> {
  const { maxBytes, timeoutMs = 10_000 } = options;
  return (await readStream(new Timeouts(timeoutMs), request, maxBytes)).bytes;
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
 * @throws {HttpError} As {@linkcode readBody}; 503 `OVERLOADED` if the budget evicts it.
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
async function readWhole(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  room: ReservedRoom,
): Promise<HeldBody> {
  const reading = request.arrayBuffer();
  try {
    const buffer = await timeouts.limit(reading, timedOut);
    if (buffer.byteLength > maxBytes) throw tooLarge(maxBytes);
    room.arrived();
    return new HeldBody(new Uint8Array(buffer), room);
  } catch (error) {
    const close = () => room.close();
    reading.then(close, close);
    throw error instanceof HttpError ? error : endedEarly();
  }
}

async function readStream(
  timeouts: Timeouts,
  request: Request,
  maxBytes: number,
  budget?: BodyBudget,
): Promise<HeldBody> {
  if (!request.body) return new HeldBody(new Uint8Array());
  const reader = bodyReader(request.body);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  const share = budget?.open(reader.cancel);
  const collecting = collect(reader, chunks, maxBytes, share);
  try {
    return new HeldBody(await timeouts.limit(collecting, timedOut), share, budget);
  } catch (error) {
    // What is collected counts until the cancel below has ended the reading.
    const close = () => share?.close();
    collecting.then(close, close);
    chunks.length = 0;
    // Deno reads on after a cancel, and 30 MB of such pieces took it seconds: they are left unread.
    if (!(error instanceof SmallPiecesError)) reader.cancel();
    throw error instanceof HttpError ? error : endedEarly();
  }
}

/**
 * Checks a request's declarations about its body, before any of it is read.
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

/** A buffer is at most twice as large as the bytes that came: a sender of little gets little. */
function bufferBytesAfter(received: number): number {
  return Math.min(Math.max(2 * received, MIN_BUFFER_BYTES), MAX_BUFFER_BYTES);
}

async function collect(
  reader: BodyReader,
  chunks: Uint8Array<ArrayBuffer>[],
  maxBytes: number,
  share: BodyShare | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  let size = 0;
  for (;;) {
    const chunk = await reader.read(bufferBytesAfter(size));
    if (share?.isEvicted) throw overloaded();
    if (!chunk) return join(chunks);
    size += chunk.byteLength;
    if (!(size <= maxBytes)) throw tooLarge(maxBytes);
    chunks.push(compact(chunk));
    if (chunks.length > MANY_PIECES && size < chunks.length * PIECE_BYTES) {
      throw new SmallPiecesError();
    }
    share?.add(chunk.byteLength);
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
