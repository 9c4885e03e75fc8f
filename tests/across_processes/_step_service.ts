/** A service on loopback that is called by steps, and processes that are killed at chosen moments of these calls. */
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import type { StoreAddress } from "../events/store/engines/_engine.ts";

/** Options of the process in `_step_worker.ts`. */
export interface StepWorkerOptions {
  readonly at: StoreAddress;
  /** The address of the service. */
  readonly service: string;
  readonly leaseMs: number;
  /** The number of steps of its handler; 0 for one that writes a comment. */
  readonly steps: number;
  /** Number of attempts after which an event is reported, of a handler that fails; undefined for the other handlers. */
  readonly reportAfter?: number;
}

/** Call of a process: its id, and what it asks. */
export type Asked = { readonly pid: number; readonly id: string } & Record<string, unknown>;

/** Answers a call by its path. It may kill the process that has sent it. */
export type Answer = (path: string, asked: Asked, herd: Herd) => unknown;

/** The number of processes that work beside each other. */
const PROCESSES = 2;

/** Processes that work on one store, each of which is replaced when it is killed. */
export class Herd implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #options: Omit<StepWorkerOptions, "service">;
  readonly #script: URL;
  readonly #running = new Map<number, RunningApp>();
  readonly #ending: PromiseLike<unknown>[] = [];
  /** The ids of the processes that were killed. */
  readonly killed = new Set<number>();
  #isOver = false;

  /** Starts the service and the processes, which run a script beside this one. */
  constructor(
    options: Omit<StepWorkerOptions, "service">,
    answer: Answer,
    script = "./_step_worker.ts",
  ) {
    this.#options = options;
    this.#script = new URL(script, import.meta.url);
    const serve = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(serve, async (request) => {
      const path = new URL(request.url).pathname.slice(1);
      return Response.json(await answer(path, await request.json(), this) ?? null);
    });
    for (let i = 0; i < PROCESSES; i++) this.#start();
  }

  /** The ids of the processes that run. */
  get running(): readonly number[] {
    return [...this.#running.keys()];
  }

  /** Kills a process, unless it is dead, and starts another one in its place. */
  async kill(pid: number): Promise<void> {
    const app = this.#running.get(pid);
    if (!app) return;
    this.#running.delete(pid);
    this.killed.add(pid);
    app.process.kill("SIGKILL");
    await app.process.status;
    this.#ending.push(app[Symbol.asyncDispose]());
    if (!this.#isOver) this.#start();
  }

  /** Ends all processes and the service. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.running.map((pid) => this.kill(pid)));
    await Promise.all(this.#ending);
    await this.#server.shutdown();
  }

  #start(): void {
    const { port } = this.#server.addr;
    const options = { ...this.#options, service: `http://127.0.0.1:${port}` };
    const app = startApp({ script: this.#script, args: [JSON.stringify(options)] });
    app.url.catch(() => {});
    this.#running.set(app.process.pid, app);
  }
}
