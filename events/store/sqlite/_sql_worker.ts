import type { SQLOutputValue } from "node:sqlite";

/** A row of an answer. */
export type AnsweredRow = Readonly<Record<string, SQLOutputValue>>;

/** Identity of a file. On Windows it may be unknown. */
export type FileId = Pick<Deno.FileInfo, "dev" | "ino">;

/** A file that is to be opened. */
interface Opening {
  readonly path: string;
  /** The files that must be there by their paths. */
  readonly files: Readonly<Record<string, FileId>>;
  /** Statements that are run at once, one of which reads. */
  readonly setup: string;
}

/** Message to the Worker: to open a file, to run a statement, or to close the file. */
type Told = { readonly open: Opening } | { readonly sql: string } | { readonly close: true };

/** Answer of the Worker. */
type Answer = { readonly row: AnsweredRow | undefined } | {
  readonly error: string;
  readonly code: number | undefined;
};

/** The Worker's end of the channel. */
interface Port {
  onmessage: (message: { readonly data: Told }) => void;
  postMessage(answer: Answer): void;
}

/** The program of the Worker. Its text is loaded, so it uses nothing of this file. */
async function serve(): Promise<void> {
  const { DatabaseSync } = await import("node:sqlite");
  const port = globalThis as unknown as Port;
  let db: InstanceType<typeof DatabaseSync> | undefined;
  function answer(told: Told): AnsweredRow | undefined {
    if ("sql" in told) return db?.prepare(told.sql).all().at(0);
    if ("open" in told) open(told.open);
    else db?.close();
    return undefined;
  }
  function open({ path, files, setup }: Opening): void {
    const check = () => {
      for (const [each, { dev, ino }] of Object.entries(files)) {
        const found = Deno.statSync(each);
        if (found.dev !== dev || found.ino !== ino) throw new Error("the file has been replaced");
      }
    };
    // SQLite makes a file that is missing, and when it first reads that, it deletes the log beside it.
    check();
    db = new DatabaseSync(path);
    check();
    db.exec(setup);
  }
  port.onmessage = ({ data }) => {
    try {
      port.postMessage({ row: answer(data) });
    } catch (error) {
      const { message, errcode: code } = error as Error & { readonly errcode?: number };
      port.postMessage({ error: message, code });
    }
  };
}

/** The program as a URL: nothing of it is read from a disk or a registry. */
const PROGRAM = `data:text/javascript,${encodeURIComponent(`await (${serve})();`)}`;

/**
 * A Worker with a connection to a file. It runs one statement at a time. Starting it holds the event loop for some
 * 20 ms, once, and takes 15 MB of memory.
 */
export class SqlWorker {
  readonly #worker: Worker;
  #answered: PromiseWithResolvers<AnsweredRow | undefined> | undefined;

  constructor() {
    this.#worker = new Worker(PROGRAM, { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#answer(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#answered?.reject(new Error(event.message));
    };
  }

  /**
   * Opens a file.
   *
   * @param opening The file.
   * @throws {Error} If it cannot be opened, or another one is there.
   */
  async open(opening: Opening): Promise<void> {
    await this.#tell({ open: opening });
  }

  /**
   * Runs a statement.
   *
   * @param sql The statement.
   * @returns The first row of its answer; undefined if there is none.
   * @throws {Error} If SQLite refuses it, with the `errcode`.
   */
  async run(sql: string): Promise<AnsweredRow | undefined> {
    return await this.#tell({ sql });
  }

  /** Closes the file, and ends the Worker. */
  async close(): Promise<void> {
    try {
      await this.#tell({ close: true });
    } finally {
      this.#worker.terminate();
    }
  }

  #tell(told: Told): Promise<AnsweredRow | undefined> {
    this.#answered = Promise.withResolvers();
    this.#worker.postMessage(told);
    return this.#answered.promise;
  }

  #answer(answer: Answer): void {
    if ("row" in answer) return this.#answered?.resolve(answer.row);
    const error = Object.assign(new Error(answer.error), { errcode: answer.code });
    this.#answered?.reject(error);
  }
}
