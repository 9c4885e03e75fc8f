/** HTTP/2 by hand (RFC 9113, RFC 7541), for what no client would send. */

/** A header field, as it is to be sent. */
export type Field = readonly [name: string, value: string];

/** Answer to a stream, or to the whole connection, as the peer sees it. */
export type Answer = number | "reset" | "goaway" | "closed" | "open";

const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const TYPE = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7, window: 8, more: 9 };
const END_STREAM = 1;
const END_HEADERS = 4;

/** Time without an answer after which a stream counts as left open. */
const OPEN_MS = 1_000;

/** Huffman codes of the digits (RFC 7541, appendix B): 5 bits for 0 to 2, 6 bits for 3 to 9. */
const DIGITS = [
  "00000",
  "00001",
  "00010",
  ...Array.from({ length: 7 }, (_, i) => `0${(25 + i).toString(2)}`),
];

/** Characters as bytes. */
export const bytes = (text: string): number[] => [...text].map((each) => each.charCodeAt(0));

/** A frame. */
export function frame(
  type: keyof typeof TYPE | number,
  flags: number,
  stream: number,
  payload: readonly number[] = [],
): number[] {
  const code = typeof type === "number" ? type : TYPE[type];
  return [...uint(payload.length, 3), code, flags, ...uint(stream, 4), ...payload];
}

/** The frames of a request. */
export function request(stream: number, fields: readonly Field[], body?: string): number[] {
  const flags = END_HEADERS | (body === undefined ? END_STREAM : 0);
  const head = frame("headers", flags, stream, block(fields));
  return body === undefined ? head : [...head, ...frame("data", END_STREAM, stream, bytes(body))];
}

/** Header fields as literals without an index. */
export function block(fields: readonly Field[]): number[] {
  return fields.flatMap(([name, value]) => [0, ...string(name), ...string(value)]);
}

/** Opens a connection, sends frames, and reads until each stream is answered or the connection ends. */
export async function exchange2(
  port: number,
  frames: readonly number[],
  streams: number,
  openMs: number = OPEN_MS,
): Promise<Answer[]> {
  const answers = new Map<number, Answer>();
  for await (const next of received(port, frames, openMs)) {
    if (typeof next === "string") return [...answers.values(), next];
    if (next.type === TYPE.goaway) return [...answers.values(), "goaway"];
    if (next.type === TYPE.reset) answers.set(next.stream, answers.get(next.stream) ?? "reset");
    if (next.type === TYPE.headers) answers.set(next.stream, statusOf(next.payload));
    if (answers.size >= streams) break;
  }
  return [...answers.values()];
}

/** Opens a connection, sends frames, and reads until so many streams are reset: the data that came on each before. */
export async function resets2(
  port: number,
  frames: readonly number[],
  streams: number,
  openMs: number = OPEN_MS,
): Promise<string[]> {
  const texts = new Map<number, string>();
  const resets: string[] = [];
  for await (const next of received(port, frames, openMs)) {
    if (typeof next === "string") break;
    const { type, stream, payload } = next;
    const text = texts.get(stream) ?? "";
    if (type === TYPE.data) texts.set(stream, text + new TextDecoder().decode(payload));
    if (type === TYPE.reset) resets.push(text);
    if (resets.length >= streams) break;
  }
  return resets;
}

/** Opens a connection, sends frames, and reads those that come back, or how that ended. */
async function* received(port: number, frames: readonly number[], openMs: number) {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const sent = Uint8Array.from([...bytes(PREFACE), ...frame("settings", 0, 0), ...frames]);
  const writing = write(connection, sent);
  let rest = new Uint8Array();
  for (;;) {
    const part = await read(connection, openMs);
    if (typeof part === "string") {
      if (part === "closed") await writing;
      yield part;
      return;
    }
    rest = Uint8Array.from([...rest, ...part]);
    for (let next = first(rest); next; next = first(rest)) {
      rest = rest.slice(next.size);
      yield next;
    }
  }
}

function first(received: Uint8Array) {
  if (received.length < 9) return undefined;
  const view = new DataView(received.buffer, received.byteOffset);
  const size = 9 + (view.getUint32(0) >>> 8);
  if (received.length < size) return undefined;
  const payload = received.subarray(9, size);
  return { size, type: received[3]!, stream: view.getUint32(5), payload };
}

/** The status is the first field: in the static table, or a literal, plain or in Huffman's code. */
function statusOf(payload: Uint8Array): number {
  const [lead = 0, length = 0, ...more] = payload;
  if (lead >= 0x88 && lead <= 0x8e) return [200, 204, 206, 304, 400, 404, 500][lead - 0x88]!;
  const value = more.slice(0, length & 0x7f);
  if (length < 0x80) return Number(String.fromCharCode(...value));
  const bits = value.map((each) => each.toString(2).padStart(8, "0")).join("");
  return Number(digits(bits, 3));
}

function digits(bits: string, count: number): string {
  if (count === 0) return "";
  const digit = DIGITS.findIndex((code) => bits.startsWith(code));
  return `${digit}${digits(bits.slice(DIGITS[digit]?.length), count - 1)}`;
}

function string(text: string): number[] {
  const content = bytes(text);
  return [...integer(content.length), ...content];
}

/** An integer with a prefix of 7 bits. */
function integer(value: number): number[] {
  if (value < 127) return [value];
  const coded = [127];
  for (value -= 127; value >= 128; value >>>= 7) coded.push((value & 127) | 128);
  return [...coded, value];
}

function uint(value: number, size: number): number[] {
  return Array.from({ length: size }, (_, i) => (value >>> (8 * (size - 1 - i))) & 255);
}

async function read(
  connection: Deno.TcpConn,
  openMs: number,
): Promise<Uint8Array | "closed" | "open"> {
  const buffer = new Uint8Array(65_536);
  const late = Promise.withResolvers<"open">();
  const timer = setTimeout(() => late.resolve("open"), openMs);
  try {
    const reading = connection.read(buffer).catch(() => null);
    const count = await Promise.race([reading, late.promise]);
    if (count === "open") return count;
    return count === null ? "closed" : buffer.subarray(0, count);
  } finally {
    clearTimeout(timer);
  }
}

async function write(connection: Deno.TcpConn, sent: Uint8Array): Promise<void> {
  try {
    for (let offset = 0; offset < sent.byteLength;) {
      offset += await connection.write(sent.subarray(offset));
    }
  } catch {
    // The server has closed the connection.
  }
}
