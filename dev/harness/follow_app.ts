/** A record that an app has logged. */
export type Line = Readonly<Record<string, unknown>>;

/** An app in another process, and its output so far. */
export interface RunningApp extends AsyncDisposable {
  readonly process: Deno.ChildProcess;
  /** Its address, once it listens; it rejects if the app ends instead. */
  readonly url: Promise<string>;
  /** The records it has logged. */
  readonly lines: readonly Line[];
  /** The lines it has written to either of its outputs. */
  readonly output: readonly string[];
  /** Waits for a record, and fails if it does not come within 20 s. */
  line(matches: (line: Line) => boolean): Promise<Line>;
  /** The number of records with a message, of one event or of all. */
  count(message: string, id?: string): number;
  /** Resolves with its standard error, once all of its output is read. */
  readonly ended: Promise<string>;
  /** Asks it to stop, waits until it has, and returns its exit code; it is killed after 20 s. */
  stop(): Promise<number>;
}

/** A record that an app has not written by then will never come. */
const LINE_TIMEOUT_MS = 20_000;

/** An app that was asked to stop and has not by then never will. */
const STOP_TIMEOUT_MS = 20_000;

/** Reads what an app's process writes, until it is killed at the end of the scope. */
export function follow(process: Deno.ChildProcess, text = false): RunningApp {
  return new FollowedApp(process, text);
}

class FollowedApp implements RunningApp {
  readonly url: Promise<string>;
  readonly lines: Line[] = [];
  readonly output: string[] = [];
  readonly ended: Promise<string>;
  readonly #counts = new Map<unknown, number>();
  readonly #waiting = new Set<() => void>();

  constructor(readonly process: Deno.ChildProcess, readonly text: boolean) {
    const records = eachLine(process.stdout, (some) => this.#read(some));
    const errors = eachLine(process.stderr, (some) => this.#note(some));
    this.ended = Promise.all([records, errors]).then(([, text]) => text);
    this.url = this.#until(() => urlOf(this.lines, this.output));
    this.url.catch(() => {});
  }

  #note(some: readonly string[]): void {
    this.output.push(...some);
    for (const check of this.#waiting) check();
  }

  #read(some: readonly string[]): void {
    for (const line of some.filter((each) => !this.text || each.startsWith("{"))) {
      const record: Line = JSON.parse(line);
      this.lines.push(record);
      this.#counts.set(record.message, this.count(String(record.message)) + 1);
    }
    this.#note(some);
  }

  /** Looks for something after each line, and fails once there will be none. */
  #until<T>(find: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const fail = (why: string) => {
        clearTimeout(timer);
        this.#waiting.delete(check);
        reject(new Error(`${why}:\n${this.output.join("\n")}`));
      };
      const timer = setTimeout(fail, LINE_TIMEOUT_MS, "The app does not write what is waited for");
      const check = () => {
        const found = find();
        if (found === undefined) return;
        clearTimeout(timer);
        this.#waiting.delete(check);
        resolve(found);
      };
      this.#waiting.add(check);
      check();
      this.ended.then(() => fail("The app ended"), () => fail("The app wrote no record"));
    });
  }

  line(matches: (line: Line) => boolean): Promise<Line> {
    return this.#until(() => this.lines.find(matches));
  }

  count(message: string, id?: string): number {
    if (id === undefined) return this.#counts.get(message) ?? 0;
    const isOf = (line: Line) => line.message === message && (line.deliveryId ?? line.id) === id;
    return this.lines.filter(isOf).length;
  }

  async stop(): Promise<number> {
    this.process.kill("SIGTERM");
    const tooLong = setTimeout(() => killNow(this.process), STOP_TIMEOUT_MS);
    await this.ended;
    clearTimeout(tooLong);
    return (await this.process.status).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    killNow(this.process);
    await Promise.all([this.process.status, this.ended]);
  }
}

/** Kills a process, if it has not ended by itself. */
export function killNow(process: Deno.ChildProcess): void {
  try {
    process.kill("SIGKILL");
  } catch {
    // It has ended already.
  }
}

/** Reads a stream to its end, hands on its lines as they come, and returns all of its text. */
async function eachLine(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  see: (lines: readonly string[]) => void,
): Promise<string> {
  const all: string[] = [];
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    all.push(text);
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    see(lines);
  }
  return all.join("");
}

/** The address in the record or the text that tells that an app listens. */
function urlOf(lines: readonly Line[], output: readonly string[]): string | undefined {
  const record = lines.find(({ message }) => message === "listening");
  if (record !== undefined) return `http://${record.hostname}:${record.port}`;
  const text = output.find((line) => /^listening on \d+$/.test(line));
  return text && `http://127.0.0.1:${text.split(" ").at(-1)}`;
}
