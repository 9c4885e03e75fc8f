/** Time after which a turn is given on although its work has not ended, in milliseconds: a database may never answer. */
const LONGEST_MS = 30_000;

/** Turns of work that is hard for the database: a few at a time, in the order in which they were asked for. */
export class Turns {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  /** @param max The number of those at a time. */
  constructor(max: number) {
    this.#free = max;
  }

  /** Does work in its turn. Returns its result, or rejects as it does. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    let isOver = false;
    const giveOn = () => {
      if (isOver) return;
      isOver = true;
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    };
    const timer = setTimeout(giveOn, LONGEST_MS);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      giveOn();
    }
  }
}
