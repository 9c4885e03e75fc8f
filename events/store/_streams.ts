/** A line of a stream, of which no more than one line and one chunk are in memory. */
export interface Line {
  /** Its number, from 1. */
  readonly number: number;
  /** Its bytes without the line break; null if it is too long, and was passed over. */
  readonly bytes: Uint8Array | null;
}

/** The number of items in work at the same time. */
const CONCURRENCY = 32;

/** The bytes of these items, at most, unless it is one alone. */
const MAX_BYTES = 8_388_608;

const LINE_FEED = 10;

const encoder = new TextEncoder();

/** Does something with items, several at the same time, and yields the results in their order. */
export async function* inOrder<T, R>(
  items: AsyncIterable<T>,
  sizeOf: (item: T) => number,
  run: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const running: { readonly result: Promise<R>; readonly size: number }[] = [];
  let bytes = 0;
  const take = () => {
    const { result, size } = running.shift()!;
    bytes -= size;
    return result;
  };
  try {
    for await (const item of items) {
      const size = sizeOf(item);
      const isFull = () => running.length >= CONCURRENCY || bytes + size > MAX_BYTES;
      while (running.length > 0 && isFull()) yield await take();
      const result = run(item);
      // It is thrown in its turn, and another one may be thrown before.
      result.catch(() => {});
      running.push({ result, size });
      bytes += size;
    }
    while (running.length > 0) yield await take();
  } finally {
    await Promise.allSettled(running.map(({ result }) => result));
  }
}

/**
 * Splits a stream into lines, whatever its chunks are.
 *
 * @param chunks The stream.
 * @param maxBytes The largest line.
 */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array | string>,
  maxBytes: number,
): AsyncGenerator<Line> {
  let number = 1;
  let [parts, size]: [Uint8Array[], number] = [[], 0];
  const add = (part: Uint8Array) => {
    size += part.byteLength;
    if (size > maxBytes) parts = [];
    else if (part.byteLength > 0) parts.push(part);
  };
  for await (const chunk of chunks) {
    let rest = typeof chunk === "string" ? encoder.encode(chunk) : chunk;
    for (let end; (end = rest.indexOf(LINE_FEED)) >= 0; rest = rest.subarray(end + 1)) {
      add(rest.subarray(0, end));
      yield { number: number++, bytes: size > maxBytes ? null : joined(parts, size) };
      [parts, size] = [[], 0];
    }
    // A copy: the stream may use its buffer again.
    add(rest.slice());
  }
  if (size > 0) yield { number, bytes: size > maxBytes ? null : joined(parts, size) };
}

/**
 * Reads a source until a signal, also while it waits for more.
 *
 * @param source The source.
 * @param signal The signal.
 */
export async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  if (!signal) return yield* source;
  const iterator = source[Symbol.asyncIterator]();
  let isEnded = false;
  try {
    while (!signal.aborted) {
      const next = await orAborted(iterator.next(), signal);
      isEnded = next?.done ?? false;
      if (!next || next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited after a signal: it ends no sooner than what is waited for.
    const returned = isEnded ? undefined : iterator.return?.();
    if (signal.aborted) returned?.catch(() => {});
    else await returned;
  }
}

/** Waits for a value; undefined if the signal comes first. */
function orAborted<T>(value: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const end = () => resolve(undefined);
    signal.addEventListener("abort", end, { once: true });
    value.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const line = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    line.set(part, at);
    at += part.byteLength;
  }
  return line;
}
