/**
 * Keeps all answers, output and stored values of the tests' apps for `dev/tools/find_secrets.ts`. Deno loads it
 * before each test module (`deno task test --preload tests/_record.ts`); without `RECORD_FOLDER` it does
 * nothing. Tests need no change: it wraps the functions of Deno that an app writes with.
 *
 * @module
 */

import { noteTests } from "./_note_tests.ts";

function record(folder: string): void {
  noteTests(`${folder}/tests-${crypto.randomUUID()}`);
  const answers = new Writer(`${folder}/answers-${crypto.randomUUID()}`);
  const output = new Writer(`${folder}/output-${crypto.randomUUID()}`);
  const kvs = `${folder}/kvs`;
  Deno.mkdirSync(kvs, { recursive: true });
  keepKvs(kvs);
  const endResponses = recordResponses(answers.write);
  recordSockets(answers.write);
  recordProcesses(output.write, kvs);
  addEventListener("unload", () => {
    endResponses();
    answers.flush();
    output.flush();
  });
}

type Write = (what: string | Uint8Array) => void;

/** Appends to a file, a MiB at a time: nothing is open when a test ends. */
class Writer {
  readonly #path: string;
  #parts: Uint8Array[] = [];
  #size = 0;

  constructor(path: string) {
    this.#path = path;
  }

  readonly write: Write = (what) => {
    const bytes = typeof what === "string" ? new TextEncoder().encode(`${what}\n`) : what.slice();
    this.#parts.push(bytes);
    this.#size += bytes.length;
    if (this.#size > 1024 * 1024) this.flush();
  };

  flush(): void {
    for (const part of this.#parts) Deno.writeFileSync(this.#path, part, { append: true });
    [this.#parts, this.#size] = [[], 0];
  }
}

/** KVs in memory are files instead, and no temporary folder is removed. */
function keepKvs(kvs: string): void {
  const { openKv, makeTempDir, remove } = Deno;
  // It has no setter.
  const value = (path?: string) => openKv(path === ":memory:" ? newFile(kvs) : path);
  Object.defineProperty(Deno, "openKv", { value });
  Deno.makeTempDir = (options) => makeTempDir({ dir: kvs, ...options });
  Deno.remove = async (path, options) => {
    if (!String(path).startsWith(kvs)) await remove(path, options);
  };
}

const newFile = (kvs: string) => `${kvs}/memory-${crypto.randomUUID()}.db`;

/** All responses that are made or received: their bodies, and what their headers are in the end. */
function recordResponses(write: Write): () => void {
  let pending: Response[] = [];
  const flush = () => {
    for (const { status, headers } of pending) write(`${status} ${JSON.stringify([...headers])}`);
    pending = [];
  };
  const note = (response: Response) => {
    if (pending.push(response) >= 1_000) flush();
    return response;
  };
  globalThis.Response = new Proxy(Response, {
    construct(target, args, newTarget) {
      const [body] = args;
      if (typeof body === "string" || body instanceof Uint8Array) write(body);
      return note(Reflect.construct(target, args, newTarget));
    },
  });
  const { fetch } = globalThis;
  globalThis.fetch = async (...args) => {
    const response = await fetch(...args);
    const { status, statusText, headers } = response;
    if (response.body === null) return note(response);
    return new Response(await response.bytes(), { status, statusText, headers });
  };
  return flush;
}

/** Records what comes over sockets. */
function recordSockets(write: Write): void {
  const connect = Deno.connect as (options: Deno.ConnectOptions) => Promise<Deno.TcpConn>;
  Deno.connect = (async (options: Deno.ConnectOptions) => {
    const connection = await connect(options);
    const read = connection.read.bind(connection);
    connection.read = async (buffer) => {
      const count = await read(buffer);
      if (count) write(buffer.subarray(0, count));
      return count;
    };
    return connection;
  }) as typeof Deno.connect;
}

/** Records what processes write, which tests read; their KVs in memory are files, too. */
function recordProcesses(write: Write, kvs: string): void {
  // Nothing is read ahead of the test: a reading that is open at its end is found as a leak.
  const recorded = (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => {
    const reader = stream.getReader();
    return new ReadableStream<Uint8Array<ArrayBuffer>>({
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        write(value);
        controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    }, { highWaterMark: 0 });
  };
  const { Command } = Deno;
  Deno.Command = class extends Command {
    readonly #options: Deno.CommandOptions;

    constructor(path: string | URL, options: Deno.CommandOptions = {}) {
      // On Deno Deploy no app starts on a file, nor does one that may not read any.
      const mayRead = /\s(-A|--allow-all|--allow-read|-P)/.test(` ${options.args?.join(" ")}`);
      const inMemory = options.env?.KV_URL === ":memory:" && !options.env.DENO_DEPLOY && mayRead;
      const used = inMemory
        ? { ...options, env: { ...options.env, KV_URL: newFile(kvs) } }
        : options;
      super(path, used);
      this.#options = used;
    }

    override spawn(): Deno.ChildProcess {
      const child = super.spawn();
      const piped = (["stdout", "stderr"] as const).filter((name) =>
        this.#options[name] === "piped"
      );
      for (const name of piped) {
        Object.defineProperty(child, name, { value: recorded(child[name]) });
      }
      if (piped.length === 2) Object.defineProperty(child, "output", { value: () => all(child) });
      return child;
    }

    override async output(): Promise<Deno.CommandOutput> {
      const output = await super.output();
      for (const name of ["stdout", "stderr"] as const) {
        if ((this.#options[name] ?? "piped") === "piped") write(output[name]);
      }
      return output;
    }
  };
}

async function all(child: Deno.ChildProcess): Promise<Deno.CommandOutput> {
  const bytesOf = (stream: ReadableStream<Uint8Array<ArrayBuffer>>) => new Response(stream).bytes();
  const [status, stdout, stderr] = await Promise.all([
    child.status,
    bytesOf(child.stdout),
    bytesOf(child.stderr),
  ]);
  return { ...status, stdout, stderr };
}

// What is published, and its reference, hold the secrets of its examples. Others have no app: their steps follow a clock
// or a disk of their own, and must not wait for files that are kept.
const isOfApps =
  !/\/tests\/(publish\/|docs\/reference_test|events\/worker\/|events\/store\/sqlite\/)/
    .test(Deno.mainModule);
const folder = isOfApps && Deno.permissions.querySync({ name: "env" }).state === "granted"
  ? Deno.env.get("RECORD_FOLDER")
  : undefined;
if (folder !== undefined) record(folder);
