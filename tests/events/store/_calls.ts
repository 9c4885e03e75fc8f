import { Buffer } from "node:buffer";
import { deserialize, serialize } from "node:v8";
import type { EventStore } from "../../../events/mod.ts";

/** A call of a store in another process. */
export interface Call {
  readonly id: number;
  readonly method: keyof EventStore | "open" | "close";
  readonly args: unknown[];
}

/** Result of a call: its value or its error. */
export interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly name: string; readonly message: string };
}

const encoder = new TextEncoder();

/** Writes a value as a line. JSON has neither bytes nor `undefined`, which stores take and return. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return encoder.encode(`${serialize(value).toString("base64")}\n`);
}

/** Reads a value from its line. */
export function decode(line: string): unknown {
  // A copy: Deno 2.5 reads bytes at the wrong place of a buffer that is part of another.
  return deserialize(Uint8Array.from(Buffer.from(line, "base64")));
}

/** Splits a stream into lines. */
export async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let parts: string[] = [];
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const [first, ...others] = text.split("\n");
    parts.push(first!);
    for (const next of others) {
      yield parts.join("");
      parts = [next];
    }
  }
}
