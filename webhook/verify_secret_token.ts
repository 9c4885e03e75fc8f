import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/** Tokens are padded to a multiple of this length before they are compared, in bytes. */
const BLOCK_BYTES = 512;

const encoder = new TextEncoder();

/**
 * Checks a secret token. The comparison takes the same time wherever the two differ, and for all lengths
 * up to 512 bytes: a messenger's tokens have 256 at most.
 *
 * @param token The token of the request.
 * @param secret The token that was agreed on.
 * @returns Whether they are the same; false for an empty secret.
 * @category Steps of an intake
 */
export function verifySecretToken(token: string, secret: string): boolean {
  return typeof token === "string" &&
    new SecretToken(secret).isSame(encoder.encode(token));
}

/** A secret token, encoded once and compared with each request's. */
export class SecretToken {
  readonly #bytes: Uint8Array;
  readonly #padded: Uint8Array;

  /** @param secret The token that was agreed on. */
  constructor(secret: string) {
    this.#bytes = encoder.encode(typeof secret === "string" ? secret : "");
    this.#padded = padded(this.#bytes, blocksOf(this.#bytes));
  }

  /** Checks that a request's token is this one, as {@linkcode verifySecretToken} does. */
  isSame(token: Uint8Array): boolean {
    const blocks = Math.max(blocksOf(token), blocksOf(this.#bytes), 1);
    const agreed = this.#padded.byteLength === blocks * BLOCK_BYTES
      ? this.#padded
      : padded(this.#bytes, blocks);
    const isSame = timingSafeEqual(padded(token, blocks), agreed);
    const size = this.#bytes.byteLength;
    return isSame && token.byteLength === size && size > 0;
  }
}

function blocksOf({ byteLength }: Uint8Array): number {
  return Math.ceil(byteLength / BLOCK_BYTES);
}

function padded(bytes: Uint8Array, blocks: number): Uint8Array {
  const padded = new Uint8Array(blocks * BLOCK_BYTES);
  padded.set(bytes);
  return padded;
}
