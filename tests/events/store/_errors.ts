/** Errors as apps meet them, each with its cause: what differs between two errors of a cause is random. */

/** An error, and the number of its cause. */
export interface LabelledError {
  readonly cause: number;
  readonly error: string;
}

/** Makes the same numbers for the same seed, from 0 to 1. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const OWNERS = ["octocat", "acme-inc", "Microsoft", "x", "the-2nd-team", "deno.land"];
const NAMES = ["hello-world", "bot", "Spoon.Knife", "api_v2", "web", "infra-2024", "a"];
const PEOPLE = ["alice", "bob99", "Zoë Müller", "o'brien", "李雷", "d_j", "maria.lopez"];
const TITLES = ["Crash on start", "It's broken", 'Say "hi"', "100% CPU", "feat: {x}", "fix [core]"];

/** Makes the random parts of errors. */
class Parts {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  int(min: number, max: number): number {
    return min + Math.floor(this.#random() * (max - min + 1));
  }

  of<T>(list: readonly T[]): T {
    return list[this.int(0, list.length - 1)]!;
  }

  text(length: number, letters = "0123456789abcdef"): string {
    return Array.from({ length }, () => this.of([...letters])).join("");
  }

  uuid(): string {
    return [8, 4, 4, 4, 12].map((length) => this.text(length)).join("-");
  }

  sha(): string {
    return this.text(40);
  }

  repo(): string {
    return `${this.of(OWNERS)}/${this.of(NAMES)}`;
  }

  iso(): string {
    return new Date(1.7e12 + this.int(0, 1e10)).toISOString();
  }

  token(): string {
    return this.text(
      this.int(20, 36),
      "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789",
    ) + "7";
  }
}

/** The causes: each makes one of its errors. Those behind the 20th were written after the rules had been. */
const CAUSES: readonly ((p: Parts) => string)[] = [
  (p) =>
    `HttpError: Not Found - https://docs.github.com/rest/issues/issues#get-an-issue ${
      p.of(["", "(req " + p.uuid() + ")"])
    }`.trim(),
  (p) =>
    `HttpError: API rate limit exceeded for installation ID ${
      p.int(1e6, 9e7)
    }. If you reach out to GitHub Support for help, please include the request ID ${p.text(4)}:${
      p.text(6)
    }:${p.text(7)}`,
  (p) =>
    `HttpError: You have exceeded a secondary rate limit. Please wait ${
      p.int(1, 9) * 10
    } seconds before you try again`,
  (p) =>
    `HttpError: Validation Failed: {"resource":"Label","code":"already_exists","field":"name","value":${
      JSON.stringify(p.of(TITLES))
    }}`,
  (p) =>
    `TypeError: error sending request for url (https://api.github.com/repos/${p.repo()}/issues/${
      p.int(1, 9999)
    }/comments?per_page=${p.int(1, 100)}): connection reset`,
  (p) =>
    `TypeError: error sending request for url (https://hooks.slack.com/services/T${p.text(8)}/B${
      p.text(8)
    }/${p.token()}): connection reset`,
  (p) =>
    `TypeError: Cannot read properties of undefined (reading 'title') at issue #${p.int(1, 9999)}`,
  (p) =>
    `TypeError: Cannot read properties of undefined (reading 'login') at issue #${p.int(1, 9999)}`,
  (p) => `TypeError: Cannot read properties of null (reading 'title') at issue #${p.int(1, 9999)}`,
  (p) =>
    `GrammyError: Call to 'sendMessage' failed! (403: Forbidden: bot was blocked by the user) in chat ${
      p.int(1e6, 9e9)
    }`,
  (p) =>
    `GrammyError: Call to 'sendMessage' failed! (429: Too Many Requests: retry after ${
      p.int(1, 99)
    })`,
  (p) =>
    `GrammyError: Call to 'sendMessage' failed! (400: Bad Request: chat not found) in chat -100${
      p.int(1e9, 9e9)
    }`,
  (p) =>
    `PostgresError: duplicate key value violates unique constraint "users_pkey" (id)=(${
      p.of([String(p.int(1, 1e6)), p.uuid()])
    })`,
  (p) =>
    `PostgresError: duplicate key value violates unique constraint "issues_number_key" (number)=(${
      p.int(1, 1e6)
    })`,
  (p) =>
    `PostgresError: deadlock detected: process ${
      p.int(100, 9999)
    } waits for ShareLock on transaction ${p.int(1e4, 1e7)}; blocked by process ${
      p.int(100, 9999)
    }`,
  (p) =>
    `Error: connect ECONNREFUSED ${
      p.of(["127.0.0.1", "10.0." + p.int(0, 255) + ".7", "::1"])
    }:5432`,
  (p) =>
    `Error: connect ECONNREFUSED ${
      p.of(["127.0.0.1", "10.0." + p.int(0, 255) + ".7", "::1"])
    }:6379`,
  (p) => `TimeoutError: The handler has reached its time limit of ${p.int(1, 900) * 1000} ms`,
  (p) =>
    `SyntaxError: Unexpected token '<', "<!DOCTYPE ${
      p.of(["html", "HTML PUBLIC"])
    }"... is not valid JSON`,
  (p) =>
    `SyntaxError: Unterminated string in JSON at position ${p.int(10, 9999)} (line ${
      p.int(1, 99)
    } column ${p.int(1, 99)})`,
  // Not looked at while the rules were written.
  (p) =>
    `Error: Request failed with status code 502 after ${p.int(100, 9000)}ms (attempt ${
      p.int(1, 5)
    } of 5, id ${p.uuid()})`,
  (p) =>
    `Error: Request failed with status code 401 after ${p.int(100, 9000)}ms (attempt ${
      p.int(1, 5)
    } of 5, id ${p.uuid()})`,
  (p) =>
    `SqliteError: database is locked, waited since ${p.iso()} (${
      (p.int(1, 90) / 10).toFixed(1)
    } s)`,
  (p) =>
    `Error: Could not check out ${
      p.sha().slice(0, p.of([7, 8, 12, 40]))
    } of ${p.repo()}: object not found`,
  (p) =>
    `StripeInvalidRequestError: No such customer: '${
      "cus_" + p.token().slice(0, 14)
    }'; a similar object exists in live mode`,
  (p) =>
    `Error: User ${JSON.stringify(p.of(PEOPLE))} <${p.text(6, "abcdefgh")}@example${
      p.int(1, 9)
    }.com> is not a member of the team`,
  (p) =>
    `DOMException: Signal timed out. (GET https://${p.of(["eu", "us"])}-west${
      p.int(1, 4)
    }.api.example.com/v2/builds/${p.token()})`,
  (p) =>
    `Error: ENOENT: no such file or directory, open '/tmp/${p.token()}/${
      p.of(NAMES)
    }/package.json'`,
  (p) =>
    `RangeError: Payload of ${
      p.of([p.int(100, 999) + " kB", (p.int(10, 99) / 10) + " MB", p.int(1, 9) + ",000,000 bytes"])
    } is over the limit of 25 MB`,
  (p) =>
    `AiError: overloaded_error: Overloaded (request_id: req_${p.token()}), model answered at ${p.iso()}`,
];

/** The number of causes. */
export const CAUSE_COUNT = CAUSES.length;

/** The number of causes that the rules were written with: the others are held back. */
export const SEEN_COUNT = 20;

/** Makes labelled errors: so many of each cause. */
export function labelledErrors(each: number, seed = 1): LabelledError[] {
  const parts = new Parts(seed);
  return CAUSES.flatMap((make, cause) =>
    Array.from({ length: each }, () => ({ cause, error: make(parts) }))
  );
}
