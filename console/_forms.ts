import type { Context } from "@hono/hono";
import { type BodyReader, bodyReader } from "../core/body_reader.ts";
import { ParameterError } from "./_query.ts";
import { FORM_TIMEOUT_MS } from "./_session.ts";
import { Refusal } from "./_visit.ts";

/** Most forms that are read at the same time. */
const MAX_READ = 32;

/** Bytes that are read at a time. */
const BUFFER_BYTES = 4_096;

/**
 * Reader of forms, a few at a time. A form that is being read takes memory, however little of it has come. One
 * beyond the largest number takes the place of the oldest, so that forms that stand still keep nobody else's out:
 * a browser's arrives within milliseconds.
 */
export class Forms {
  /** Functions that give up a form that is being read, the oldest first. */
  readonly #read = new Set<(why: Refusal) => void>();

  /**
   * Reads a form.
   *
   * @param c The context.
   * @param maxBytes The largest size.
   * @returns The fields.
   * @throws {ParameterError} If it is no form, or too large.
   * @throws {Refusal} 408 if it does not arrive in time, 503 if it has to make room, 400 if it ends early.
   */
  async read(c: Context, maxBytes: number): Promise<URLSearchParams> {
    const type = c.req.header("Content-Type")?.split(";", 1)[0]?.trim().toLowerCase();
    if (type !== "application/x-www-form-urlencoded") {
      throw new ParameterError("the body is no form");
    }
    if (Number(c.req.header("Content-Length")) > maxBytes) throw tooLarge(maxBytes);
    const { body } = c.req.raw;
    if (!body) return new URLSearchParams();
    const reader = bodyReader(body);
    let why = new Refusal(400, "Cut off", "The form ended early. Try again.");
    let isGivenUp = false;
    const giveUp = (reason: Refusal) => {
      why = reason;
      isGivenUp = true;
      reader.cancel();
    };
    this.#makeRoom();
    this.#read.add(giveUp);
    const timer = setTimeout(() => giveUp(tooSlow()), FORM_TIMEOUT_MS);
    try {
      const bytes = await collect(reader, maxBytes).catch((error) => {
        throw error instanceof ParameterError ? error : why;
      });
      if (isGivenUp) throw why;
      return new URLSearchParams(new TextDecoder().decode(bytes));
    } finally {
      clearTimeout(timer);
      this.#read.delete(giveUp);
      reader.cancel();
    }
  }

  #makeRoom(): void {
    if (this.#read.size < MAX_READ) return;
    const [oldest] = this.#read;
    this.#read.delete(oldest!);
    oldest!(
      new Refusal(503, "Too busy", "Too many forms arrive at once. Try again.", {
        "Retry-After": "1",
      }),
    );
  }
}

async function collect(reader: BodyReader, maxBytes: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(maxBytes);
  let size = 0;
  for (;;) {
    const chunk = await reader.read(BUFFER_BYTES);
    if (!chunk) return bytes.subarray(0, size);
    if (size + chunk.length > maxBytes) throw tooLarge(maxBytes);
    bytes.set(chunk, size);
    size += chunk.length;
  }
}

const tooLarge = (maxBytes: number) =>
  new ParameterError(`the form has more than ${maxBytes} bytes`);

const tooSlow = () => new Refusal(408, "Too slow", "The form did not arrive in time. Try again.");
