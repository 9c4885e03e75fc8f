/** What an app logs, a record a line. */
export type Line = Readonly<Record<string, unknown>>;

/** An app's process, and what it wrote so far. */
export interface AppProcess extends AsyncDisposable {
  readonly process: Deno.ChildProcess;
  readonly lines: readonly Line[];
  /** Resolves with its address once it listens. */
  readonly url: Promise<string>;
  /** Waits for a record, and fails if it does not come within 20 s. */
  line(matches: (line: Line) => boolean): Promise<Line>;
  /** Resolves once all is read that it wrote, with what came on the standard error. */
  readonly ended: Promise<string>;
  /** How many records there are with a message, of an event or of any. */
  count(message: string, id?: string): number;
}

/** A record that an app has not written by then will never come. */
const LINE_TIMEOUT_MS = 20_000;

/** Reads what an app's process writes, and kills it when it goes out of scope. */
export function follow(process: Deno.ChildProcess): AppProcess {
  const lines: Line[] = [];
  const waiting = new Set<() => void>();
  const following = (async () => {
    let rest = "";
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
      const complete = (rest + text).split("\n");
      rest = complete.pop() ?? "";
      lines.push(...complete.map((line) => JSON.parse(line)));
      for (const look of waiting) look();
    }
  })();
  const errors = new Response(process.stderr).text();
  const ended = Promise.all([following, errors]).then(([, text]) => text);
  const line = (matches: (line: Line) => boolean) =>
    new Promise<Line>((resolve, reject) => {
      const fail = (why: string) => reject(new Error(`${why}: ${JSON.stringify(lines)}`));
      const timer = setTimeout(fail, LINE_TIMEOUT_MS, "The app does not write what is waited for");
      const look = () => {
        const found = lines.find(matches);
        if (found === undefined) return;
        clearTimeout(timer);
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      look();
      following.then(() => {
        clearTimeout(timer);
        fail("The app ended");
      });
    });
  const url = line(({ message }) => message === "listening")
    .then(({ hostname, port }) => `http://${hostname}:${port}`);
  url.catch(() => {});
  return {
    process,
    lines,
    url,
    line,
    ended,
    count: (message, id) =>
      lines.filter((line) =>
        line.message === message && (id === undefined || (line.deliveryId ?? line.id) === id)
      )
        .length,
    [Symbol.asyncDispose]: async () => {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended already.
      }
      await Promise.all([process.status, ended]);
    },
  };
}
