import { createHash, createHmac, randomBytes } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { ipNetwork, MemoryRateLimitStore } from "../middleware/mod.ts";
import { MAX_TOKEN_LENGTH } from "./_tokens.ts";

/** Time for a form to arrive, in milliseconds. */
export const FORM_TIMEOUT_MS = 10_000;

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

/** Longest time until a session ends: a working day. */
export const SESSION_MS = 12 * 3_600_000;

/** Part of that which a session begins with less: the clock of the instance that reads it may be behind. */
const CLOCKS_MS = 60_000;

/** Form of a cookie's value: role, end, id, signature. */
const VALUE = /^(viewer|operator)\.([0-9a-z]{8,9})\.([0-9a-f]{16})\.([\w-]{43})$/;

/** Secrets of a role. */
interface RoleKeys {
  readonly role: Role;
  /** Digest of its token. */
  readonly digest: Uint8Array;
  /** Key that its sessions are signed with. */
  readonly key: Uint8Array;
}

/**
 * Sessions, which are in signed cookies and not in the KV: every instance of an app knows them.
 *
 * Each role has a key of its own, made of its token and of nothing else: whoever knows the token of one role
 * cannot sign sessions of another, and they end when that token changes.
 */
export class Sessions {
  readonly #roles: readonly RoleKeys[];
  /**
   * Id of all sessions together, for the name of their cookie. It is made of the key of the lowest role: if it
   * depended on an operator's token, viewers could test guesses of that without being counted.
   */
  readonly id: string;

  /**
   * @param name The name of the app, so that no cookie is valid for another one.
   * @param tokens The tokens.
   */
  constructor(name: string, { viewerToken, operatorToken }: Tokens) {
    const tokens = [["operator", operatorToken], ["viewer", viewerToken]] as const;
    this.#roles = tokens.flatMap(([role, token]) => {
      if (token === undefined) return [];
      const key = digestOf(JSON.stringify(["console session", name, role, token]));
      return [{ role, digest: digestOf(token), key }];
    });
    const lowest = this.#roles.at(-1);
    this.id = lowest
      ? createHmac("sha256", lowest.key).update("cookie").digest("hex").slice(0, 8)
      : "";
  }

  /** Finds the role that a token gives, in a time that does not depend on it; undefined for none. */
  roleOf(token: string): Role | undefined {
    const given = digestOf(token.slice(0, MAX_TOKEN_LENGTH + 1));
    const found = this.#roles.filter(({ digest }) => timingSafeEqual(digest, given));
    return found[0]?.role;
  }

  /**
   * Begins a session, and makes the value of its cookie.
   *
   * @throws {Error} If the role has no token.
   */
  begin(role: Role, now: number = Date.now()): string {
    const key = this.#keyOf(role);
    if (!key) throw new Error(`Cannot begin a session: there is no token for the role '${role}'`);
    const id = randomBytes(8).toString("hex");
    const content = `${role}.${(now + SESSION_MS - CLOCKS_MS).toString(36)}.${id}`;
    return `${content}.${sign(key, content)}`;
  }

  /**
   * Reads the value of a cookie; undefined if it is not valid, its role has no token, or it does not end within
   * the length of a session.
   */
  read(value: string | undefined, now: number = Date.now()): Session | undefined {
    const [, role, end, id, signature] = VALUE.exec(value ?? "") ?? [];
    const key = this.#keyOf(role);
    if (signature === undefined || !key) return undefined;
    const expected = sign(key, `${role}.${end}.${id}`);
    if (!timingSafeEqual(bytesOf(expected), bytesOf(signature))) return undefined;
    const expiresAt = parseInt(end!, 36);
    const isValid = expiresAt > now && expiresAt <= now + SESSION_MS;
    return isValid ? { role: role as Role, id: id!, expiresAt } : undefined;
  }

  #keyOf(role: string | undefined): Uint8Array | undefined {
    return this.#roles.find((each) => each.role === role)?.key;
  }
}

const sign = (key: Uint8Array, content: string) =>
  createHmac("sha256", key).update(content).digest("base64url");

const bytesOf = (text: string) => new TextEncoder().encode(text);

const digestOf = (text: string): Uint8Array =>
  new Uint8Array(createHash("sha256").update(text).digest());

/** Tries that one address has in a minute, but for those with a right token. */
const MAX_TRIES = 10;

const WINDOW_MS = 60_000;

/**
 * Counts of tries, for each address by itself: by a limit for all together, anybody could keep operators from
 * logging in. Nobody guesses a token of 32 random characters. A try counts from its beginning, so an address has
 * no more forms under way than it has tries left.
 */
export class LoginTries {
  readonly #failed = new MemoryRateLimitStore({ maxKeys: 10_000 });
  readonly #underWay = new Map<string, number>();

  /**
   * Begins a try, before anything of it is read.
   *
   * @returns 0 if the address may try; otherwise for how long it may not, in milliseconds.
   */
  begin(ip: string | undefined): number {
    const key = keyOf(ip);
    const { count, resetMs } = this.#failed.get(key, WINDOW_MS);
    const underWay = this.#underWay.get(key) ?? 0;
    if (count + underWay >= MAX_TRIES) return count >= MAX_TRIES ? resetMs : FORM_TIMEOUT_MS;
    this.#underWay.set(key, underWay + 1);
    return 0;
  }

  /** Ends a try. One without a right token has failed, whatever came of its form. */
  end(ip: string | undefined, isRight: boolean): void {
    const key = keyOf(ip);
    const underWay = this.#underWay.get(key)! - 1;
    if (underWay > 0) this.#underWay.set(key, underWay);
    else this.#underWay.delete(key);
    if (!isRight) this.#failed.increment(key, WINDOW_MS);
  }
}

const keyOf = (ip: string | undefined) => ip === undefined ? "unknown" : ipNetwork(ip);
