import { createHash, createHmac, randomBytes } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { ipNetwork, MemoryRateLimitStore } from "../middleware/mod.ts";

/** Role of a reader: a viewer looks, an operator acts as well. */
export type Role = "viewer" | "operator";

/** Session of a reader. */
export interface Session {
  /** Role. */
  readonly role: Role;
  /** Id, for the records of acts. */
  readonly id: string;
  /** Time at which it ends, milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Tokens that readers log in with. */
export interface Tokens {
  /** Token of viewers. */
  readonly viewerToken?: string | undefined;
  /** Token of operators. */
  readonly operatorToken?: string | undefined;
}

/** Length of a session: a working day. */
export const SESSION_MS = 12 * 3_600_000;

/** Longest text that is compared with a token. */
const MAX_TOKEN_LENGTH = 1_024;

/** Form of a cookie's value: role, end, id, signature. */
const VALUE = /^(viewer|operator)\.([0-9a-z]{8,9})\.([0-9a-f]{16})\.([\w-]{43})$/;

/** Sessions, which are in signed cookies and not in the KV: every instance of an app knows them. */
export class Sessions {
  readonly #digests: readonly (readonly [Role, Uint8Array])[];
  readonly #key: Uint8Array;
  /** Id of all sessions together, for the name of their cookie: it differs with the app and its tokens. */
  readonly id: string;

  /**
   * Derives the key that cookies are signed with from the tokens: sessions end when one of them changes.
   *
   * @param name The name of the app, so that no cookie is valid for another one.
   * @param tokens The tokens.
   */
  constructor(name: string, { viewerToken, operatorToken }: Tokens) {
    const tokens = [["operator", operatorToken], ["viewer", viewerToken]] as const;
    this.#digests = tokens.flatMap(([role, token]) =>
      token === undefined ? [] : [[role, digestOf(token)] as const]
    );
    const all = JSON.stringify(["console session", name, viewerToken ?? 0, operatorToken ?? 0]);
    this.#key = digestOf(all);
    const id = createHmac("sha256", this.#key).update("cookie").digest("hex");
    this.id = id.slice(0, 8);
  }

  /** Finds the role that a token gives, in a time that does not depend on it; undefined for none. */
  roleOf(token: string): Role | undefined {
    const digest = digestOf(token.slice(0, MAX_TOKEN_LENGTH + 1));
    const found = this.#digests.filter(([, own]) => timingSafeEqual(own, digest));
    return found[0]?.[0];
  }

  /** Begins a session, and makes the value of its cookie. */
  begin(role: Role, now: number = Date.now()): string {
    const id = randomBytes(8).toString("hex");
    const content = `${role}.${(now + SESSION_MS).toString(36)}.${id}`;
    return `${content}.${this.#sign(content)}`;
  }

  /** Reads the value of a cookie; undefined if it is not valid, or the session has ended. */
  read(value: string | undefined, now: number = Date.now()): Session | undefined {
    const [, role, end, id, signature] = VALUE.exec(value ?? "") ?? [];
    if (signature === undefined) return undefined;
    const expected = this.#sign(`${role}.${end}.${id}`);
    if (!timingSafeEqual(bytesOf(expected), bytesOf(signature))) return undefined;
    const expiresAt = parseInt(end!, 36);
    return expiresAt > now ? { role: role as Role, id: id!, expiresAt } : undefined;
  }

  #sign(content: string): string {
    return createHmac("sha256", this.#key).update(content).digest("base64url");
  }
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

const digestOf = (text: string): Uint8Array =>
  new Uint8Array(createHash("sha256").update(text).digest());

/** Wrong tokens that one address may send in a minute. */
const MAX_TRIES = 10;

const WINDOW_MS = 60_000;

/**
 * Counts of wrong tokens, for each address by itself: by a limit for all together, anybody could keep operators
 * from logging in. Nobody guesses a token of 32 random characters.
 */
export class LoginTries {
  readonly #addresses = new MemoryRateLimitStore({ maxKeys: 10_000 });

  /** Tells for how long an address may not try again, in milliseconds; 0 if it may. */
  waitFor(ip: string | undefined): number {
    const own = this.#addresses.get(keyOf(ip), WINDOW_MS);
    return own.count >= MAX_TRIES ? own.resetMs : 0;
  }

  /** Counts a wrong token. */
  count(ip: string | undefined): void {
    this.#addresses.increment(keyOf(ip), WINDOW_MS);
  }
}

const keyOf = (ip: string | undefined) => ip === undefined ? "unknown" : ipNetwork(ip);
