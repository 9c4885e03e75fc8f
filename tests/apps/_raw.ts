/** A signature of the right form that is wrong: what an attacker can send. */
export const FORGED = { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` };

const encoder = new TextEncoder();

/** Connects to an app, and sends the head of a delivery. */
export async function connect(
  app: { readonly url: string | Promise<string> },
  headers: Readonly<Record<string, string>>,
): Promise<Deno.TcpConn> {
  const { hostname, port } = new URL(await app.url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const lines = Object.entries({ Host: "localhost", ...headers }).map(([name, value]) =>
    `${name}: ${value}\r\n`
  );
  await writeAll(connection, encoder.encode(`POST /webhook HTTP/1.1\r\n${lines.join("")}\r\n`));
  return connection;
}

/** Writes bytes, again and again; returns how often it could. */
export async function pour(
  connection: Deno.TcpConn,
  bytes: Uint8Array,
  times: number,
): Promise<number> {
  for (let i = 0; i < times; i++) {
    try {
      await writeAll(connection, bytes);
    } catch {
      return i; // The app has closed the connection.
    }
  }
  return times;
}

/** Reads the status of the response; undefined if the connection ends without one. */
export async function statusOf(connection: Deno.TcpConn): Promise<number | undefined> {
  const buffer = new Uint8Array(4096);
  const count = await connection.read(buffer).catch(() => null);
  if (count === null) return undefined;
  return Number(new TextDecoder().decode(buffer.subarray(9, 12)));
}

async function writeAll(connection: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let offset = 0; offset < bytes.byteLength;) {
    offset += await connection.write(bytes.subarray(offset));
  }
}
