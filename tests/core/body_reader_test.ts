import { assertEquals, assertRejects } from "@std/assert";
import { bodyReader } from "../../core/body_reader.ts";
import { testWith } from "../_permissions.ts";

/** Streams of bytes, and others: how they take their first chunks. */
const SOURCES = {
  bytes: (chunks: readonly string[]) => {
    const left = chunks.map((chunk) => new TextEncoder().encode(chunk));
    return new ReadableStream({
      type: "bytes",
      pull(controller) {
        const next = left.shift();
        if (next) controller.enqueue(next);
        if (left.length === 0) controller.close();
        controller.byobRequest?.respond(0);
      },
    }) as ReadableStream<Uint8Array<ArrayBuffer>>;
  },
  chunks: (chunks: readonly string[]) =>
    ReadableStream.from(chunks.map((chunk) => new TextEncoder().encode(chunk))),
};

/** Reads a body to its end. */
async function textOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  const reader = bodyReader(body);
  let text = "";
  for (let chunk = await reader.read(4); chunk; chunk = await reader.read(4)) {
    text += new TextDecoder().decode(chunk);
  }
  return text;
}

for (const [name, source] of Object.entries(SOURCES)) {
  Deno.test(`bodyReader() reads a stream of ${name} to its end`, async () => {
    assertEquals(await textOf(source(["a", "bcdefghijk", "l"])), "abcdefghijkl");
    assertEquals(await textOf(source(["abcd", "efgh"])), "abcdefgh");
  });
}

Deno.test("bodyReader() ends a read that waits when the body is given up", async () => {
  const never = () => new Promise<void>(() => {});
  const streams = [
    new ReadableStream({ pull: never }),
    new ReadableStream({ type: "bytes", pull: never }),
  ];
  for (const stream of streams) {
    const reader = bodyReader(stream);
    const read = reader.read(4);
    reader.cancel();
    assertEquals(await read, undefined);
  }
});

Deno.test("bodyReader() throws what the stream fails with", async () => {
  const fail = () => Promise.reject(new Error("gone"));
  const streams = [
    new ReadableStream({ pull: fail }),
    new ReadableStream({ type: "bytes", pull: fail }),
  ];
  for (const stream of streams) {
    await assertRejects(() => bodyReader(stream).read(4), Error, "gone");
  }
});

testWith(["net"], "bodyReader() reads a request with buffers of its own", async () => {
  const sizes: number[] = [];
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  await using server = Deno.serve(options, async ({ body }) => {
    const reader = bodyReader(body!);
    let size = 0;
    for (let chunk = await reader.read(1_024); chunk; chunk = await reader.read(1_024)) {
      sizes.push(chunk.buffer.byteLength);
      size += chunk.byteLength;
    }
    return new Response(String(size));
  });
  const init = { method: "POST", body: "x".repeat(5_000) };
  const response = await fetch(`http://127.0.0.1:${server.addr.port}/`, init);
  assertEquals(await response.text(), "5000");
  assertEquals(new Set(sizes), new Set([1_024]));
});
