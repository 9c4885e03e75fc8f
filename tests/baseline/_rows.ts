import { assertEquals, assertNotEquals } from "@std/assert";
import { forgeDelivery, type SignedRequest } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import {
  type Start,
  startBaseline,
  startEdgeBase,
  type Subject,
  type SubjectOptions,
} from "./_subject.ts";

/** Something that is done to both subjects alike, and its results. */
export interface Row {
  /** The package's answer to it. */
  readonly what: string;
  /** Does it, and returns the result. */
  readonly probe: (start: Start) => Promise<unknown>;
  /** Result that has to come of it. */
  readonly wanted: unknown;
  /** Result with the baseline, on Deno 2.9.6; left out where that is the wanted one. */
  readonly baseline?: unknown;
}

const NEEDS = ["net", "read", "write", "run", "env"] as const;

/**
 * Registers a row's tests: that the package does what is wanted, and that the baseline does not. The
 * second shows that the first can fail, and why the package is there. What the baseline does is stated
 * exactly, so that a version of Deno or of a library that does better is noticed.
 */
export function testRow({ what, probe, wanted, ...row }: Row): void {
  testWith(NEEDS, `edge-base: ${what}`, async () => {
    assertEquals(await probe(startEdgeBase), wanted);
  });
  if (!("baseline" in row)) {
    testWith(NEEDS, `the baseline passes, too: ${what}`, async () => {
      assertEquals(await probe(startBaseline), wanted);
    });
    return;
  }
  testWith(NEEDS, `the baseline fails: ${what}`, async () => {
    assertNotEquals(row.baseline, wanted);
    assertEquals(await probe(startBaseline), row.baseline);
  });
}

/** A probe of a subject that is started as it is by default. */
export function running<T>(probe: (subject: Subject) => Promise<T>): (start: Start) => Promise<T> {
  return async (start) => {
    await using subject = await start();
    return await probe(subject!);
  };
}

/** A probe that sends requests one by one and tells their statuses; 0 where there was no answer. */
export function statuses(
  requests: readonly (() => RequestInit | Promise<RequestInit>)[],
  path?: string,
): (start: Start) => Promise<number[]> {
  return running(async (subject) => {
    const seen: number[] = [];
    for (const request of requests) {
      seen.push((await subject.send(await request(), path))?.status ?? 0);
    }
    return seen;
  });
}

/** A probe of a subject whose KV is a file, and which can be started again on it. */
export function inFile(
  options: SubjectOptions,
  probe: (subject: Subject, again: () => Promise<Subject>, path: string) => Promise<unknown>,
): (start: Start) => Promise<unknown> {
  return async (start) => {
    let seen: unknown;
    await withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      const started: Subject[] = [];
      const again = async () => {
        started.push((await start({ ...options, env: { ...options.env, KV_URL: path } }))!);
        return started.at(-1)!;
      };
      try {
        seen = await probe(await again(), again, path);
      } finally {
        for (const subject of started) await subject[Symbol.asyncDispose]();
      }
    });
    return seen;
  };
}

/** A delivery that tells the handler what to do. */
export function task(
  id: string,
  handlerMs: number,
  fails = false,
): SignedRequest {
  return forgeDelivery(JSON.stringify({ id, handlerMs, fails }));
}
