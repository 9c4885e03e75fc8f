import { assert, assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { Timeouts } from "../../core/timeouts.ts";
import { BodyBudget } from "../../webhook/body_budget.ts";
import { readBodyWithin } from "../../webhook/read_body.ts";
import { testWith } from "../_permissions.ts";

const encoder = new TextEncoder();

/** Has a server read bodies within 100 ms, of a limit of 1,000 bytes. */
function serve(budget: BodyBudget) {
  const timeouts = new Timeouts(100);
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    async (request) => {
      try {
        const body = await readBodyWithin(timeouts, request, 1_000, budget);
        body.close();
        return new Response(`${body.bytes.byteLength} bytes.`);
      } catch (error) {
        assert(error instanceof HttpError);
        return new Response(`${error.code}.`, { status: error.status });
      }
    },
  );
  return { port: server.addr.port, [Symbol.asyncDispose]: () => server.shutdown() };
}

/** Sends bytes, and reads up to the full stop that ends each answer. */
async function exchange(port: number, ...sent: string[]) {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  for (const part of sent) await connection.write(encoder.encode(part));
  const buffer = new Uint8Array(4096);
  let answer = "";
  while (!answer.endsWith(".")) {
    const count = await connection.read(buffer);
    if (count === null) break;
    answer += new TextDecoder().decode(buffer.subarray(0, count));
  }
  return { answer, connection };
}

const head = (framing: string) => `POST / HTTP/1.1\r\nHost: localhost\r\n${framing}\r\n\r\n`;

/** Waits until a budget holds so much. */
async function untilHeld(budget: BodyBudget, bytes: number): Promise<void> {
  while (budget.bytes !== bytes) await new Promise((resolve) => setTimeout(resolve, 1));
}

testWith(
  ["net"],
  "readBodyWithin() reads a small body in one piece, and gives its room back",
  async () => {
    const budget = new BodyBudget(10_000);
    await using server = serve(budget);
    const { answer, connection } = await exchange(
      server.port,
      head("Content-Length: 4"),
      "ab",
      "cd",
    );
    connection.close();
    assert(answer.endsWith("\r\n\r\n4 bytes."), answer);
    assertEquals(budget.bytes, 0);
  },
);

testWith(
  ["net"],
  "readBodyWithin() rejects with 408, and holds the room until the peer has gone",
  async () => {
    const budget = new BodyBudget(10_000);
    await using server = serve(budget);
    const { answer, connection } = await exchange(server.port, head("Content-Length: 500"), "ab");
    assert(answer.endsWith("BODY_TIMEOUT."), answer);
    assertEquals(budget.bytes, 500);
    connection.close();
    await untilHeld(budget, 0);
  },
);

testWith(
  ["net"],
  "readBodyWithin() reads by the stream where an eighth of the budget is set aside",
  async () => {
    const budget = new BodyBudget(4_000);
    await using server = serve(budget);
    const slow = await exchange(server.port, head("Content-Length: 400"), "ab");
    assertEquals(budget.bytes, 400);
    const other = await exchange(server.port, head("Content-Length: 400"), "ab");
    assert(other.answer.endsWith("BODY_TIMEOUT."), other.answer);
    // What is read by its stream is given up for good.
    assertEquals(budget.bytes, 400);
    for (const { connection } of [slow, other]) connection.close();
    await untilHeld(budget, 0);
  },
);

testWith(
  ["net"],
  "readBodyWithin() gives the room back of a peer that is gone in mid-body",
  async () => {
    const budget = new BodyBudget(100_000);
    await using server = serve(budget);
    for (let i = 0; i < 20; i++) {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
      await connection.write(encoder.encode(`${head("Content-Length: 500")}ab`));
      connection.close();
    }
    const { answer, connection } = await exchange(server.port, head("Content-Length: 2"), "ab");
    connection.close();
    assert(answer.endsWith("2 bytes."), answer);
    await untilHeld(budget, 0);
  },
);

Deno.test("readBodyWithin() does not go by a length beside chunks", async () => {
  const budget = new BodyBudget(10_000);
  const read = (headers: HeadersInit) => {
    const request = new Request("http://localhost/", { method: "POST", body: "abc", headers });
    return readBodyWithin(new Timeouts(1_000), request, 1_000, budget);
  };
  const whole = read({ "Content-Length": "3" });
  assertEquals(budget.bytes, 3);
  const streamed = read({ "Content-Length": "3", "Transfer-Encoding": "chunked" });
  assertEquals(budget.bytes, 3);
  const bodies = await Promise.all([whole, streamed]);
  assertEquals([bodies.map(({ bytes }) => bytes.byteLength), budget.bytes], [[3, 3], 6]);
  for (const body of bodies) body.close();
  assertEquals(budget.bytes, 0);
});

Deno.test("readBodyWithin() rejects with 413 for a body over the limit, whatever is declared", async () => {
  const budget = new BodyBudget(10_000);
  const request = new Request("http://localhost/", {
    method: "POST",
    body: "a".repeat(1_001),
    headers: { "Content-Length": "2" },
  });
  const reading = readBodyWithin(new Timeouts(1_000), request, 1_000, budget);
  const { status } = await assertRejects(() => reading, HttpError);
  assertEquals([status, budget.bytes], [413, 0]);
});

Deno.test("BodyBudget sets aside no more than an eighth of it, and evicts others for that", () => {
  const budget = new BodyBudget(4_000);
  const evicted: string[] = [];
  const share = budget.open(() => evicted.push("streamed"));
  share.add(3_600);
  const first = budget.reserve(400);
  assertEquals([evicted, budget.reserve(101)], [[], null]);
  const second = budget.reserve(100);
  assertEquals([evicted, share.isEvicted, budget.bytes], [["streamed"], true, 500]);
  for (const room of [first, second]) room!.close();
  assertEquals(budget.bytes, 0);
});
