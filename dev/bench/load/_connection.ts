const encoder = new TextEncoder();
const decoder = new TextDecoder("latin1");

/** The length of all ids, so that a request's bytes are laid out once. */
const ID_LENGTH = 17;

/** Parts of a request beside the body. */
export interface Target {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A connection that is kept open, with one request at a time. */
export class Connection {
  readonly #port: number;
  readonly #request: Uint8Array<ArrayBuffer>;
  readonly #idAt: number;
  readonly #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(4_096);
  #connection: Deno.TcpConn | undefined;

  constructor({ port, path, headers }: Target, body: Uint8Array) {
    this.#port = port;
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${lines.join("")}` +
      `Content-Length: ${body.length}\r\nX-GitHub-Delivery: `;
    this.#idAt = head.length;
    const headEnd = this.#idAt + ID_LENGTH;
    this.#request = new Uint8Array(headEnd + 4 + body.length);
    encoder.encodeInto(head, this.#request);
    encoder.encodeInto("\r\n\r\n", this.#request.subarray(headEnd));
    this.#request.set(body, headEnd + 4);
  }

  /** Sends a delivery under an id, and tells the status of the answer. */
  async exchange(id: string): Promise<number> {
    this.#connection ??= await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    encoder.encodeInto(id, this.#request.subarray(this.#idAt, this.#idAt + ID_LENGTH));
    try {
      let written = 0;
      while (written < this.#request.length) {
        written += await this.#connection.write(this.#request.subarray(written));
      }
      return await this.#readStatus(this.#connection);
    } catch (error) {
      this.#connection.close();
      throw error;
    }
  }

  async #readStatus(connection: Deno.TcpConn): Promise<number> {
    let answer = "";
    for (;;) {
      const length = await connection.read(this.#buffer);
      if (length === null) throw new Error("The connection was closed");
      answer += decoder.decode(this.#buffer.subarray(0, length));
      const headEnd = answer.indexOf("\r\n\r\n");
      if (headEnd < 0) continue;
      const bodyLength = Number(/\r\ncontent-length: (\d+)/i.exec(answer)?.[1] ?? 0);
      if (answer.length >= headEnd + 4 + bodyLength) return Number(answer.slice(9, 12));
    }
  }
}
